package node

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
)

// A node that is away is late for its peers, which continue with the quorum. When it is back it runs every round
// once, without waiting for rollouts that are already there, until it has caught up.
func TestAReturnedNodeCatchesUp(t *testing.T) {
	c := testConfig(t)
	c.Rounds, c.BarrierDeadline, c.BarrierQuorum = 9, 1, 0.5
	const away, back = 2, 6 // node_2 dies before round 2 and returns when the others have finished round 5
	server := broker(t, "catch")
	ids := []string{"node_0", "node_1", "node_2"}
	var there [2]chan struct{} // closed when a node that stayed reaches round back
	for i := range there {
		there[i] = make(chan struct{})
	}
	caught := make(chan struct{})

	run := func(ctx context.Context, bus *natsbus.Bus, id string, first, until int, before func(round int)) ([]event.Round, error) {
		n := newNode(t, c, id, &scripted{answer: func(int, int) string { return "<answer>1</answer>" }}, bus, newHost(ids...))
		var reports []event.Round
		for round := first; round < until; round++ {
			before(round)
			report, err := n.Round(ctx, round)
			if err != nil {
				return reports, err
			}
			reports = append(reports, report)
		}
		return reports, nil
	}
	buses := map[string]*natsbus.Bus{}
	for _, id := range ids {
		buses[id] = join(t, server, "catch", id)
	}
	reports := map[string][]event.Round{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	wait := func(c <-chan struct{}) {
		select {
		case <-c:
		case <-ctx.Done():
		}
	}
	var stayed [2][]event.Round
	for i, id := range ids[:2] {
		group.Go(func() (err error) {
			stayed[i], err = run(ctx, buses[id], id, 0, c.Rounds, func(round int) {
				if round == back {
					close(there[i])
					wait(caught)
				}
			})
			return err
		})
	}
	var returned []event.Round
	group.Go(func() error {
		first, err := run(ctx, buses["node_2"], "node_2", 0, away, func(int) {})
		if err != nil {
			return err
		}
		wait(there[0])
		wait(there[1])
		began := time.Now()
		rest, err := run(ctx, buses["node_2"], "node_2", away, c.Rounds, func(round int) {
			if round == back {
				t.Logf("caught up %d rounds in %v", back-away, time.Since(began))
				close(caught)
			}
		})
		returned = append(first, rest...)
		return err
	})
	require.NoError(t, group.Wait())
	reports["node_0"], reports["node_1"], reports["node_2"] = stayed[0], stayed[1], returned
	for id, list := range reports {
		require.Len(t, list, c.Rounds)
		for round, r := range list {
			require.Equal(t, round, r.Round)
			missed := id != "node_2" && round >= away && round < back
			require.Equal(t, missed, r.Late, "%s in round %d", id, round)
			if id == "node_2" && round >= away && round < back {
				require.Less(t, r.BarrierTime, 0.5, "what is there is not waited for")
			}
			for _, p := range r.Peers {
				require.Equal(t, missed && p.Node == "node_2", p.Late)
			}
		}
	}
}
