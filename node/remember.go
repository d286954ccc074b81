package node

import (
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// remember reads of the journal what the next rounds must know of those before round first: what the node has drawn of
// others' rollouts that may come again, and what a remote node may not have been able to share. Unreadable rollouts may
// be drawn again, or are missing for the node's peers.
func (n *Node) remember(start protocol.Start, first int) {
	for round := max(start.From, first-n.staleness()-1); round < first; round++ {
		if logged := n.logged(start.Dir, round); logged.Trained != nil {
			n.Remember(round, logged.Trained.Externals)
		}
	}
	if !n.Mode.Remote {
		return
	}
	for round := max(start.From, first-maxUnsent); round < first; round++ {
		logged := n.logged(start.Dir, round)
		if logged.Trained == nil || logged.Generated == nil || !alone(logged.Trained.Report) {
			continue
		}
		batch, err := exchange.Decode(logged.Generated.Batch, n.ID, round)
		if err != nil {
			n.Logger.Warn("journaled rollouts not shared again", "round", round, "reason", err)
			continue
		}
		n.outage.keep(batch)
	}
}

// logged is what the journal in dir has of a round.
func (n *Node) logged(dir string, round int) journal.Round {
	logged, err := journal.Find(dir, round)
	if err != nil {
		n.Logger.Debug("a former round is not known", "round", round, "error", err)
	}
	return logged
}

// alone tells whether a round heard nothing of anybody.
func alone(r event.Round) bool {
	for _, p := range r.Peers {
		if !p.Late {
			return false
		}
	}
	return len(r.Peers) > 0
}
