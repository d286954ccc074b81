package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// ageUnits maps the unit letters of ParseAge to durations.
var ageUnits = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': day, 'w': week}

// AgeRule describes the texts that ParseAge accepts.
const AgeRule = "a number and m, h, d or w: 90m, 12h, 30d, 4w"

// ParseAge parses an age such as 30d: a number of at least 0 and a unit for minutes, hours, days or weeks.
func ParseAge(text string) (time.Duration, error) {
	if text == "" {
		return 0, fmt.Errorf("%q is not %s", text, AgeRule)
	}
	unit := ageUnits[text[len(text)-1]]
	n, err := strconv.ParseFloat(text[:len(text)-1], 64)
	nanoseconds := n * float64(unit)
	if err != nil || unit == 0 || !(n >= 0) || nanoseconds >= math.MaxInt64 {
		return 0, fmt.Errorf("%.40q is not %s", text, AgeRule)
	}
	return time.Duration(nanoseconds), nil
}

// Age formats a duration in one unit, rounded down: 45s, 12m, 5h, 13d. A negative duration, as from clocks that
// disagree, is 0s.
func Age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// Ago formats the time since at, to the second: 1h2m5s ago. Both arguments are Unix seconds. at = 0 gives never.
func Ago(at, now float64) string {
	if at == 0 {
		return "never"
	}
	return (time.Duration(max(0, now-at)) * time.Second).String() + " ago"
}

// Seconds converts a number of seconds to a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Span formats seconds in the two largest units: 0.4 s, 42s, 1m27s, 2h05m, 3d04h.
func Span(s float64) string {
	whole := time.Duration(math.Round(s)) * time.Second
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", max(0, s))
	case whole < time.Minute:
		return fmt.Sprintf("%ds", whole/time.Second)
	case whole < time.Hour:
		return fmt.Sprintf("%dm%02ds", whole/time.Minute, whole%time.Minute/time.Second)
	case whole < day:
		return fmt.Sprintf("%dh%02dm", whole/time.Hour, whole%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", whole/day, whole%day/time.Hour)
}

// Roughly formats seconds as an estimate in one unit: 40 s, 12 min, 1.5 h, 14 h, 3 days.
func Roughly(seconds float64) string {
	switch {
	case seconds < 90:
		return fmt.Sprintf("%.0f s", max(0, seconds))
	case seconds < 90*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 9.95*3600:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", seconds/3600), ".0") + " h"
	case seconds < 48*3600:
		return fmt.Sprintf("%.0f h", seconds/3600)
	}
	return fmt.Sprintf("%.0f days", seconds/86400)
}

// Exactly formats seconds as a Go duration, rounded to the second: 40s, 14h3m20s.
func Exactly(seconds float64) string { return Seconds(seconds).Round(time.Second).String() }

// Elapsed is Exactly, but to a tenth of a second below 10 s: 3.2s, 14h3m20s.
func Elapsed(seconds float64) string {
	if d := Seconds(seconds); d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return Exactly(seconds)
}
