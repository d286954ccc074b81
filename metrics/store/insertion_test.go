package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// All rows of a round or an evaluation are written once with their own values, for any number of rows.
func TestRowsOfARoundInAnyNumber(t *testing.T) {
	s := startedStore(t, Options{})
	r := readerOf(t, s)
	for n := range 3*maxRows + 2 {
		round := aRound("node_0", n, float64(200+n), 0.5)
		round.Round.Tasks, round.Round.Peers = nil, nil
		eval := anEval("node_0", n, float64(200+n))
		for i := range n {
			round.Round.Tasks = append(round.Round.Tasks, event.TaskReward{Task: fmt.Sprint("t", i), Completions: i, RewardSum: float64(n)})
			round.Round.Peers = append(round.Round.Peers, event.Peer{Node: fmt.Sprint("p", i), Available: i, Rejected: n, Filtered: 2, Used: 3})
			eval.Eval.Questions = append(eval.Eval.Questions, event.EvalQuestion{Task: fmt.Sprint("t", i), Correct: i, RewardSum: float64(n)})
		}
		record(t, s, round, eval)
		for table, want := range map[string]string{
			"task_rewards":   `SELECT count(*), coalesce(sum(completions), 0), coalesce(min(reward_sum), ?2) FROM task_rewards WHERE round = ?1`,
			"peers":          `SELECT count(*), coalesce(sum(available), 0), coalesce(min(rejected), ?2) FROM peers WHERE round = ?1`,
			"eval_questions": `SELECT count(*), coalesce(sum(correct), 0), coalesce(min(reward_sum), ?2) FROM eval_questions WHERE round = ?1`,
		} {
			var rows, sum, least int
			require.NoError(t, s.db.QueryRow(want, n, n).Scan(&rows, &sum, &least))
			require.Equal(t, []int{n, n * (n - 1) / 2, n}, []int{rows, sum, least}, table)
		}
	}
	evals, err := r.Evals(t.Context(), testRun)
	require.NoError(t, err)
	for n, x := range evals {
		require.Len(t, x.Questions, n)
		for i, q := range x.Questions {
			require.Equal(t, event.EvalQuestion{Task: fmt.Sprint("t", i), Correct: i, RewardSum: float64(n)}, q, "in the set's order")
		}
	}
	requireSums(t, s)
}
