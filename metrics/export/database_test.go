package export

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// hostile is text that resembles a formula, a second line, a path and markup.
const hostile = "=HYPERLINK(\"http://x\",\"a,b\")\nnext\t<script>\xff"

// database returns runs with nodes and rounds. Each run has a reward that is NaN, a hostile warning and an evaluation.
func database(t testing.TB, runs, nodes, rounds int) (*store.Reader, []store.Run) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	for i := range runs {
		run := store.Run{Run: fmt.Sprint("x-", i), Experiment: "x", Seed: int64(i), Rounds: rounds, Started: 1000, NumTrainSamples: 4,
			NumTransplantTrees: 4, NumGenerations: 8, Config: []byte(`{"a": [1, 2]}`)}
		for n := range nodes {
			run.NodeIDs = append(run.NodeIDs, fmt.Sprint("node_", n))
		}
		require.NoError(t, s.StartRun(t.Context(), run))
		send := func(e event.Event) {
			e.Run = run.Run
			require.NoError(t, s.Record(t.Context(), e))
		}
		largest, mean := 0.5, 0.125
		for round := range rounds {
			for n, node := range run.NodeIDs {
				reward := 1 / float64(3+round+n)
				if round == 1 && n == 0 {
					reward = math.NaN()
				}
				send(event.Event{Type: event.TypeRound, Node: node, Time: 1000.123456 + float64(round), Round: &event.Round{Round: round, Reward: reward, SplitOwn: 6, SplitExternal: 2,
					Loss: -1e-9, ClipHigh: 0.25, MeanLength: 100, Completions: 32, Late: n == 1,
					SamplingLogpDifferenceMax: &largest, SamplingLogpDifferenceMean: &mean, MeanTerminatedLength: &mean,
					ExternalClipRatio: &mean, ExternalDropped: &largest, ExternalESS: &largest,
					Tasks: []event.TaskReward{{Task: "bf", Completions: 32, RewardSum: 32 * reward}}}})
			}
		}
		send(event.Event{Type: event.TypeWarning, Node: "node_0", Time: 2000, Message: hostile})
		send(event.Event{Type: event.TypeEval, Node: "node_0", Time: 2001, Eval: &event.Eval{Round: rounds, Set: "s", Generations: 4,
			Questions: []event.EvalQuestion{{Task: "bf", Correct: 1, RewardSum: 1.5}}}})
		send(event.Event{Type: event.TypeRunEnded, Time: 2002, State: store.RunDone})
	}
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	totals, err := reader.Runs(t.Context(), store.Filter{})
	require.NoError(t, err)
	out := make([]store.Run, len(totals))
	for i, total := range totals {
		out[i] = total.Run
	}
	return reader, out
}
