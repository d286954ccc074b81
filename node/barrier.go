package node

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// errPeersChanged interrupts a wait at the barrier when the set of peers to wait for changes.
var errPeersChanged = errors.New("the swarm's members changed")

// barrierLimit is the number of deadlines that a node waits for its quorum before it gives up on the swarm.
const barrierLimit = 10

// leastLook is the minimum time for look, even if the deadline has passed.
const leastLook = time.Second

// barrier waits for the rollouts of the present members for round minus external_lag. It also collects what absent
// members have shared. The caller passes errors to stopped.
func (n *Node) barrier(ctx context.Context, round int, m *measured) ([]*exchange.Received, error) {
	began, lag := time.Now(), n.Config.ExternalLag
	if n.Mode.Remote {
		began = n.outage.asked // one deadline covers sharing and gathering
	}
	for {
		members, changed := n.Host.Members()
		swarm := n.roster(round-lag, members)
		if n.outage.lost(round) {
			describePeers(swarm.present, make([]*exchange.Received, len(swarm.present)), m)
			return nil, nil
		}
		received, err := n.gatherFrom(ctx, round-lag, swarm.present, changed, began)
		if errors.Is(err, errPeersChanged) {
			continue
		}
		if err != nil && n.Mode.Remote && ctx.Err() == nil {
			if err := n.away(round, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, r := range received {
			if r != nil {
				r.Age = lag
			}
		}
		describePeers(swarm.present, received, m)
		there := n.look(ctx, round, swarm.absent, began)
		for _, r := range there {
			describePeers([]string{r.Node}, []*exchange.Received{r}, m)
		}
		return append(received, there...), nil
	}
}

// gatherFrom waits at the barrier until all peers have shared, until the deadline passes with a quorum, or until
// the set of peers changes. A remote node needs no quorum.
func (n *Node) gatherFrom(ctx context.Context, round int, peers []string, changed <-chan struct{}, began time.Time) ([]*exchange.Received, error) {
	if len(peers) == 0 {
		return nil, nil
	}
	deadline := n.deadline()
	barrier := exchange.Barrier{Deadline: max(0, deadline-time.Since(began))}
	if !n.Mode.Remote {
		// 0.55 x 20 is 11, despite floating-point error.
		barrier.Quorum = int(math.Ceil(n.Config.BarrierQuorum*float64(len(peers)) - 1e-9))
		barrier.Limit = max(0, barrierLimit*deadline-time.Since(began))
	}
	return n.gatherWhile(ctx, round, peers, barrier, changed, func(members []protocol.Member) []string { return n.roster(round, members).present })
}

// gatherWhile calls Gather and ends it with errPeersChanged once choose returns other peers.
func (n *Node) gatherWhile(
	ctx context.Context, round int, peers []string, barrier exchange.Barrier, changed <-chan struct{}, choose func([]protocol.Member) []string,
) ([]*exchange.Received, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for same := true; same; {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			var members []protocol.Member
			members, changed = n.Host.Members()
			same = slices.Equal(peers, choose(members))
		}
		cancel(errPeersChanged)
	}()
	received, err := n.Swarm.Gather(ctx, round, peers, barrier)
	if err != nil && errors.Is(context.Cause(ctx), errPeersChanged) {
		err = errPeersChanged
	}
	cancel(nil)
	<-watching
	return received, err
}

// look returns the newest rollouts that absent members have shared, of any of their rounds, since the node shared
// its previous round. Either side may be far behind for good, and both can still learn from each other. Rollouts
// that look cannot fetch within the rest of the deadline count as not shared.
func (n *Node) look(ctx context.Context, round int, absent []string, began time.Time) []*exchange.Received {
	if len(absent) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, max(n.patience()-time.Since(began), leastLook), errBusSilent)
	defer cancel()
	received, err := n.Swarm.Recent(ctx, exchange.Window{Round: round, Staleness: absentStaleness, Peers: absent, Limit: 1})
	if err != nil {
		n.Logger.Debug("absent members not checked", "round", round, "error", err)
		return nil
	}
	return received
}

// describePeers counts the rollouts that each peer offered.
func describePeers(peers []string, received []*exchange.Received, m *measured) {
	for i, peer := range peers {
		p := event.Peer{Node: peer}
		switch r := received[i]; {
		case r == nil:
			p.Late, m.late = true, true
		case r.Rejected != "":
			p.Rejected, p.Reason = 1, r.Rejected
		default:
			p.Available = len(r.Rollouts)
		}
		m.peers = append(m.peers, p)
	}
}
