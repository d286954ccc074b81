package terminal

import (
	"fmt"
	"math"
	"strings"
)

// reward formats an optional reward.
func reward(r *float64) string {
	if r == nil {
		return "–"
	}
	return fmt.Sprintf("%.3f", *r)
}

// bar draws a share, 0..1, as a bar of width cells.
func bar(share float64, width int) string {
	full := int(math.Round(min(1, max(0, share)) * float64(width)))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// sparkline draws the last width values, scaled from their least to their greatest.
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
