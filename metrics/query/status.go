package query

import (
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// Status is stats.NewStatus with texts for what is not recorded. All surfaces show this status.
func Status(s store.Snapshot, now float64, coordinatorAlive bool) stats.Status {
	x := stats.NewStatus(s, now, coordinatorAlive)
	wording.Status(&x)
	return x
}
