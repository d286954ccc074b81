package units

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// ageUnits are the units of ParseAge.
var ageUnits = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': day, 'w': week}

// AgeRule says what ParseAge allows.
const AgeRule = "a number and m, h, d or w: 90m, 12h, 30d, 4w"

// ParseAge reads an age such as 30d: a number above or equal to 0, and a unit of minutes, hours, days or weeks.
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

// Age is a duration in one unit, rounded down: 45s, 12m, 5h, 13d. A negative one, as of clocks that differ, is 0s.
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
