package task

import (
	"encoding/json"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCalendarArithmeticGolden(t *testing.T) {
	task := mustTask(t, defaultCalendar(), newCalendarArithmetic)
	testGoldenItems(t, task)
	testGoldenScores(t, task, 1e-12)
}

type calendarMetadata struct {
	Task       string
	Year       int
	Month      int
	Ordinal    string
	Weekday    string
	FirstDay   string `json:"first_day"`
	StartDate  string `json:"start_date"`
	EndDate    string `json:"end_date"`
	TargetDate string `json:"target_date"`
	OffsetDays int    `json:"offset_days"`
}

// Each answer equals the result of walking through the calendar day by day.
func TestCalendarArithmeticAgainstWalking(t *testing.T) {
	params := defaultCalendar()
	params.Tasks = calendarTaskNames()
	task := mustTask(t, params, newCalendarArithmetic)
	asked := regexp.MustCompile(`^(?:How many times is it|Count each|How often does a) (\w+day) `)
	seen := map[string]int{}
	for index := range int64(700) {
		item := task.Item(11, index)
		var m calendarMetadata
		require.NoError(t, json.Unmarshal(item.Metadata, &m))
		seen[m.Task]++
		start, target := parseISO(t, m.StartDate), parseISO(t, m.TargetDate)
		var want string
		switch m.Task {
		case "weekday_of_date":
			want = target.Weekday().String()
		case "weekday_offset":
			require.Equal(t, m.OffsetDays, daysBetween(start, target))
			want = target.Weekday().String()
			require.Contains(t, item.Question, start.Format("Monday, January 2, 2006"))
		case "weekday_of_date_from_first_date":
			names, day := weekdayNames(), 0
			for names[day] != m.FirstDay {
				day++
			}
			for range target.YearDay() - 1 {
				day = (day + 1) % 7
			}
			want = names[day]
		case "count_days":
			weekday := asked.FindStringSubmatch(item.Question)
			require.NotNil(t, weekday, item.Question)
			want = countDates(start, parseISO(t, m.EndDate), func(d time.Time) bool { return d.Weekday().String() == weekday[1] })
		case "count_business_days":
			want = countDates(start, parseISO(t, m.EndDate), func(d time.Time) bool {
				return d.Weekday() != time.Saturday && d.Weekday() != time.Sunday
			})
		case "recurring_event_day":
			var days []int
			for d := time.Date(m.Year, time.Month(m.Month), 1, 0, 0, 0, 0, time.UTC); int(d.Month()) == m.Month; d = d.AddDate(0, 0, 1) {
				if d.Weekday().String() == m.Weekday {
					days = append(days, d.Day())
				}
			}
			position := map[string]int{"first": 0, "second": 1, "third": 2, "fourth": 3, "last": len(days) - 1}[m.Ordinal]
			want = strconv.Itoa(days[position])
		case "is_leap_year":
			want = "No"
			if time.Date(m.Year, 2, 29, 0, 0, 0, 0, time.UTC).Month() == time.February {
				want = "Yes"
			}
			require.Contains(t, item.Question, strconv.Itoa(m.Year))
		}
		require.Equal(t, want, *item.Answer, item.Question)
		require.Equal(t, 1.0, task.Score(item, item.Answer))
	}
	require.Len(t, seen, 7)
}

func countDates(start, end time.Time, wanted func(time.Time) bool) string {
	count := 0
	for d := start; !d.After(end); d = d.AddDate(0, 0, 1) {
		if wanted(d) {
			count++
		}
	}
	return strconv.Itoa(count)
}

func parseISO(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	date, err := time.Parse(time.DateOnly, text)
	require.NoError(t, err)
	return date
}

// An untrusted sender's answer key cannot push a score above 1.
func TestCalendarScoreOfForgedItems(t *testing.T) {
	task := mustTask(t, defaultCalendar(), newCalendarArithmetic)
	metadata := json.RawMessage(`{"task":"count_days"}`)
	for oracle, want := range map[string]float64{"-5": 0, "0": 0, "x": 0, "": 0} {
		answer := "7"
		require.Equal(t, want, task.Score(Item{Answer: &oracle, Metadata: metadata}, &answer), oracle)
	}
	empty := ""
	require.Zero(t, task.Score(Item{Answer: &empty, Metadata: json.RawMessage(`{"task":"is_leap_year"}`)}, &empty))
	require.Zero(t, task.Score(Item{Answer: &empty, Metadata: json.RawMessage(`{"task":"weekday_offset"}`)}, &empty))
	require.Zero(t, task.Score(Item{Metadata: metadata}, &empty))
}

func FuzzScoreCalendarArithmetic(f *testing.F) {
	fuzzScore(f, mustTask(f, defaultCalendar(), newCalendarArithmetic))
}
