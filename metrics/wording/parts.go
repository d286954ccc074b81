package wording

import (
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Colons puts colons between the parts that aren't empty.
func Colons(parts ...string) string { return joined(": ", parts) }

// Dotted puts middle dots between the parts that aren't empty.
func Dotted(parts ...string) string { return joined(" · ", parts) }

// Why is the cause of an end and what is known about it. A cause that is not known says nothing beside a message.
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
