package coordinator

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// A service leaves a run only if this host's nodes all gave up on this boot, and the newest attempts failed without a
// new round.
func TestAServiceGivesUpAfterFruitlessAttempts(t *testing.T) {
	t.Parallel()
	self, err := supervise.Identify(os.Getpid())
	require.NoError(t, err)
	for name, x := range map[string]struct {
		attempts int
		round    int         // attempt with a new round; 0: none
		state    event.State // of the second attempt
		boot     string
		nodes    []string // that give up
		workers  bool     // a worker's node is in the run
		declined bool
	}{
		"hopeless":              {3, 0, "failed", self.Boot, []string{"node_0", "node_1"}, false, true},
		"more attempts":         {5, 2, "failed", self.Boot, []string{"node_0", "node_1"}, false, true},
		"a worker's node":       {3, 0, "failed", self.Boot, []string{"node_0", "node_1"}, true, true},
		"two attempts":          {2, 0, "failed", self.Boot, []string{"node_0", "node_1"}, false, false},
		"a new round":           {5, 3, "failed", self.Boot, []string{"node_0", "node_1"}, false, false},
		"stopped in between":    {3, 0, "stopped", self.Boot, []string{"node_0", "node_1"}, false, false},
		"crashed in between":    {3, 0, "", self.Boot, []string{"node_0", "node_1"}, false, false},
		"rebooted":              {3, 0, "failed", "another boot", []string{"node_0", "node_1"}, false, false},
		"another error":         {3, 0, "failed", self.Boot, []string{"node_0"}, false, false},
		"no nodes of this host": {3, 0, "failed", self.Boot, nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, ctx := filepath.Join(t.TempDir(), "swarm.db"), t.Context()
			db, err := store.Open(ctx, path, store.Options{})
			require.NoError(t, err)
			defer db.Close()
			own := []string{"node_0", "node_1"}
			if x.nodes == nil {
				own = nil
			}
			for attempt := 1; attempt <= x.attempts; attempt++ {
				now := float64(1000 * attempt)
				require.NoError(t, db.StartRun(ctx, store.Run{
					Run: "e-1", Experiment: "e", Seed: 42, Rounds: 9, NodeIDs: own, Started: now, BootID: x.boot, PID: 1, StartTicks: 1, Host: "h",
				}))
				var events []event.Event
				if x.workers {
					events = append(events, event.Event{Type: event.TypeJoin, Node: "w", Worker: "anna", Time: now + 1})
				}
				if attempt == x.round {
					events = append(events, event.Event{Type: event.TypeRound, Node: "node_1", Time: now + 2, Round: &event.Round{Round: 1}})
				}
				for _, n := range x.nodes {
					events = append(events, event.Event{Type: event.TypeGiveUp, Node: n, Time: now + 3, Message: "m"})
				}
				state := event.State("failed")
				if attempt == 2 {
					state = x.state
				}
				if state != "" {
					events = append(events, event.Event{Type: event.TypeRunEnded, Time: now + 4, State: state, Message: "m"})
				}
				for _, e := range events {
					e.Run = "e-1"
					require.NoError(t, db.Record(ctx, e))
				}
				require.NoError(t, db.Flush(ctx))
			}
			reader, err := store.OpenReader(ctx, path)
			require.NoError(t, err)
			defer reader.Close()
			s, err := reader.Snapshot(ctx, "e-1")
			require.NoError(t, err)
			d := decline(s, configs.Config{})
			require.Equal(t, x.declined, d != nil)
			if d != nil {
				require.Equal(t, fail.ExitLost, d.Code)
			}
		})
	}
}

// A run that the alarm stopped is left while its configuration stops such runs.
func TestAServiceLeavesARunThatTheAlarmStopped(t *testing.T) {
	t.Parallel()
	s := store.Snapshot{Run: store.Run{State: store.RunStopped, Message: store.AlarmStop + " in round 139: grown"}}
	d := decline(s, configs.Config{OnAlarm: configs.AlarmStop})
	require.Equal(t, &DeclinedError{store.AlarmStop + " in round 139: grown. The service does not continue it.", fail.ExitDone}, d)
	require.Nil(t, decline(s, configs.Config{OnAlarm: configs.AlarmWarn}))
	s.Run.State, s.Run.Message = store.RunRunning, "" // a person has continued it, and it crashed
	require.Nil(t, decline(s, configs.Config{OnAlarm: configs.AlarmStop}))
}
