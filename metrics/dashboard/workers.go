package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats/workers"
)

// workersFresh is the number of seconds for which the document of a running run's workers stays valid. Creating it
// reads every round of the run.
const workersFresh = 10

func (s *Server) getWorkers(ctx context.Context, r *http.Request) (any, error) {
	if err := readParams(r).done(); err != nil {
		return nil, err
	}
	k, err := s.run(ctx, r)
	if err != nil {
		return nil, err
	}
	stamp := fmt.Sprint(k.history(), " ", k.status.State)
	if k.alive {
		stamp += fmt.Sprint(" ", time.Now().Unix()/workersFresh)
	}
	return s.cached("workers "+k.totals.Run.Run, stamp, func() (any, error) {
		reader, err := s.db.open(ctx)
		if err != nil {
			return nil, err
		}
		rows, err := query.Workers(ctx, reader, k.totals.Run.Run)
		return map[string][]workers.Row{"workers": rows}, err
	})
}
