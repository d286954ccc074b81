package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
)

// unknown is the text of an unknown value.
const unknown = "–"

// number formats a value with up to four digits.
func number(v *float64) string {
	if v == nil || !units.Finite(*v) {
		return unknown
	}
	if size := math.Abs(*v); size >= 1000 {
		return strconv.FormatFloat(*v, 'f', 1, 64)
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

// percent formats a ratio with its sign: +94.0 %.
func percent(v *float64) string {
	if v == nil || !units.Finite(*v) {
		return unknown
	}
	return fmt.Sprintf("%+.1f\u00a0%%", 100**v) // no-break space
}

// share formats a ratio without a sign: 94.0 %.
func share(v *float64) string { return strings.TrimPrefix(percent(v), "+") }

func pvalue(v *float64) string {
	switch {
	case v == nil || !units.Finite(*v):
		return unknown
	case *v < 0.0001:
		return "below 0.0001"
	}
	return strconv.FormatFloat(*v, 'g', 2, 64)
}

// interval formats low and high with a function. It is empty if there is no interval.
func interval(low, high *float64, format func(*float64) string) string {
	if low == nil || high == nil {
		return ""
	}
	return format(low) + " to " + format(high)
}

// gigabytes formats bytes with a no-break space. A value that is not above 0 was not measured.
func gigabytes(n int64) string { return strings.Replace(units.BytesMeasured(n), " ", "\u00a0", 1) }

// duration formats seconds as units.Span does, and values below 0.1 s in ms: 5.6 ms. It uses a no-break space before
// the unit.
func duration(s float64) string {
	text := units.Span(s)
	switch {
	case !units.Finite(s):
		return unknown
	case s < 0.1:
		text = strconv.FormatFloat(1000*max(0, s), 'f', digits(1000*s), 64) + " ms"
	}
	return strings.Replace(text, " ", "\u00a0", 1)
}

// digits returns the number of decimals for about two significant digits.
func digits(v float64) int {
	switch {
	case v >= 10:
		return 0
	case v >= 1:
		return 1
	}
	return 2
}

func optionalDuration(s *float64) string {
	if s == nil {
		return unknown
	}
	return duration(*s)
}

// energy formats joules as kilowatt-hours.
func energy(joules *float64) string {
	if joules == nil {
		return unknown
	}
	kwh := *joules / 3.6e6
	return strconv.FormatFloat(kwh, 'g', 3, 64) + " kWh"
}

// clock formats Unix seconds in UTC, because a report may be read in any time zone.
func clock(t float64) string {
	if !(t > 0) || t > 1e11 {
		return unknown
	}
	return time.Unix(int64(t), 0).UTC().Format("2006-01-02 15:04:05")
}
