package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

func TestAlarmsAreOnTheTimelineAndInTheSnapshot(t *testing.T) {
	s := startedStore(t, Options{})
	require.Empty(t, snapshot(t, s, testRun).Alarms)
	at := func(time float64, round int) event.Event {
		return event.Event{Type: event.TypeAlarm, Run: testRun, Time: time, Message: "a lower rate",
			Alarm: &event.Alarm{Round: round, Recent: 0.5, Reference: 0.25, Action: event.AlarmWarn}}
	}
	record(t, s, at(110, 139), at(120, 250), at(110, 139))
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer r.Close()
	entries, err := r.Timeline(t.Context(), testRun, 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, at(110, 139), entries[0].Event)
	alarms, err := r.Alarms(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []Alarm{{*at(0, 139).Alarm, 110, "a lower rate"}, {*at(0, 250).Alarm, 120, "a lower rate"}}, alarms)
	require.Equal(t, alarms, snapshot(t, s, testRun).Alarms)
	require.Error(t, s.Record(t.Context(), event.Event{Type: event.TypeAlarm, Run: testRun, Time: 110}))
}

func TestRunsThatTheAlarmStopped(t *testing.T) {
	require.True(t, Run{State: RunStopped, Message: AlarmStop + " in round 139: grown"}.StoppedByAlarm())
	require.False(t, Run{State: RunRunning, Message: AlarmStop}.StoppedByAlarm(), "it goes on")
	require.False(t, Run{State: RunStopped, Message: "stopped by SIGINT"}.StoppedByAlarm())
}
