package node

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
)

// recent is what an async node learns from: whatever arrived since it shared its round max_staleness rounds ago, of
// whatever rounds. It waits for nobody, so nobody is late. Errors are for stopped to judge.
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

// absentStaleness is the staleness of what members share that nobody waits for, at a barrier.
const absentStaleness = 1

// staleness is for how many of its rounds a batch may come to the node again.
func (n *Node) staleness() int {
	if n.Config.Async() {
		return n.Config.MaxStaleness
	}
	// A peer may have shared lag + 1 rounds ahead of this node when it is looked up, and its barrier comes to that
	// round lag rounds late.
	return absentStaleness + 2*n.Config.ExternalLag
}

// recentRollouts is what a node remembers of its peers' rollouts, for as long as they can come again.
type recentRollouts struct {
	drawn  map[journal.External]int // rollouts it has trained on, and in which of its rounds
	judged map[journal.External]verdict
}

// fresh leaves out what the node has trained on in a previous round.
func (l *recentRollouts) fresh(groups []group) []group {
	var list []group
	for _, g := range groups {
		if _, known := l.drawn[g.origin]; !known {
			list = append(list, g)
		}
	}
	return list
}

// draw takes note of what a round trains on.
func (l *recentRollouts) draw(round int, groups []group) {
	for _, g := range groups {
		l.drawn[g.origin] = round
	}
}

// begin forgets what can't come again in a round.
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

// Remember records the rollouts that an earlier process of the node trained on, in a round that is not repeated.
func (n *Node) Remember(round int, externals []journal.External) {
	n.rollouts.begin(round, n.staleness())
	for _, origin := range externals {
		n.rollouts.drawn[origin] = round
	}
}
