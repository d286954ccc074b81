package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// EvalTime is the time of a run's held-out evaluation.
type EvalTime struct {
	Round int     // rounds that the weights were trained for
	From  float64 // when its first node began to generate, as far as its seconds in the engine tell; 0: not recorded
	To    float64 // when its last node had answered
}

// EvalTimes returns the times of a run's evaluations, by round.
func (r *Reader) EvalTimes(ctx context.Context, run string) (times []EvalTime, err error) {
	if there, _, err := r.evalSchema(ctx); err != nil || !there {
		return nil, err
	}
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x EvalTime
		err := rows.Scan(&x.Round, &x.From, &x.To)
		times = append(times, x)
		return err
	}, `SELECT round, coalesce(min(time - seconds), 0), max(time) FROM evals WHERE run = ? GROUP BY round ORDER BY round`, run)
	if err != nil {
		return nil, sqlite.Explain(r.path, err)
	}
	return times, nil
}
