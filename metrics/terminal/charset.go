package terminal

import "github.com/sapo-swarm/swarm/internal/charset"

// Capable reports whether a terminal with that environment can move its cursor, which the live view needs.
func Capable(environ []string) bool {
	return charset.Value(environ, "TERM") != "dumb"
}
