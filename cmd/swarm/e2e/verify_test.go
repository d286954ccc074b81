package e2e

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/verify"
)

// verifyDocument parses the output of `swarm verify -o json`.
func verifyDocument(t *testing.T, o outcome) verify.Document {
	t.Helper()
	fields(t, decode(t, o.stdout), map[string]string{
		"run": "string", "experiment": "string", "state": "string", "device": "string", "verified": "bool", "exact": "bool", "generated": "bool",
		"rounds": "number", "seconds": "number", "nodes": "array",
	})
	var v verify.Document
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &v))
	return v
}

// alter changes the database of an ended run.
func alter(t *testing.T, home, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer db.Close()
	result, err := db.Exec(statement)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n, statement)
}

// A finished run verifies, even with completions generated again. verify reports a changed figure or hash in the
// database, and a damaged journal.
func TestVerify(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := swarm(t, home, append([]string{"up", "--config", "4loc4ext", "--rounds", "3", "--set", "checkpoint_every=2"}, tinyRun()...)...)
	require.Equal(t, 0, up.code, up.stderr)

	text := swarm(t, home, "verify", "4loc4ext")
	require.Equal(t, 0, text.code, text.stderr+text.stdout)
	require.NotContains(t, text.stderr, "level=") // only progress, on a busy machine
	require.Contains(t, text.stdout, "4loc4ext-1: 6 node-rounds made again in ")
	require.Regexp(t, `(?m)^node_1 +3 +2 +2 +verified$`, text.stdout)

	again := swarm(t, home, "verify", "4loc4ext-1", "--generate", "-o", "json")
	require.Equal(t, 0, again.code, again.stderr)
	v := verifyDocument(t, again)
	require.True(t, v.Verified && v.Exact && v.Generated)
	require.Equal(t, "4loc4ext-1", v.Run)
	require.Equal(t, "done", v.State)
	require.Equal(t, 6, v.Rounds)
	require.Len(t, v.Nodes, 2)
	for _, n := range v.Nodes {
		require.Equal(t, 2, n.EqualHashes)
		require.Empty(t, n.Differences)
	}

	alter(t, home, `UPDATE rounds SET reward = reward + 0.125 WHERE run = '4loc4ext-1' AND node = 'node_1' AND round = 1`)
	alter(t, home, `UPDATE checkpoints SET weight_hash = 'beef' WHERE run = '4loc4ext-1' AND node = 'node_0' AND round = 3`)
	alter(t, home, `INSERT INTO events (run, node, type, time, state, cause, message, pid, detail) VALUES ('4loc4ext-1', 'node_1', 'memory_step', 1, '',
'own_cap', '', 0, '{"round": 1, "phase": "update", "action": "halve_micro_batch"}')`)
	spoilt := swarm(t, home, "verify", "4loc4ext", "-o", "json")
	require.Equal(t, 1, spoilt.code)
	require.True(t, strings.HasSuffix(spoilt.stderr, "Error: run 4loc4ext-1 differs from its journals or database\n"), spoilt.stderr)
	v = verifyDocument(t, spoilt)
	require.False(t, v.Verified)
	require.Len(t, v.Nodes[0].Differences, 1)
	d := v.Nodes[0].Differences[0]
	require.Equal(t, []any{"weight_hash", 2, verify.Database, "beef"}, []any{d.What, d.Round, d.Where, d.Found})
	require.Empty(t, v.Nodes[0].Notes)
	require.Equal(t, []string{"memory ran out in round 1 (update, halve_micro_batch): from this round on sums may be rounded differently"}, v.Nodes[1].Notes)
	require.Len(t, v.Nodes[1].Differences, 1)
	d = v.Nodes[1].Differences[0]
	require.Equal(t, []any{"reward", 1, verify.Database}, []any{d.What, d.Round, d.Where})

	segment := filepath.Join(home, "runs", "4loc4ext-1", "node_1", "journal-00000000.log")
	data, err := os.ReadFile(segment)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(segment, data, 0o644))
	damaged := swarm(t, home, "verify", "4loc4ext")
	require.Equal(t, 1, damaged.code)
	require.Regexp(t, `(?m)^node_1 .* damaged$`, damaged.stdout)
	require.Contains(t, damaged.stdout, "checksum")
}

// A run that can't be verified is refused with a remedy.
func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	nothing := swarm(t, home, "verify", "e")
	require.Equal(t, 1, nothing.code)
	require.Contains(t, nothing.stderr, "nothing has run under")
	for _, args := range [][]string{{"verify"}, {"verify", "a", "b"}, {"verify", "--nonsense", "e"}, {"verify", "e", "-o", "xml"}} {
		o := swarm(t, home, args...)
		require.Equal(t, 2, o.code, "%v: %s", args, o.stderr)
	}

	r := start(t, home, "--rounds", "1000000")
	r.awaitRound("node_1", 2)
	running := swarm(t, home, "verify", "e")
	require.Equal(t, 2, running.code)
	require.Contains(t, running.stderr, "Error: run e-1 is still running\nTry: ")
	require.Equal(t, 2, swarm(t, home, "verify", "nosuch").code)
	require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 130, r.wait())

	// After an orderly stop, the existing rounds verify, but not with other initial weights.
	stopped := swarm(t, home, "verify", "e-1", "-o", "json")
	require.Equal(t, 0, stopped.code, stopped.stderr+stopped.stdout)
	require.Positive(t, verifyDocument(t, stopped).Rounds)
	// Another engine or PyTorch may compute other sums, so that differences are only informational.
	alter(t, home, `UPDATE rounds SET loss = loss + 0.25 WHERE run = 'e-1' AND node = 'node_1' AND round = 1`)
	require.Equal(t, 1, swarm(t, home, "verify", "e-1").code)
	alter(t, home, `UPDATE runs SET versions = json_set(versions, '$.torch', '0.1, ' || (versions ->> 'torch')) WHERE run = 'e-1'`)
	mixed := swarm(t, home, "verify", "e-1")
	require.Equal(t, 0, mixed.code, mixed.stderr+mixed.stdout)
	require.Contains(t, mixed.stdout, "weights and losses for information only: another version of PyTorch made the run")
	alter(t, home, `UPDATE runs SET versions = json_set(versions, '$.engine', 'beef') WHERE run = 'e-1'`)
	earlier := swarm(t, home, "verify", "e-1")
	require.Equal(t, 0, earlier.code, earlier.stderr+earlier.stdout)
	require.Contains(t, earlier.stderr, "this engine differs from the run's")
	require.Contains(t, earlier.stdout, "weights and losses for information only: another version of the engine made the run")
	require.Contains(t, earlier.stdout, "node_1: loss or gradient norm differs in its bits in 1 of ")

	alter(t, home, `UPDATE runs SET versions = json_set(versions, '$.inputs.model', 'beef') WHERE run = 'e-1'`)
	changed := swarm(t, home, "verify", "e-1")
	require.Equal(t, 1, changed.code)
	require.Contains(t, changed.stderr, "the contents of model have changed since it began")
	require.True(t, strings.HasSuffix(changed.stderr, "\nTry: the original files\n"), changed.stderr)
}

// A run that was killed completely and resumed has the same result as a calm one. Its journals verify it, even if
// nodes share the log-probabilities of their tokens.
func TestVerifyAfterKills(t *testing.T) {
	t.Parallel()
	for _, correction := range configs.Corrections() {
		if correction == configs.CorrectionAuto {
			continue // it is one of the others
		}
		t.Run(correction, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			flags := []string{"--rounds", "6", "--set", "checkpoint_every=3", "--external-correction", correction}
			for _, rounds := range []int{1, 4} {
				r := start(t, home, flags...)
				r.awaitRound("node_1", rounds)
				require.NoError(t, r.cmd.Process.Kill())
				r.wait()
				cut := swarm(t, home, "verify", "e")
				require.Equal(t, 2, cut.code, cut.stderr)
				require.Contains(t, cut.stderr, "was interrupted")
			}
			last := start(t, home, flags...)
			require.Equal(t, 0, last.wait(), last.stderr.String())
			o := swarm(t, home, "verify", "e", "--generate", "-o", "json")
			require.Equal(t, 0, o.code, o.stderr+o.stdout)
			v := verifyDocument(t, o)
			require.Equal(t, "e-1", v.Run)
			require.Equal(t, 12, v.Rounds)
			for _, n := range v.Nodes {
				require.Equal(t, 2, n.EqualHashes)
			}
			require.Equal(t, correction != configs.CorrectionNone, othersLogprobs(t, filepath.Join(home, "runs", "e-1")) > 0)
		})
	}
}

// othersLogprobs counts others' completions that a run's nodes trained on with the sampling nodes' log-probabilities.
func othersLogprobs(t *testing.T, run string) (n int) {
	t.Helper()
	for _, node := range []string{"node_0", "node_1"} {
		for r, err := range journal.Rounds(filepath.Join(run, node), 0) {
			require.NoError(t, err)
			for _, s := range r.Trained.Update.Sequences {
				if s.Prompt >= r.Trained.Report.TrainedOwn && s.Advantage != 0 && s.OldLogprobs != nil {
					n++
				}
			}
		}
	}
	return n
}
