package node

import (
	"context"
	"errors"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/sapo"
)

// keepPace holds back a node that would run ahead: a generate-only node, or one that received nothing from its
// peers in the previous round while they may still exchange rollouts. Such a node begins a round when all peers
// have shared the round before. In async mode it begins when most peers have shared the round max_staleness rounds
// back. After the barrier's deadline it continues anyway.
func (n *Node) keepPace(ctx context.Context, round int, m *measured) error {
	if !n.Mode.GenerateOnly && !n.ahead(round) {
		return nil
	}
	began := time.Now()
	defer func() { m.seconds.barrier = time.Since(began).Seconds() }()
	behind := 1
	if n.Config.Async() {
		behind = max(1, n.Config.MaxStaleness)
	}
	if round < behind {
		return nil
	}
	n.Host.State(event.StateBarrier, round)
	ctx, cancel := n.untilStop(ctx)
	defer cancel()
	return n.stopped(ctx, n.follow(ctx, round-behind, began))
}

// follow waits until the peers have shared a round, or until the deadline.
func (n *Node) follow(ctx context.Context, round int, began time.Time) error {
	for {
		left := n.patience() - time.Since(began)
		members, changed := n.Host.Members()
		peers := n.leaders(round, members)
		if left <= 0 || len(members) <= 1 || n.outage.cut {
			return nil
		}
		if len(peers) == 0 { // all peers are silent or have just joined
			select {
			case <-changed:
			case <-time.After(left):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		barrier := exchange.Barrier{Deadline: left}
		if n.Config.Async() {
			barrier = exchange.Barrier{Quorum: len(peers)/2 + 1, Limit: left}
		}
		_, err := n.gatherWhile(ctx, round, peers, barrier, changed, func(members []protocol.Member) []string { return n.leaders(round, members) })
		switch {
		case errors.Is(err, errPeersChanged):
			continue
		case err == nil, errors.Is(err, exchange.ErrNoQuorum):
			return nil
		case n.Mode.Remote && ctx.Err() == nil:
			return turnedAway(err) // share will find out whether the swarm is reachable
		}
		return err
	}
}

// leaders are the members whose progress paces this node in a round.
func (n *Node) leaders(round int, members []protocol.Member) []string {
	var peers []string
	for _, m := range members {
		if m.Node != n.ID && m.From <= round && !m.Absent {
			peers = append(peers, m.Node)
		}
	}
	return sapo.DrawPeers(peers, n.Config.MaxPeers, sapo.Seed(n.Config.Seed, n.ID, round, sapo.PurposePeers, 0))
}

// endUntrained ends the round of a generate-only node. It writes the journal record that marks the round as done,
// so that a restart continues with the next round.
func (n *Node) endUntrained(round int, m *measured) (event.Round, error) {
	err := n.logTrained(round, policy.UpdateParams{}, nil, m)
	return m.report(), err
}
