package task

import (
	"fmt"
	"strconv"
	"time"
)

// calendarDraw draws one question of a sub-task.
type calendarDraw struct {
	rng    *rng
	params calendarParams
}

// calendarQuestion holds a question, its answer, and the metadata before source_dataset.
type calendarQuestion struct {
	text, answer string
	metadata     object
}

func weekdayNames() []string {
	return []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
}

// weekdayIndex counts from Monday = 0, as the library does; Go counts from Sunday.
func weekdayIndex(date time.Time) int { return (int(date.Weekday()) + 6) % 7 }

func dateOf(year, month, day int) time.Time {
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
}

func daysBetween(start, end time.Time) int { return int(end.Sub(start) / (24 * time.Hour)) }

func lastDayOf(year, month int) int { return dateOf(year, month+1, 0).Day() }

func isoDate(date time.Time) string { return date.Format(time.DateOnly) }

// dateInYear draws a date of the configured year: the month first, then the day within it.
func (g calendarDraw) dateInYear() time.Time {
	month := g.rng.draw(1, 12)
	return dateOf(g.params.Year, month, g.rng.draw(1, lastDayOf(g.params.Year, month)))
}

// dateWithin draws a date from start to days after it.
func (g calendarDraw) dateWithin(start time.Time, days int) time.Time {
	return start.AddDate(0, 0, g.rng.draw(0, days))
}

func (g calendarDraw) yearEnd() time.Time { return dateOf(g.params.Year, 12, 31) }

func (g calendarDraw) anyDateOfYear() time.Time {
	first := dateOf(g.params.Year, 1, 1)
	return g.dateWithin(first, daysBetween(first, g.yearEnd()))
}

func (g calendarDraw) weekdayOffset() calendarQuestion {
	start := g.dateInYear()
	offset := g.rng.draw(1, g.params.OffsetUpperBound)
	templates, signed := forwardTemplates(), offset
	if choose(g.rng, []int{-1, 1}) < 0 {
		templates, signed = backwardTemplates(), -offset
	}
	target := start.AddDate(0, 0, signed)
	text := fmt.Sprintf(choose(g.rng, templates), longDate(start), offset)
	return calendarQuestion{text + " " + choose(g.rng, dayPhrases()), target.Weekday().String(), object{
		{"task", "weekday_offset"}, {"start_date", isoDate(start)}, {"offset_days", signed},
		{"target_date", isoDate(target)},
	}}
}

func (g calendarDraw) weekdayOfDate() calendarQuestion {
	date := g.dateInYear()
	text := fmt.Sprintf(choose(g.rng, weekdayTemplates()),
		date.Format("January 2, 2006"), date.Format("01/02/2006"))
	return calendarQuestion{text + " " + choose(g.rng, dayPhrases()), date.Weekday().String(), object{
		{"task", "weekday_of_date"}, {"target_date", isoDate(date)},
	}}
}

func (g calendarDraw) weekdayFromFirstDate() calendarQuestion {
	first := g.rng.draw(0, 6)
	newYear := dateOf(g.params.Year, 1, 1)
	days := min(g.params.OffsetUpperBound, daysBetween(newYear, g.yearEnd()))
	date := newYear
	for date.Equal(newYear) {
		date = g.dateWithin(newYear, days)
	}
	delta := daysBetween(newYear, date)
	firstName := weekdayNames()[first]
	text := fmt.Sprintf(choose(g.rng, firstDayTemplates()), firstName, date.Format("January 2"))
	return calendarQuestion{text + " " + choose(g.rng, dayPhrases()), weekdayNames()[(first+delta)%7], object{
		{"task", "weekday_of_date_from_first_date"}, {"year", g.params.Year}, {"first_day", firstName},
		{"target_date", isoDate(date)}, {"delta_days", delta},
	}}
}

func (g calendarDraw) recurringEventDay() calendarQuestion {
	year, month := g.params.Year, g.rng.draw(1, 12)
	ordinal := choose(g.rng, []string{"first", "second", "third", "fourth", "last"})
	weekday := g.rng.draw(0, 6)
	day := 1 + (weekday-weekdayIndex(dateOf(year, month, 1))+7)%7
	switch ordinal {
	case "second":
		day += 7
	case "third":
		day += 14
	case "fourth":
		day += 21
	case "last":
		day += (lastDayOf(year, month) - day) / 7 * 7
	}
	name := weekdayNames()[weekday]
	text := fmt.Sprintf(choose(g.rng, eventTemplates()), ordinal, name, dateOf(year, month, 1).Format("January 2006"))
	return calendarQuestion{
		text + " " + choose(g.rng, countPhrases()) + " If there is none, answer -1.", strconv.Itoa(day), object{
			{"task", "recurring_event_day"}, {"year", year}, {"month", month}, {"ordinal", ordinal}, {"weekday", name},
		}}
}

func (g calendarDraw) countDays() calendarQuestion {
	start := g.anyDateOfYear()
	end := g.dateWithin(start, min(daysBetween(start, g.yearEnd()), g.params.OffsetUpperBound))
	weekday := g.rng.draw(0, 6)
	toFirst := (weekday - weekdayIndex(start) + 7) % 7
	count := (daysBetween(start, end) - toFirst + 7) / 7
	text := fmt.Sprintf(choose(g.rng, countTemplates()), weekdayNames()[weekday], longDate(start), longDate(end))
	return calendarQuestion{text + " " + choose(g.rng, countPhrases()), strconv.Itoa(count), object{
		{"task", "count_days"}, {"year", g.params.Year}, {"start_date", isoDate(start)}, {"end_date", isoDate(end)},
	}}
}

func (g calendarDraw) countBusinessDays() calendarQuestion {
	start := g.anyDateOfYear()
	end := g.dateWithin(start, g.params.OffsetUpperBound)
	days := daysBetween(start, end) + 1
	count := days / 7 * 5
	for i := range days % 7 {
		if (weekdayIndex(start)+i)%7 < 5 {
			count++
		}
	}
	text := fmt.Sprintf(choose(g.rng, businessTemplates()), longDate(start), longDate(end))
	return calendarQuestion{text + " " + choose(g.rng, countPhrases()), strconv.Itoa(count), object{
		{"task", "count_business_days"}, {"start_date", isoDate(start)}, {"end_date", isoDate(end)},
	}}
}

func (g calendarDraw) isLeapYear() calendarQuestion {
	half := g.params.LeapYearRange / 2
	year := g.rng.draw(g.params.Year-half, g.params.Year+half)
	leap := year%4 == 0 && (year%100 != 0 || year%400 == 0)
	answer := "No"
	if leap {
		answer = "Yes"
	}
	text := fmt.Sprintf(choose(g.rng, leapTemplates()), year)
	return calendarQuestion{text + " Answer Yes or No.", answer, object{
		{"task", "is_leap_year"}, {"year", year}, {"is_leap", leap},
	}}
}
