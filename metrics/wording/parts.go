package wording

import (
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Colons joins the non-empty parts with colons.
func Colons(parts ...string) string { return joined(": ", parts) }

// Dotted joins the non-empty parts with middle dots.
func Dotted(parts ...string) string { return joined(" · ", parts) }

// Why joins the cause of an exit and its message. It omits an unknown cause if there is a message.
func Why(cause, message string) string {
	if cause == event.CauseUnknown && message != "" {
		cause = ""
	}
	return Colons(cause, message)
}

func joined(separator string, parts []string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, strings.Join(strings.Fields(p), " "))
		}
	}
	return strings.Join(kept, separator)
}
