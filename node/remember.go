package node

import (
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// remember reads from the journal what the node needs of the rounds before first: the peers' rollouts it trained on
// that may arrive again, and the batches that a remote node could not share. If the journal is unreadable, the node
// may train on rollouts twice, or its peers may miss some.
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

// logged is the journal's record of a round in dir.
func (n *Node) logged(dir string, round int) journal.Round {
	logged, err := journal.Find(dir, round)
	if err != nil {
		n.Logger.Debug("an earlier round is unknown", "round", round, "error", err)
	}
	return logged
}

// alone reports whether every peer was late in a round.
func alone(r event.Round) bool {
	for _, p := range r.Peers {
		if !p.Late {
			return false
		}
	}
	return len(r.Peers) > 0
}
