package node

import (
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/sapo"
)

// roster holds the peers of a node for one round: at most max_peers, drawn anew in each round.
type roster struct {
	present []string // the barrier waits for these
	absent  []string // the barrier does not wait for these, but uses what they have shared
}

// roster chooses the peers of a round. Present members are drawn first, and absent members fill the places that
// remain. For an async node all members are present, because it waits for none. A remote node that is itself absent
// is far behind, and what the others shared in its round may be gone. It waits for no one, or it would never catch
// up.
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

// indexPeers maps each peer to its index in a report.
func indexPeers(peers []event.Peer) map[string]int {
	index := make(map[string]int, len(peers))
	for i, p := range peers {
		index[p.Node] = i
	}
	return index
}
