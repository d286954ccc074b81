package terminal

import (
	"fmt"
	"math"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// reward formats an optional reward.
func reward(r *float64) string {
	if r == nil {
		return "–"
	}
	return fmt.Sprintf("%.3f", *r)
}

// join puts colons between the parts that aren't empty.
func join(parts ...string) string { return joined(": ", parts) }

// why is the cause of an end and what is known about it. A cause that is not known says nothing beside a message.
func why(cause, message string) string {
	if cause == event.CauseUnknown && message != "" {
		cause = ""
	}
	return join(cause, message)
}

// dotted puts middle dots between the parts that aren't empty.
func dotted(parts ...string) string { return joined(" · ", parts) }

func joined(separator string, parts []string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, strings.Join(strings.Fields(p), " "))
		}
	}
	return strings.Join(kept, separator)
}

// bar draws a share, 0..1, of width cells.
func bar(share float64, width int) string {
	full := int(math.Round(min(1, max(0, share)) * float64(width)))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// sparkline draws the last width values between their own least and greatest.
func sparkline(values []float64, width int) string {
	values = values[max(0, len(values)-max(0, width)):]
	if len(values) == 0 {
		return ""
	}
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range values {
		level := 0
		if high > low {
			level = int(math.Round((v - low) / (high - low) * float64(len(levels)-1)))
		}
		b.WriteRune(levels[level])
	}
	return b.String()
}
