package query

import (
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// Status is stats.NewStatus with what nobody recorded in words: every surface shows this one.
func Status(s store.Snapshot, now float64, coordinatorAlive bool) stats.Status {
	x := stats.NewStatus(s, now, coordinatorAlive)
	wording.Status(&x)
	return x
}
