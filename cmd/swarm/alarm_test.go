package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// growingTrainer is a --node-command whose gradient norm doubles after 100 rounds. With the argument hold it grows four
// times, and waits in round 150 to be stopped, unless it goes on from an earlier attempt.
func growingTrainer(t *testing.T) string {
	t.Helper()
	python := usablePython(t)
	bridge, err := filepath.Abs(filepath.Join("..", "..", "notebooks-bridge"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "train.py")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `import sys, time
sys.path.insert(0, %q)
import swarm_bridge
node = swarm_bridge.Node()
for number in range(node.start_round, node.rounds):
    if node.stopping:
        break
    node.round(number, reward=0.5, grad_norm=1.0 if number < 100 else 4.0 if "hold" in sys.argv else 2.0)
    deadline = time.monotonic() + 300
    while number == 150 and node.start_round == 0 and "hold" in sys.argv and not node.stopping:
        assert time.monotonic() < deadline, "nobody stopped this"
        time.sleep(0.01)
`, bridge), 0o600))
	return python + " " + path
}

func growingRun(t *testing.T, name, argument string, more ...string) []string {
	return append([]string{"up", "--node-command", growingTrainer(t) + " " + argument, "--name", name, "--device", "cpu", "--nodes", "2"}, more...)
}

const grown = "alarm in round 112: the gradient norm has grown to 1.65 times that of rounds 20 to 60, training may collapse"

// Gradients that grow raise the alarm once: in the events, the status and the report. The run goes on.
func TestAnAlarmIsRecordedAndShown(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := swarm(t, home, growingRun(t, "grown", "", "--rounds", "300", "-o", "json")...)
	require.Equal(t, 0, o.code, o.stderr)
	var alarms []event.Event
	for line := range strings.Lines(o.stdout) {
		var e event.Event
		if strings.Contains(line, `"type":"summary"`) {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		if e.Type == event.TypeAlarm {
			alarms = append(alarms, e)
		}
	}
	require.Len(t, alarms, 1)
	require.Equal(t, &event.Alarm{Round: 112, Recent: 1.65, Reference: 1, ExpectedGrowth: 1, Action: event.AlarmWarn}, alarms[0].Alarm)
	require.Equal(t, "a new run with a lower --learning-rate", alarms[0].Message)

	x := status(t, home)
	require.Equal(t, "done", x.State)
	require.Equal(t, &stats.Alarm{Alarm: *alarms[0].Alarm, Time: alarms[0].Time, Try: alarms[0].Message}, x.Alarm)
	require.Contains(t, swarm(t, home, "status").stdout, grown+". Try: a new run with a lower --learning-rate\n")
	require.Contains(t, swarm(t, home, "logs", "grown", "coordinator").stdout, grown)
	require.Contains(t, swarm(t, home, "report", "--out", "-").stdout, grown)
}

// With --on-alarm stop the run stops cleanly. A service does not continue it. A resumed run is not stopped by the same
// alarm again.
func TestAnAlarmStopsARunThatCanGoOn(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := growingRun(t, "ended", "hold", "--rounds", "200", "--on-alarm", "stop", "--service")
	o := swarm(t, home, up...)
	require.Equal(t, 1, o.code, o.stderr)
	const why = " in round 108: the gradient norm has grown to 2.35 times that of rounds 20 to 60"
	require.Contains(t, o.stdout, "alarm"+why+", training may collapse; the run stops. Try: a new run with a lower --learning-rate")
	require.Contains(t, o.stderr, "Error: stopped by the alarm"+why+"\n"+
		"Try: a new run with a lower --learning-rate, or swarm resume ended-1, which goes on with this one\n")
	x := status(t, home)
	require.Equal(t, "stopped", x.State)
	require.True(t, 109 <= x.Round && x.Round <= 151, x.Round)
	require.Equal(t, store.AlarmStop+why, x.Message)
	for _, n := range x.Nodes {
		require.Equal(t, "stopped", n.State)
	}

	o = swarm(t, home, up...)
	require.Equal(t, 0, o.code, "systemd would start another exit code again")
	require.Empty(t, o.stdout)
	require.Equal(t, "ended-1: "+store.AlarmStop+why+". The service does not continue it. To continue it: swarm --home "+home+" resume ended-1\n", o.stderr)
	require.Equal(t, x, status(t, home))

	o = swarm(t, home, "resume", "ended-1")
	require.Equal(t, 0, o.code, o.stderr)
	x = status(t, home)
	require.Equal(t, []any{"done", 200, 2}, []any{x.State, x.Round, x.Attempts})
	reader, err := store.OpenReader(t.Context(), filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer reader.Close()
	recorded, err := reader.Alarms(t.Context(), "ended-1")
	require.NoError(t, err)
	require.Len(t, recorded, 2)
	require.Equal(t, event.AlarmWarn, recorded[0].Action)
	require.Less(t, recorded[0].Round, 108, "a warning comes first")
	require.Equal(t, event.Alarm{Round: 108, Recent: 2.35, Reference: 1, ExpectedGrowth: 1, Action: event.AlarmStop}, recorded[1].Alarm)
}

// A sweep leaves a run that the alarm stopped, says so, and continues it when such runs are not to stop.
func TestASweepLeavesRunsThatTheAlarmStopped(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	args := func(more ...string) []string {
		return sweepArgs([]string{"8loc0ext", "4loc4ext"}, append([]string{"--rounds", "2", "--seeds", "1,"}, more...)...)
	}
	o := swarm(t, home, args("--on-alarm", "stop")...)
	require.Equal(t, 0, o.code, o.stderr)
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeRunEnded, Run: "4loc4ext-1", Time: event.Now() + 1, State: store.RunStopped,
		Message: store.AlarmStop + " in round 139: the gradient norm has grown"}))
	require.NoError(t, s.Close())

	o = swarm(t, home, args("--on-alarm", "stop", "-o", "json")...)
	require.Equal(t, 0, o.code, o.stderr)
	out := parseSweep(t, o.stdout)
	require.Empty(t, out.order(), "nothing is left to do")
	require.Equal(t, []int{2, 1, 0, 0, 1}, []int{out.summary.Runs, out.summary.Done, out.summary.Failed, out.summary.Left, out.summary.StoppedByAlarm})
	require.Equal(t, "done", out.summary.State)
	require.Equal(t, []bool{false, true}, []bool{out.summary.Rows[0].StoppedByAlarm, out.summary.Rows[1].StoppedByAlarm})
	o = swarm(t, home, args("--on-alarm", "stop")...)
	require.Regexp(t, `(?m)^4loc4ext +1 +stopped by the alarm +2/2 `, o.stdout)
	require.Contains(t, o.stdout, "1 run stopped by the alarm counts in no mean. --on-alarm warn continues such runs.")
	require.Contains(t, swarm(t, home, "compare", "8loc0ext", "4loc4ext").stdout, "4loc4ext: the alarm stopped its only run, which counts in no mean.")

	o = swarm(t, home, args("-o", "json")...)
	require.Equal(t, 0, o.code, o.stderr)
	out = parseSweep(t, o.stdout)
	require.Equal(t, []string{"4loc4ext/1"}, out.order())
	require.Equal(t, 2, out.summary.Done)
}
