package wording

import (
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/alarm"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Alarm describes the growth that an alarm has found.
func Alarm(a event.Alarm) string {
	text := fmt.Sprintf("the gradient norm has grown to %.2f times that of rounds %d to %d", a.Recent/a.Reference, alarm.From, alarm.To)
	if a.ExpectedGrowth >= 1.005 {
		text += fmt.Sprintf(" (the share of groups with an advantage: to %.2f times)", a.ExpectedGrowth)
	}
	return text
}

// alarmLine describes an alarm event: the growth, the consequence and the remedy.
func alarmLine(e event.Event) string {
	if e.Alarm == nil {
		return ""
	}
	text := fmt.Sprintf("alarm in round %d: %s, training may collapse", e.Alarm.Round, Alarm(*e.Alarm))
	switch e.Alarm.Action {
	case event.AlarmStop:
		text += "; the run stops"
	case event.AlarmLower:
		text += fmt.Sprintf("; the learning rate is lower from round %d on", e.Alarm.LowerFrom)
	}
	if e.Message != "" {
		text += ". Try: " + e.Message
	}
	return text
}

// selected warns about means that leave out the runs that the alarm stopped.
const selected = "The mean of the others is too high: it leaves out the runs that seemed to collapse."

// alarmed says how many runs of each arm the alarm stopped. It returns an empty text if there are none.
func alarmed(runs []stats.StudyRun) string {
	var arms []string
	stopped := map[string]int{}
	for _, r := range runs {
		if !store.StoppedByAlarm(r.State, r.Message) || r.Again {
			continue
		}
		if !slices.Contains(arms, r.Name) {
			arms = append(arms, r.Name)
		}
		stopped[r.Name]++
	}
	var parts []string
	for _, arm := range arms {
		parts = append(parts, fmt.Sprintf("%s of %s", units.Plural(stopped[arm], "run"), arm))
	}
	if parts == nil {
		return ""
	}
	return "But the alarm stopped " + units.List(parts, "and") + ". " + selected
}
