package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/journal"
)

// requireWhole requires every (node, round) of a run exactly once.
func requireWhole(t *testing.T, home, run string, nodes, rounds int) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(home, "swarm.db")+"?mode=ro")
	require.NoError(t, err)
	defer db.Close()
	var rows, distinct, last int
	require.NoError(t, db.QueryRow(`SELECT count(*), count(DISTINCT node || '/' || round), max(round) FROM rounds WHERE run = ?`, run).
		Scan(&rows, &distinct, &last))
	require.Equal(t, nodes*rounds, rows)
	require.Equal(t, rows, distinct)
	require.Equal(t, rounds-1, last)
}

// The same command, until the run is done: stopped in order, killed with everything it had started, prolonged.
func TestTheSameCommandGoesOn(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	home := t.TempDir()

	r := start(t, home, longRun()...)
	r.awaitRound("node_0", 5)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, r.wait(), r.stderr)
	require.Equal(t, store.RunStopped, status(t, home).State)

	r = start(t, home, longRun()...)
	r.awaitRound("node_1", killAfter)
	for _, pid := range processes(home) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	require.Equal(t, 137, r.wait())
	requireNoProcess(t, home)
	require.Equal(t, "crashed", status(t, home).State)

	resume := swarmCommand(t, home, "resume", "--rounds", "24")
	resume.Dir = t.TempDir()
	resumed := finish(t, resume)
	require.Equal(t, 0, resumed.code, resumed.stderr)
	require.Contains(t, resumed.stdout, "e done: 24 of 24 rounds")
	requireWhole(t, home, "e-1", 2, 24)

	r = start(t, home, longRun()...)
	require.Equal(t, 0, r.wait(), r.stderr)
	require.Equal(t, "e-1", r.summary.Run)
	requireWhole(t, home, "e-1", 2, longRounds)
	got := readLearned(t, home, "e-1")
	require.InDelta(t, want.reward, got.reward, 1e-9)
	require.Equal(t, want.checkpoints, got.checkpoints)

	again := swarm(t, home, append([]string{"up", "--name", "e"}, tinyRun(longRun()...)...)...)
	require.Equal(t, 0, again.code, again.stderr)
	require.Contains(t, again.stdout, "e-1 has done all its 36 rounds already.")
	require.Contains(t, again.stdout, "e done: 36 of 36 rounds")
	require.NoDirExists(t, filepath.Join(home, "runs", "e-2"))
}

// What would make another experiment of a run is refused in one line, and changes nothing.
func TestResumeRefusesAnotherExperiment(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := func(more ...string) outcome {
		return swarm(t, home, append([]string{"up", "--name", "e"}, tinyRun(append([]string{"--rounds", "3"}, more...)...)...)...)
	}
	first := up()
	require.Equal(t, 0, first.code, first.stderr)
	const former = "Try: the former values, --fresh for a new run of this experiment, or --name OTHER for another experiment\n"
	for want, more := range map[string][]string{
		"run e-1 can't go on with another configuration:\n  learning_rate 0.0001 → 0.002\n  temperature 1 → 0.9": {"--learning-rate", "0.002", "--temperature", "0.9"},
		"run e-1 can't go on with another configuration:\n  nodes 2 → 3":                                         {"--nodes", "3", "--rounds", "4"},
		"run e-1 can't go on with another configuration:\n  num_generations 4 → 8":                               {"--num-generations", "8"},
	} {
		require.Equal(t, outcome{2, "", "Error: " + want + "\n" + former}, up(more...))
	}
	require.Equal(t, outcome{2, "", "Error: run e-1 has done 3 rounds of node_0 already, more than --rounds 2\nTry: --rounds 3 or more, or --fresh for a new run\n"},
		up("--rounds", "2"))
	require.Equal(t, store.RunDone, status(t, home).State)

	// What only says how it is computed may change.
	prolonged := up("--rounds", "4", "--micro-batch", "2", "--checkpoint-every", "1", "--nodes", "auto", "--max-restarts", "9")
	require.Equal(t, 0, prolonged.code, prolonged.stderr)
	require.Contains(t, prolonged.stdout, "e-1 goes on: ")
	requireWhole(t, home, "e-1", 2, 4)

	seeded := up("--seed", "7")
	require.Equal(t, 0, seeded.code, seeded.stderr)
	require.Contains(t, seeded.stdout, "e-2: ")
	fresh := up("--fresh")
	require.Equal(t, 0, fresh.code, fresh.stderr)
	require.Contains(t, fresh.stdout, "e-3: ")
	require.DirExists(t, filepath.Join(home, "runs", "e-1", "node_0"), "the old run is kept")

	require.NoError(t, os.RemoveAll(filepath.Join(home, "runs", "e-3")))
	gone := up("--rounds", "5")
	require.Equal(t, 1, gone.code)
	require.Contains(t, gone.stderr, "Error: run e-3 can't go on: its folder is gone: ")
	require.Contains(t, gone.stderr, "Try: --fresh for a new run\n")
}

// Questions or first weights that were changed between two attempts are another experiment, too.
func TestResumeRefusesOtherInputs(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	questions := filepath.Join(t.TempDir(), "questions.jsonl")
	text, err := os.ReadFile(items())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(questions, text, 0o644))
	up := func(rounds int) outcome {
		return swarm(t, home, append([]string{"up", "--name", "e"}, tinyRun("--set", "tasks.file="+questions, "--rounds", strconv.Itoa(rounds))...)...)
	}
	first := up(1)
	require.Equal(t, 0, first.code, first.stderr)
	require.NoError(t, os.WriteFile(questions, append(text, text...), 0o644))
	changed := up(2)
	require.Equal(t, 2, changed.code)
	require.Contains(t, changed.stderr, "Error: run e-1 can't go on with other contents of tasks.file (sha256 ")
	require.NoError(t, os.WriteFile(questions, text, 0o644))
	engine := func() (digest string) {
		db, err := sql.Open("sqlite3", filepath.Join(home, "swarm.db"))
		require.NoError(t, err)
		defer db.Close()
		require.NoError(t, db.QueryRow(`SELECT coalesce(versions ->> '$.engine', '') FROM runs WHERE run = 'e-1'`).Scan(&digest))
		return digest
	}
	require.Len(t, engine(), 16)
	alter(t, home, `UPDATE runs SET versions = json_set(versions, '$.engine', 'beef') WHERE run = 'e-1'`)
	require.Equal(t, 0, up(2).code)
	require.Empty(t, engine(), "two engines made it")
}

// A trainer of somebody's own and this program's nodes don't go on with one another's runs: rounds of both would be one run's.
func TestResumeRefusesAnotherKindOfNodes(t *testing.T) {
	t.Parallel()
	one, other := plan.Trainer{Command: "python3 a.py"}, plan.Trainer{Command: "python3 b.py"}
	own := map[string]string{"model": "12ab"}
	for _, test := range []struct {
		began, goes map[string]string
		text        string
	}{
		{own, one.Inputs(), "its nodes are swarm's own nodes, not those of a --node-command"},
		{nil, one.Inputs(), "its nodes are swarm's own nodes, not those of a --node-command"},
		{one.Inputs(), own, "its nodes are those of a --node-command, not swarm's own nodes"},
		{one.Inputs(), other.Inputs(), "run e-1 can't go on with other contents of --node-command (sha256 "},
		{one.Inputs(), one.Inputs(), ""},
		{own, own, ""},
		{nil, own, ""}, // begun before inputs were recorded
	} {
		made, err := json.Marshal(versions{Inputs: test.began})
		require.NoError(t, err)
		r := &resume{run: &store.Run{Run: "e-1", Versions: made}}
		if err := r.same(test.goes); test.text == "" {
			require.NoError(t, err)
		} else {
			var mistake *fail.UsageError
			require.ErrorAs(t, err, &mistake)
			require.ErrorContains(t, err, test.text)
		}
	}
}

// recordedRuns is a database in which runs of experiment e with seed 42 have begun, and what begins one more attempt at one.
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

// Who decided to begin a run, or to go on with one, while another process had the experiment in between, would double it.
func TestADecisionOvertakenIsRefused(t *testing.T) {
	t.Parallel()
	ctx, c := context.Background(), configs.Config{Experiment: "e", Seed: 42}
	reader, begin := recordedRuns(t, t.TempDir(), nil)
	began := &resume{}
	require.NoError(t, began.still(ctx, reader, c))
	begin("e-1", 1000)
	require.EqualError(t, began.still(ctx, reader, c), "another process has worked on run e-1 meanwhile")
	require.NoError(t, (&resume{fresh: true}).still(ctx, reader, c))
	require.NoError(t, began.still(ctx, reader, configs.Config{Experiment: "e", Seed: 7}))

	run, err := reader.FindRun(ctx, "e", 42)
	require.NoError(t, err)
	goesOn := &resume{run: run}
	require.NoError(t, goesOn.still(ctx, reader, c))
	begin("e-1", 2000)
	require.EqualError(t, goesOn.still(ctx, reader, c), "another process has worked on run e-1 meanwhile")
	run, err = reader.FindRun(ctx, "e", 42)
	require.NoError(t, err)
	begin("e-2", 3000)
	require.EqualError(t, (&resume{run: run}).still(ctx, reader, c), "another process has worked on run e-2 meanwhile")
	gone := &resume{run: &store.Run{Run: "e-1"}}
	require.EqualError(t, gone.still(ctx, reader, configs.Config{Experiment: "e", Seed: 7}), "run e-1 has been removed meanwhile")
}

// A new run's name is nobody's, also where folders of old runs have been deleted; and it is the newest though the clock was set back.
func TestANewRunIsTheNewest(t *testing.T) {
	t.Parallel()
	home, future := t.TempDir(), 4e9
	reader, begin := recordedRuns(t, home, map[string]float64{"e-1": 1000, "e-3": future})
	var log strings.Builder
	require.NoError(t, os.MkdirAll(filepath.Join(home, "runs", "e-4", "node_0"), 0o755)) // its database was deleted
	c := &coordinator{g: &globals{home: layout.Home(home), logger: slog.New(slog.NewTextHandler(&log, nil))}, p: plan.Planned{Config: configs.Config{Experiment: "e"}}, reader: reader}
	last, err := c.name(context.Background())
	require.NoError(t, err)
	require.Equal(t, "e-5", c.run)
	require.Contains(t, log.String(), "the database knows nothing of the run in this folder")
	begin(c.run, newRunClock(last).now())
	newest, err := reader.FindRun(context.Background(), "e", 42)
	require.NoError(t, err)
	require.Equal(t, "e-5", newest.Run)
}

// What a node has done by its journal counts though a coordinator that was killed had not recorded it: replayed beyond the last round, it would
// be in a checkpoint of fewer rounds, and be made once more by whoever goes on from that.
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
	r := &resume{g: &globals{home: layout.Home(home)}, run: run}
	for _, rounds := range []int{1, 4} {
		_, err := r.last(ctx, reader, rounds)
		require.EqualError(t, err, "run e-1 has done 5 rounds of node_1 already, more than --rounds "+strconv.Itoa(rounds))
		require.Equal(t, fail.ExitUsage, exitCode(err))
	}
	for _, rounds := range []int{5, 6} {
		_, err := r.last(ctx, reader, rounds)
		require.NoError(t, err)
	}
}
