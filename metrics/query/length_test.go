package query_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// lengths returns a database of experiments that differ only in their number of rounds. The reward grows by 0.01 per
// round. Before the first round, after every tenth and at the end, each node answers ten questions. The number of right
// answers is its finished rounds plus the seed.
func lengths(t *testing.T, rounds map[string]int) *store.Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	for name, n := range rounds {
		for seed := range 5 {
			run := store.Run{Run: fmt.Sprint(name, "-", seed), Experiment: name, Seed: int64(seed), Rounds: n, Started: 1000, NumTrainSamples: 8,
				NumGenerations: 8, NodeIDs: []string{"node_0", "node_1"}}
			require.NoError(t, s.StartRun(t.Context(), run))
			for round := range n + 1 {
				for k, node := range run.NodeIDs {
					if round%10 == 0 || round == n {
						send(t, s, event.Event{Type: event.TypeEval, Run: run.Run, Node: node, Time: 1000 + float64(round), Eval: &event.Eval{
							Round: round, Set: "s", Generations: 100, Questions: []event.EvalQuestion{{Task: "bf", Correct: round + seed, RewardSum: float64(round + seed)}}}})
					}
					if round == n {
						continue
					}
					reward := 0.01*float64(round) + 0.001*float64(seed) + 0.1*float64(k)
					if round == 4 && k == 1 {
						reward = math.NaN()
					}
					send(t, s, event.Event{Type: event.TypeRound, Run: run.Run, Node: node, Time: 1000 + float64(round), Round: &event.Round{
						Round: round, Reward: reward, Tasks: []event.TaskReward{{Task: "bf", Completions: 1, RewardSum: float64(round)}}}})
				}
			}
			send(t, s, event.Event{Type: event.TypeRunEnded, Run: run.Run, Time: 3000, State: store.RunDone})
		}
	}
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	return reader
}

func rowsOf(t *testing.T, reader *store.Reader, o stats.CompareOptions) (map[string]stats.Row, stats.Comparison) {
	t.Helper()
	c, err := query.Compare(t.Context(), reader, query.CompareOptions{CompareOptions: o})
	require.NoError(t, err)
	rows := map[string]stats.Row{}
	for _, r := range c.Rows {
		rows[r.Name] = r
	}
	return rows, c
}

func TestRunsOfDifferentLengthCompareOverWhatBothHave(t *testing.T) {
	reader := lengths(t, map[string]int{"base": 40, "equal": 40, "shorter": 25, "tiny": 5})
	for _, measure := range stats.Measures() {
		rows, c := rowsOf(t, reader, stats.CompareOptions{Baseline: "base", Measure: measure, Tasks: true})
		for name, row := range rows {
			require.NotContains(t, []string{stats.OutcomeBetter, stats.OutcomeWorse}, row.Outcome, "%s by %s", name, measure)
		}
		require.Equal(t, []*stats.Span{{From: 1, To: 40}, {From: 1, To: 25}, {From: 1, To: 5}, {From: 1, To: 40}},
			[]*stats.Span{rows["equal"].RoundsCompared, rows["shorter"].RoundsCompared, rows["tiny"].RoundsCompared, rows["base"].RoundsCompared})
		require.Equal(t, []int{40, 20, 40}, []int{*rows["equal"].EvalRound, *rows["shorter"].EvalRound, *rows["base"].EvalRound},
			"after 20 rounds both were evaluated, after 25 one")
		require.Nil(t, rows["tiny"].EvalRound, "before the first round nothing was learnt")
		if measure == stats.MeasureReward || measure == stats.MeasureAuto {
			require.Equal(t, stats.MeasureReward, rows["tiny"].Measure, "it has no evaluation after a round")
			require.InDelta(t, 0, *rows["tiny"].Improvement, 1e-9)
			require.InDelta(t, 0.2+0.5+0.020-0.142, rows["tiny"].CumulativeReward, 1e-9, "two nodes, five rounds, without what was no number")
		} else {
			require.Equal(t, "undecided: different length", rows["tiny"].Verdict)
		}
		if measure != stats.MeasureReward {
			require.Contains(t, []string{measure, stats.MeasurePass}, rows["shorter"].Measure)
			require.InDelta(t, 0, *rows["shorter"].Improvement, 1e-9)
			require.InDelta(t, 0.22, *rows["shorter"].EvalPass1, 1e-9, "20 rounds and 0 to 4 of a hundred")
		}
		require.Len(t, c.Tasks, 1)
		for _, cell := range c.Tasks[0].Rewards {
			if cell.Experiment == "shorter" {
				require.InDelta(t, 12, *cell.Reward, 1e-9, "the mean of 0 to 24")
			}
			if cell.Improvement != nil {
				require.InDelta(t, 0, *cell.Improvement, 1e-9, cell.Experiment)
			}
		}
	}
}

func TestWhatIsSummedUpToARoundIsTheRounds(t *testing.T) {
	reader := lengths(t, map[string]int{"base": 12})
	sums, err := reader.RewardSums(t.Context(), "base-1", []int{12, 1, 5, 99, 5})
	require.NoError(t, err)
	require.Len(t, sums, 4)
	for end, want := range map[int]store.RewardSum{
		1: {NodeRounds: 2, Reward: 0.102}, 5: {NodeRounds: 10, Reward: 0.2 + 0.5 + 0.010 - 0.141}, // less the reward that is NaN
		12: {NodeRounds: 24, Reward: 1.32 + 1.2 + 0.024 - 0.141}, 99: {NodeRounds: 24, Reward: 1.32 + 1.2 + 0.024 - 0.141},
	} {
		require.Equal(t, want.NodeRounds, sums[end].NodeRounds, end)
		require.InDelta(t, want.Reward, sums[end].Reward, 1e-9, end)
	}
	runs, err := reader.Runs(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Equal(t, []int{12, 12}, []int{runs[1].RoundsReached, runs[1].RoundsDone})
	require.InDelta(t, runs[1].CumulativeReward, sums[12].Reward, 1e-9)

	evals, err := reader.EvalTotals(t.Context(), "base-1")
	require.NoError(t, err)
	var after []int
	for _, e := range evals {
		after = append(after, e.Round)
		require.Equal(t, []any{"base-1", "s", 2, 2, 2 * (e.Round + 1)}, []any{e.Run, e.Set, e.Nodes, e.Questions, e.Correct})
	}
	require.Equal(t, []int{0, 10, 12}, after)
	newest, err := reader.NewestEvals(t.Context())
	require.NoError(t, err)
	require.Equal(t, newest["base-1"], evals[2])
}
