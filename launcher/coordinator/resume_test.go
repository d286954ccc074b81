package coordinator

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/stretchr/testify/require"
)

// A --node-command and this program's own nodes do not continue each other's runs: one run would have rounds of
// both.
func TestResumeRefusesAnotherKindOfNodes(t *testing.T) {
	t.Parallel()
	one, other := plan.Trainer{Command: "python3 a.py"}, plan.Trainer{Command: "python3 b.py"}
	own := map[string]string{"model": "12ab"}
	for _, test := range []struct {
		began, goes map[string]string
		text        string
	}{
		{own, one.Inputs(), "its nodes are swarm's own nodes, not a --node-command's"},
		{nil, one.Inputs(), "its nodes are swarm's own nodes, not a --node-command's"},
		{one.Inputs(), own, "its nodes are a --node-command's, not swarm's own nodes"},
		{one.Inputs(), other.Inputs(), "run e-1 cannot continue with other contents of --node-command (sha256 "},
		{one.Inputs(), one.Inputs(), ""},
		{own, own, ""},
		{nil, own, ""}, // begun before swarm recorded inputs
	} {
		made, err := json.Marshal(Versions{Inputs: test.began})
		require.NoError(t, err)
		r := &Resume{Run: &store.Run{Run: "e-1", Versions: made}}
		if err := r.same(test.goes); test.text == "" {
			require.NoError(t, err)
		} else {
			var mistake *fail.UsageError
			require.ErrorAs(t, err, &mistake)
			require.ErrorContains(t, err, test.text)
		}
	}
}

// recordedRuns returns a database with runs of experiment e and seed 42, and a function that records another
// attempt at a run.
func recordedRuns(t *testing.T, home string, runs map[string]float64) (reader *store.Reader, begin func(run string, started float64)) {
	t.Helper()
	path := filepath.Join(home, "swarm.db")
	db, err := store.Open(context.Background(), path, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	begin = func(run string, started float64) {
		require.NoError(t, db.StartRun(context.Background(), store.Run{
			Run: run, Experiment: "e", Seed: 42, Rounds: 3, NodeIDs: []string{"node_0", "node_1"}, Started: started,
		}))
	}
	for run, started := range runs {
		begin(run, started)
	}
	reader, err = store.OpenReader(context.Background(), path)
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	return reader, begin
}

// If another process has run the experiment since the decision to start or continue a run, the decision is
// rejected. Otherwise the run would be done twice.
func TestADecisionOvertakenIsRefused(t *testing.T) {
	t.Parallel()
	ctx, c := context.Background(), configs.Config{Experiment: "e", Seed: 42}
	reader, begin := recordedRuns(t, t.TempDir(), nil)
	began := &Resume{}
	require.NoError(t, began.still(ctx, reader, c))
	begin("e-1", 1000)
	require.EqualError(t, began.still(ctx, reader, c), "another process has changed run e-1 in the meantime")
	require.NoError(t, (&Resume{Fresh: true}).still(ctx, reader, c))
	require.NoError(t, began.still(ctx, reader, configs.Config{Experiment: "e", Seed: 7}))

	run, err := reader.FindRun(ctx, "e", 42)
	require.NoError(t, err)
	goesOn := &Resume{Run: run}
	require.NoError(t, goesOn.still(ctx, reader, c))
	begin("e-1", 2000)
	require.EqualError(t, goesOn.still(ctx, reader, c), "another process has changed run e-1 in the meantime")
	run, err = reader.FindRun(ctx, "e", 42)
	require.NoError(t, err)
	begin("e-2", 3000)
	require.EqualError(t, (&Resume{Run: run}).still(ctx, reader, c), "another process has changed run e-2 in the meantime")
	gone := &Resume{Run: &store.Run{Run: "e-1"}}
	require.EqualError(t, gone.still(ctx, reader, configs.Config{Experiment: "e", Seed: 7}), "run e-1 has been removed in the meantime")
}

// A new run gets an unused name, even if folders of old runs have been deleted. It is the newest run, even if the
// clock was set back.
func TestANewRunIsTheNewest(t *testing.T) {
	t.Parallel()
	home, future := t.TempDir(), 4e9
	reader, begin := recordedRuns(t, home, map[string]float64{"e-1": 1000, "e-3": future})
	var log strings.Builder
	require.NoError(t, os.MkdirAll(filepath.Join(home, "runs", "e-4", "node_0"), 0o755)) // its record was deleted
	c := &Run{h: Host{Host: plan.Host{Home: layout.Home(home), Logger: slog.New(slog.NewTextHandler(&log, nil))}}, p: plan.Planned{Config: configs.Config{Experiment: "e"}}, reader: reader}
	last, err := c.name(context.Background())
	require.NoError(t, err)
	require.Equal(t, "e-5", c.run)
	require.Contains(t, log.String(), "the run in this folder is not in the database")
	begin(c.run, newRunClock(last).now())
	newest, err := reader.FindRun(context.Background(), "e", 42)
	require.NoError(t, err)
	require.Equal(t, "e-5", newest.Run)
}

// Rounds in a node's journal count even if a killed coordinator had not recorded them. Replaying beyond the last
// round would put these rounds into a checkpoint for fewer rounds, and resuming from it would repeat them.
func TestResumeRefusesFewerRoundsThanJournaled(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	reader, _ := recordedRuns(t, home, map[string]float64{"e-1": 1000})
	dir := filepath.Join(home, "runs", "e-1", "node_1")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	j, err := journal.Open(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, j.Resume(0))
	for round := range 5 {
		require.NoError(t, j.Generated(round, journal.Generated{}))
		require.NoError(t, j.Trained(round, journal.Trained{}))
	}
	require.NoError(t, j.Generated(5, journal.Generated{}), "a round that is only begun is no round")
	require.NoError(t, j.Close())

	ctx := context.Background()
	run, err := reader.FindRun(ctx, "e", 42)
	require.NoError(t, err)
	r := &Resume{Home: layout.Home(home), Run: run}
	for _, rounds := range []int{1, 4} {
		_, err := r.last(ctx, reader, rounds)
		require.EqualError(t, err, "run e-1 has done 5 rounds of node_1 already, more than --rounds "+strconv.Itoa(rounds))
		var usage *fail.UsageError
		require.ErrorAs(t, err, &usage)
	}
	for _, rounds := range []int{5, 6} {
		_, err := r.last(ctx, reader, rounds)
		require.NoError(t, err)
	}
}

// A run that continues with another PyTorch is recorded as made by both.
func TestEachPyTorchOfARunIsRecorded(t *testing.T) {
	for _, c := range []struct{ before, now, want string }{
		{"", "2.7", "2.7"}, {"2.7", "2.7", "2.7"}, {"2.7", "2.8", "2.7, 2.8"}, {"2.7, 2.8", "2.7", "2.7, 2.8"}, {"2.7, 2.8", "2.9", "2.7, 2.8, 2.9"}, {"2.71", "2.7", "2.71, 2.7"},
	} {
		require.Equal(t, c.want, Versions{Torch: c.before}.torchesWith(c.now), c)
	}
}
