package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// NewestEvalsByModel splits the evaluations of NewestEvals by model. The outer key is the run, the inner key the
// model's name. The sums over a run's models equal its evaluation.
func (r *Reader) NewestEvalsByModel(ctx context.Context) (map[string]map[string]EvalTotal, error) {
	newest := map[string]map[string]EvalTotal{}
	there, shared, err := r.evalSchema(ctx)
	if err != nil || !there {
		return newest, err
	}
	trained := ""
	if shared {
		trained = " AND NOT own.generate_only"
	}
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x EvalTotal
		var model string
		err := rows.Scan(&x.Run, &model, &x.Round, &x.Set, &x.Generations, &x.Nodes, &x.Questions, &x.Correct, &x.RewardSum)
		if newest[x.Run] == nil {
			newest[x.Run] = map[string]EvalTotal{}
		}
		newest[x.Run][model] = x // of several sets, the one of the most nodes comes last
		return err
	}, `SELECT runs.run, own.model, round, question_set, generations, count(*) AS made, sum(questions), sum(correct), sum(reward_sum)
FROM runs CROSS JOIN evals ON evals.run = runs.run AND round = `+newestEvalSQL(shared)+`
JOIN nodes AS own ON own.run = evals.run AND own.node = evals.node`+trained+`
GROUP BY runs.run, own.model, question_set, generations ORDER BY made, question_set, generations`)
	return newest, sqlite.Explain(r.path, err)
}
