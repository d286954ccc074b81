package node

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
)

// recent collects the rollouts that an async node learns from. They may be of any round, and arrived after the node
// shared its round max_staleness rounds back. recent does not wait, so no peer is late. The caller passes errors to
// stopped.
func (n *Node) recent(ctx context.Context, round int, m *measured) ([]*exchange.Received, error) {
	members, _ := n.Host.Members()
	peers := n.roster(round, members).present
	for _, peer := range peers {
		m.peers = append(m.peers, event.Peer{Node: peer})
	}
	if len(peers) == 0 || n.outage.lost(round) {
		return nil, nil
	}
	bounded, expire := context.WithTimeoutCause(ctx, n.patience(), errBusSilent)
	defer expire()
	received, err := n.Swarm.Recent(bounded, exchange.Window{
		Round: round, Staleness: n.Config.MaxStaleness, Peers: peers, Limit: n.Config.MaxStaleness + 1,
	})
	if err != nil && n.Mode.Remote && ctx.Err() == nil {
		return nil, n.away(round, err)
	}
	if err != nil {
		return nil, err
	}
	index := indexPeers(m.peers)
	for _, r := range received {
		p := &m.peers[index[r.Node]]
		p.Available += len(r.Rollouts)
		if r.Rejected != "" {
			p.Rejected, p.Reason = p.Rejected+1, r.Rejected
		}
	}
	return received, nil
}

// absentStaleness is the staleness of the rollouts of absent members at a barrier.
const absentStaleness = 1

// staleness is the number of the node's rounds during which a batch may arrive again.
func (n *Node) staleness() int {
	if n.Config.Async() {
		return n.Config.MaxStaleness
	}
	// A peer may be up to lag + 1 rounds ahead of this node when look reads its rollouts. The barrier reaches the
	// same round lag rounds late.
	return absentStaleness + 2*n.Config.ExternalLag
}

// recentRollouts records the peers' rollouts that may arrive again.
type recentRollouts struct {
	drawn  map[journal.External]int // rollouts that the node trained on, with the round
	judged map[journal.External]verdict
}

// fresh leaves out groups that the node trained on in a previous round.
func (l *recentRollouts) fresh(groups []group) []group {
	var list []group
	for _, g := range groups {
		if _, known := l.drawn[g.origin]; !known {
			list = append(list, g)
		}
	}
	return list
}

// draw records the groups that a round trains on.
func (l *recentRollouts) draw(round int, groups []group) {
	for _, g := range groups {
		l.drawn[g.origin] = round
	}
}

// begin forgets rollouts that cannot arrive again in a round.
func (l *recentRollouts) begin(round, staleness int) {
	if l.drawn == nil {
		l.drawn = map[journal.External]int{}
	}
	for origin, drawn := range l.drawn {
		if drawn < round-staleness-1 {
			delete(l.drawn, origin)
		}
	}
}

// Remember records the rollouts that a previous process of the node trained on, in a round that is not repeated.
func (n *Node) Remember(round int, externals []journal.External) {
	n.rollouts.begin(round, n.staleness())
	for _, origin := range externals {
		n.rollouts.drawn[origin] = round
	}
}
