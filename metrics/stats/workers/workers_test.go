package workers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestARunThatHasEndedHasNobodyConnected(t *testing.T) {
	s := store.Snapshot{Run: store.Run{State: store.RunRunning}, Workers: []store.Worker{{Worker: "anna", State: event.WorkerConnected}}}
	require.Equal(t, "connected", workers.Rows(s, nil)[0].State)
	s.Run.State = store.RunDone
	require.Equal(t, "left", workers.Rows(s, nil)[0].State)
}
