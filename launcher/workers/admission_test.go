package workers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// A paid GPU waits for a worker's last rounds only if they take no longer than a barrier may.
func TestWhoIsWaitedForAtTheEnd(t *testing.T) {
	const rounds, patience = 100, 10 * time.Second
	for _, tt := range []struct {
		name   string
		node   membership.NodeStatus
		pace   time.Duration
		waited bool
	}{
		{"in step", membership.NodeStatus{Round: 99}, time.Minute, true},
		{"in step, at a pace nobody knows", membership.NodeStatus{Round: 99}, 0, true},
		{"a little behind by what was heard last", membership.NodeStatus{Round: 90, Absent: true}, time.Second, true},
		{"more than a barrier's time behind", membership.NodeStatus{Round: 89, Absent: true}, time.Second, false},
		{"one round behind that takes too long", membership.NodeStatus{Round: 99, Absent: true}, time.Minute, false},
		{"behind, at a pace nobody knows", membership.NodeStatus{Round: 90, Absent: true}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.waited, doneSoon(tt.node, rounds, tt.pace, patience))
		})
	}
}
