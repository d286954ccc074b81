package e2e

import (
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
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

// The same command repeated until the run is done: after an orderly stop, after a kill of all its processes, and with
// more rounds.
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
	require.Contains(t, again.stdout, "e-1 has already done all its 36 rounds.")
	require.Contains(t, again.stdout, "e done: 36 of 36 rounds")
	require.NoDirExists(t, filepath.Join(home, "runs", "e-2"))
}

// Settings that would change the experiment of a run are refused in one line, and nothing changes.
func TestResumeRefusesAnotherExperiment(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := func(more ...string) outcome {
		return swarm(t, home, append([]string{"up", "--name", "e"}, tinyRun(append([]string{"--rounds", "3"}, more...)...)...)...)
	}
	first := up()
	require.Equal(t, 0, first.code, first.stderr)
	const former = "Try: the original values, --fresh for a new run of this experiment, or --name OTHER for another experiment\n"
	for want, more := range map[string][]string{
		"run e-1 cannot continue with another configuration:\n  learning_rate 0.0001 → 0.002\n  temperature 1 → 0.9": {"--learning-rate", "0.002", "--temperature", "0.9"},
		"run e-1 cannot continue with another configuration:\n  nodes 2 → 3":                                         {"--nodes", "3", "--rounds", "4"},
		"run e-1 cannot continue with another configuration:\n  num_generations 4 → 8":                               {"--num-generations", "8"},
	} {
		require.Equal(t, outcome{2, "", "Error: " + want + "\n" + former}, up(more...))
	}
	require.Equal(t, outcome{2, "", "Error: run e-1 has done 3 rounds of node_0 already, more than --rounds 2\nTry: --rounds 3 or more, or --fresh for a new run\n"},
		up("--rounds", "2"))
	require.Equal(t, store.RunDone, status(t, home).State)

	// Settings that only affect how the run is computed may change.
	prolonged := up("--rounds", "4", "--micro-batch", "2", "--checkpoint-every", "1", "--nodes", "auto", "--max-restarts", "9")
	require.Equal(t, 0, prolonged.code, prolonged.stderr)
	require.Contains(t, prolonged.stdout, "e-1 continues: ")
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
	require.Contains(t, gone.stderr, "Error: run e-3 cannot continue: its folder is missing: ")
	require.Contains(t, gone.stderr, "Try: --fresh for a new run\n")
}

// Changed questions or initial weights make another experiment, too.
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
	require.Contains(t, changed.stderr, "Error: run e-1 cannot continue with other contents of tasks.file (sha256 ")
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
