package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// NodeRounds returns a node's recorded rounds from a round on, in order, at most limit. They have all metrics, but no
// tasks and peers. A non-finite figure is 0 and is listed in NonFinite as "nan", "+inf" or "-inf". A figure that the
// database does not have is zero.
func (r *Reader) NodeRounds(ctx context.Context, run, node string, from, limit int) ([]event.Round, error) {
	schema, err := r.schema(ctx)
	if err != nil {
		return nil, err
	}
	var metrics []event.Metric
	var columns strings.Builder
	for _, m := range event.Metrics() {
		if m.Since <= schema {
			metrics = append(metrics, m)
			columns.WriteString(", " + m.Name)
		}
	}
	figures := make([]sql.NullFloat64, len(metrics))
	var rounds []event.Round
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x event.Round
		var nonFinite string
		into := []any{&x.Round, &nonFinite}
		for i := range figures {
			into = append(into, &figures[i])
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, m := range metrics {
			if figures[i].Valid {
				m.SetNumber(&x, figures[i].Float64)
			}
		}
		for _, term := range strings.Fields(nonFinite) {
			if name, was, ok := strings.Cut(term, "="); ok {
				if x.NonFinite == nil {
					x.NonFinite = map[string]string{}
				}
				x.NonFinite[name] = was
			}
		}
		rounds = append(rounds, x)
		return nil
	}, fmt.Sprintf(`SELECT round, non_finite%s FROM rounds WHERE run = ? AND node = ? AND round >= ? ORDER BY round LIMIT ?`, columns.String()),
		run, node, from, limit)
	return rounds, sqlite.Explain(r.path, err)
}
