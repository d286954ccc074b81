package node

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// generator returns a generate-only node_0 with a peer node_1.
func generator(t *testing.T, change func(*configs.Config)) (n *Node, peer exchange.Exchange) {
	c := testConfig(t)
	c.MaxCompletionLength = 48
	if change != nil {
		change(&c)
	}
	server := broker(t, "generator")
	p := &scripted{answer: func(int, int) string { return "<answer>1</answer>" }}
	n = newNode(t, c, "node_0", p, join(t, server, "generator", "node_0"), newHost("node_0", "node_1"))
	n.Mode.GenerateOnly = true
	return n, join(t, server, "generator", "node_1")
}

// A generate-only node may be one round ahead of the swarm, until the deadline.
func TestAGeneratorKeepsTheSwarmsPace(t *testing.T) {
	n, peer := generator(t, nil)
	_, err := n.Round(t.Context(), 0)
	require.NoError(t, err)
	done := make(chan event.Round, 1)
	go func() {
		report, err := n.Round(t.Context(), 1)
		if err == nil {
			done <- report
		}
		close(done)
	}()
	n.Host.(*host).await(event.StateBarrier)
	received, err := peer.Gather(t.Context(), 1, []string{"node_0"}, exchange.Barrier{Deadline: 200 * time.Millisecond})
	require.NoError(t, err)
	require.Nil(t, received[0], "it is ahead of a peer that has not shared round 0")
	require.NoError(t, peer.Publish(t.Context(), answers(t, n, "node_1", 0)))
	report, open := <-done
	require.True(t, open)
	require.True(t, report.GenerateOnly)
	require.Positive(t, report.BarrierTime)
}

// A peer that shares nothing holds a generate-only node up until the deadline. A peer that is absent or has not
// begun holds it up only while it is so.
func TestAGeneratorGoesOnAfterTheDeadline(t *testing.T) {
	for name, members := range map[string][]protocol.Member{
		"a peer says nothing": protocol.Members("node_0", "node_1"),
		"all are absent":      {{Node: "node_0"}, {Node: "node_1", Absent: true}},
		"all begin later":     {{Node: "node_0"}, {Node: "node_1", From: 70}},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := generator(t, func(c *configs.Config) { c.BarrierDeadline = 0.1 })
			n.Host.(*host).setMembers(members...)
			report, err := n.Round(t.Context(), 5)
			require.NoError(t, err)
			require.GreaterOrEqual(t, report.BarrierTime, 0.1)
		})
	}
	t.Run("nobody else is there", func(t *testing.T) {
		n, _ := generator(t, nil)
		n.Host.(*host).setPeers("node_0")
		report, err := n.Round(t.Context(), 5)
		require.NoError(t, err)
		require.Less(t, report.BarrierTime, 1.0)
	})
}

// In async mode a generate-only node may be max_staleness rounds ahead of most peers.
func TestAGeneratorIsPacedWhereNobodyWaits(t *testing.T) {
	n, peer := generator(t, func(c *configs.Config) { c.Sync, c.MaxStaleness, c.BarrierDeadline = configs.SyncAsync, 3, 0.2 })
	require.NoError(t, peer.Publish(t.Context(), answers(t, n, "node_1", 1)))
	for round, held := range []bool{false, false, false, true, false, true} {
		report, err := n.Round(t.Context(), round)
		require.NoError(t, err)
		require.Equal(t, held, report.BarrierTime >= 0.2, "round %d", round)
	}
}

// A stop ends the wait of a generate-only node.
func TestAGeneratorStops(t *testing.T) {
	n, _ := generator(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	go func() {
		n.Host.(*host).await(event.StateBarrier)
		close(n.Host.(*host).stop)
	}()
	_, err := n.Round(ctx, 1)
	require.ErrorIs(t, err, ErrStopped)
}
