package store

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Existing imports tables contain digests of text formatted with fmt. The text must stay the same.
func TestAppendValueIsWhatItWas(t *testing.T) {
	was := func(value any) string { return fmt.Sprintf("%T %q\n", value, fmt.Sprint(value)) }
	for _, value := range []any{nil, int64(0), int64(math.MinInt64), 0.0, math.Copysign(0, -1), 1e6, 123456789.0, 1e20, 1e21, 1e22, 1e-5, 0.0001,
		math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64, "", "a\"b\\\n\x00\xff\u2028é", []byte("x"), true} {
		require.Equal(t, was(value), string(appendValue(nil, value)), "%v", value)
	}
	rapid.Check(t, func(t *rapid.T) {
		for _, value := range []any{rapid.Int64().Draw(t, "int"), rapid.Float64().Draw(t, "float"), rapid.String().Draw(t, "text")} {
			if got := string(appendValue([]byte("x"), value)); got != "x"+was(value) {
				t.Fatalf("%q, want %q", got, was(value))
			}
		}
	})
}

// homeOfTwoMachines returns runs that two machines with different GPUs made in turn: a-0 and a-2 on one, a-1 and a-3 on
// the other.
func homeOfTwoMachines(t *testing.T) *Reader {
	t.Helper()
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	for i := range 4 {
		run := aRun()
		run.Run, run.Experiment, run.Started = fmt.Sprintf("a-%d", i), "a", float64(1000*(i+1))
		run.Host = fmt.Sprintf("machine%d", i%2)
		run.Plan = json.RawMessage(fmt.Sprintf(`{"gpus":[{"uuid":"GPU-%d"}]}`, i%2))
		require.NoError(t, s.StartRun(t.Context(), run))
		round := aRound("node_0", 0, run.Started+1, 0.5)
		round.Run = run.Run
		record(t, s, round,
			event.Event{Type: event.TypeWarning, Run: run.Run, Node: "node_0", Time: run.Started + 2, Message: "machine0 and machine1: GPU-0 and GPU-1 are hot"},
			event.Event{Type: event.TypeRunEnded, Run: run.Run, Time: run.Started + 3, State: RunDone})
	}
	return readerOf(t, s)
}

// checksums returns the checksums of an import of all of from's runs, and the number of extracts written for them.
func checksums(t *testing.T, from *Reader) (sums map[string]string, made int) {
	t.Helper()
	runs, err := from.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	dir := t.TempDir()
	all, labels, err := extractTo(t.Context(), from, filepath.Join(dir, "all.db"), runs)
	require.NoError(t, err)
	defer all.Close()
	d := startDigests(t.Context(), from, all, labels, dir, runs)
	sums = map[string]string{}
	for _, r := range runs {
		sum, rows, err := d.wait(r.Run.Run)
		require.NoError(t, err)
		require.Positive(t, rows)
		sums[r.Run.Run] = sum
	}
	require.NoError(t, d.close())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	return sums, len(files)
}

func TestChecksumsDoNotDependOnTheOtherRunsOfAFile(t *testing.T) {
	from := homeOfTwoMachines(t)
	sums, made := checksums(t, from)
	require.Equal(t, 3, made, "one of all, and one for each machine's")
	for run, sum := range sums {
		path := filepath.Join(t.TempDir(), "alone.db")
		_, err := from.Extract(t.Context(), path, []string{run})
		require.NoError(t, err)
		alone, err := OpenReader(t.Context(), path)
		require.NoError(t, err)
		want, _, err := digestRun(t.Context(), alone, run)
		require.NoError(t, err)
		require.Equal(t, want, sum, run)
		require.NoError(t, alone.Close())
	}
}

// An extract per run would make imports of many runs slow.
func TestRunsOfOneMachineShareAnExtract(t *testing.T) {
	there, reader := extractable(t)
	ended(t, there, RunDone, testRun, "other-1")
	_, made := checksums(t, reader)
	require.Equal(t, 1, made)
	_, made = checksums(t, extractOf(t, homeOfTwoMachines(t), "a-0", "a-2"))
	require.Equal(t, 1, made)
}
