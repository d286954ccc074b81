package terminal

import "github.com/sapo-swarm/swarm/internal/charset"

// Capable tells whether a terminal of that environment can show a live view: one that can move its cursor.
func Capable(environ []string) bool {
	return charset.Value(environ, "TERM") != "dumb"
}
