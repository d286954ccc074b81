package wording

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// An alarm says what was found, what follows and what to try.
func TestAlarmLine(t *testing.T) {
	t.Parallel()
	e := event.Event{Type: event.TypeAlarm, Message: "a lower rate", Alarm: &event.Alarm{Round: 139, Recent: 0.51, Reference: 0.3, Action: event.AlarmWarn}}
	const found = "alarm in round 139: the gradient norm has grown to 1.70 times that of rounds 20 to 60, training may collapse"
	require.Equal(t, found+". Try: a lower rate", Event(e))
	e.Alarm.ExpectedGrowth = 1
	require.Equal(t, found+". Try: a lower rate", Event(e))
	e.Alarm.ExpectedGrowth = 1.05
	require.Equal(t, "the gradient norm has grown to 1.70 times that of rounds 20 to 60 (the share of groups with an advantage: to 1.05 times)", Alarm(*e.Alarm))
	e.Alarm.ExpectedGrowth = 1
	e.Alarm.Action, e.Message = event.AlarmStop, ""
	require.Equal(t, found+"; the run stops", Event(e))
	e.Alarm.Action, e.Alarm.LowerFrom = event.AlarmLower, 159
	require.Equal(t, found+"; the learning rate is lower from round 159 on", Event(e))
	e.Alarm = nil
	require.Empty(t, Event(e))
}

// An unknown cause adds nothing to a message.
func TestWhy(t *testing.T) {
	t.Parallel()
	require.Equal(t, "killed by signal 9 (killed)", Why(event.CauseUnknown, "killed by signal 9 (killed)"))
	require.Equal(t, "out_of_memory: 3 GB asked for", Why("out_of_memory", "3 GB asked for"))
	require.Equal(t, "unknown", Why(event.CauseUnknown, ""))
	require.Empty(t, Why("", ""))
	e := event.Event{Type: event.TypeExit, Node: "node_1", Cause: event.CauseUnknown, Message: "killed by signal 9 (killed)"}
	require.NotContains(t, Event(e), "unknown")
}
