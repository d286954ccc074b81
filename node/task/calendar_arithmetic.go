package task

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
)

// calendarParams are the library's parameters of calendar_arithmetic.
type calendarParams struct {
	Year int `mapstructure:"year" yaml:"year" json:"year"`
	// Tasks are the sub-tasks to draw from, in order.
	Tasks []string `mapstructure:"tasks" yaml:"tasks" json:"tasks"`
	// OffsetUpperBound is the longest span between two dates, in days.
	OffsetUpperBound int `mapstructure:"offset_upper_bound" yaml:"offset_upper_bound" json:"offset_upper_bound"`
	// LeapYearRange is the width of the range around Year from which is_leap_year draws, in years.
	LeapYearRange int `mapstructure:"leap_year_range" yaml:"leap_year_range" json:"leap_year_range"`
}

func defaultCalendar() calendarParams {
	return calendarParams{
		Year: 2023, Tasks: []string{"count_days", "weekday_of_date", "is_leap_year", "recurring_event_day"},
		OffsetUpperBound: 100, LeapYearRange: 200,
	}
}

// Validate returns an error with the first invalid key, its value and the allowed values. The bounds keep all dates
// within the years 1 to 9999.
func (p calendarParams) Validate() error {
	errs := []error{
		checkRange("year", p.Year, 101, 9899),
		checkRange("offset_upper_bound", p.OffsetUpperBound, 1, 36_000),
		checkRange("leap_year_range", p.LeapYearRange, 0, 200),
	}
	if len(p.Tasks) == 0 {
		errs = append(errs, errors.New("tasks is empty: it must hold some of "+strings.Join(calendarTaskNames(), ", ")))
	}
	for _, name := range p.Tasks {
		errs = append(errs, checkChoice("tasks", name, calendarTaskNames()...))
	}
	return cmp.Or(errs...)
}

func calendarTaskNames() []string {
	return []string{
		"weekday_offset", "weekday_of_date", "weekday_of_date_from_first_date", "recurring_event_day",
		"count_days", "count_business_days", "is_leap_year",
	}
}

// calendarArithmetic asks for weekdays, counts of days and leap years of the Gregorian calendar.
type calendarArithmetic struct{ params calendarParams }

func newCalendarArithmetic(params calendarParams) (Task, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	params.Tasks = slices.Clone(params.Tasks)
	return calendarArithmetic{params}, nil
}

func (calendarArithmetic) Name() string { return "calendar_arithmetic" }

func (t calendarArithmetic) Item(seed, index int64) Item {
	g := calendarDraw{rng: newRNG(seed, index), params: t.params}
	var q calendarQuestion
	switch name := choose(g.rng, t.params.Tasks); name {
	case "weekday_offset":
		q = g.weekdayOffset()
	case "weekday_of_date":
		q = g.weekdayOfDate()
	case "weekday_of_date_from_first_date":
		q = g.weekdayFromFirstDate()
	case "recurring_event_day":
		q = g.recurringEventDay()
	case "count_days":
		q = g.countDays()
	case "count_business_days":
		q = g.countBusinessDays()
	default:
		q = g.isLeapYear()
	}
	metadata := append(q.metadata,
		field{"source_dataset", t.Name()}, field{"source_index", index},
		field{"difficulty", object{
			{"tasks", t.params.Tasks}, {"offset_upper_bound", t.params.OffsetUpperBound},
		}})
	return Item{Question: q.text, Answer: &q.answer, Metadata: metadata.encode()}
}

// Score follows metadata.task. Weekdays: 1 for the right one, 0.1 for another one, 0.05 for any in unusual
// capitalization. Numbers: exp(-5·|n-oracle|/oracle). Leap years: 1 for the right yes or no.
func (calendarArithmetic) Score(item Item, answer *string) float64 {
	var m struct {
		Task string `json:"task"`
	}
	if answer == nil || item.Answer == nil || readMetadata(item, &m) != nil {
		return 0
	}
	switch m.Task {
	case "weekday_offset", "weekday_of_date", "weekday_of_date_from_first_date":
		return scoreWeekday(*item.Answer, pyStrip(*answer))
	case "count_days", "count_business_days", "recurring_event_day":
		return scoreCount(*item.Answer, *answer)
	case "is_leap_year":
		if candidate := pyStrip(*answer); candidate != "" && lowerASCII(candidate) == lowerASCII(*item.Answer) {
			return 1
		}
	}
	return 0
}

func scoreWeekday(oracle, candidate string) float64 {
	switch {
	case candidate == "":
		return 0
	case candidate == oracle:
		return 1
	case slices.Contains(weekdayNames(), candidate):
		return 0.1
	}
	// Python's title() turns a leading long s into a capital S.
	if rest, found := strings.CutPrefix(candidate, "ſ"); found {
		candidate = "s" + rest
	}
	folded := lowerASCII(candidate)
	for _, name := range weekdayNames() {
		if folded == lowerASCII(name) {
			return 0.05
		}
	}
	return 0
}

func scoreCount(oracle, candidate string) float64 {
	n, ok := pyParseInt(candidate)
	if !ok {
		return 0
	}
	want, ok := pyParseInt(oracle)
	if !ok {
		return 0
	}
	if n.Cmp(want) == 0 {
		return 1
	}
	// The library's exponential needs a positive oracle. It never makes a negative one.
	if want.Sign() <= 0 {
		return 0
	}
	difference := new(big.Int).Sub(n, want)
	relative, _ := new(big.Rat).SetFrac(difference.Abs(difference), want).Float64()
	return math.Exp(-5 * relative)
}

// lowerASCII converts A-Z to lower case and leaves other characters unchanged.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
