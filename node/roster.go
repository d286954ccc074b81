package node

import (
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/sapo"
)

// roster is the rest of the swarm as one round of a node sees it: not more than max_peers of them, drawn anew for each
// round.
type roster struct {
	present []string // waited for at the barrier
	absent  []string // not waited for; what they have shared counts all the same
}

// roster sorts the members for a round. Those that are waited for go first: who is absent has the places that they
// leave. Of an async node all are present, for it waits for nobody. A remote node that is itself absent is far behind,
// where others have been long since and what they shared may be gone: it waits for nobody either, or it would never
// catch up.
func (n *Node) roster(round int, members []protocol.Member) roster {
	var r roster
	behind := false
	for _, m := range members {
		switch {
		case m.Node == n.ID:
			behind = n.Mode.Remote && m.Absent && !m.Ahead
		case n.Config.Async():
			r.present = append(r.present, m.Node)
		case m.From > round:
		case m.Absent:
			r.absent = append(r.absent, m.Node)
		default:
			r.present = append(r.present, m.Node)
		}
	}
	if behind && !n.Config.Async() {
		r.present, r.absent = nil, append(r.present, r.absent...)
	}
	most := n.Config.MaxPeers
	if most == 0 {
		return r
	}
	seed := sapo.Seed(n.Config.Seed, n.ID, round, sapo.PurposePeers, 0)
	r.present = sapo.DrawPeers(r.present, most, seed)
	if left := most - len(r.present); left > 0 {
		r.absent = sapo.DrawPeers(r.absent, left, seed)
	} else {
		r.absent = nil
	}
	return r
}

// indexPeers gives the place of each peer in a report.
func indexPeers(peers []event.Peer) map[string]int {
	index := make(map[string]int, len(peers))
	for i, p := range peers {
		index[p.Node] = i
	}
	return index
}
