package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

const (
	// maxUnsent is how many rounds' rollouts a node that can't reach the swarm keeps for it.
	maxUnsent = 64

	// A node that is cut off tries again in later rounds, for a tenth of the barrier's deadline, but not for less than
	// this.
	shortPatience = 5 * time.Second

	// In between it trains alone for so many times as long as it has tried: it is paid for training.
	restPerTry = 4
)

// errBusSilent ends a call of the exchange that got no answer.
var errBusSilent = errors.New("the message bus does not answer")

// outage is what a remote node knows of how it reaches the swarm. The zero value: it does.
type outage struct {
	since   int              // round from which on the swarm has not been reached
	last    int              // newest such round
	cut     bool             // it has not been reached since
	asked   time.Time        // when the round's batch was offered
	rest    time.Time        // up to when nothing is offered, after a try that failed
	unsent  []exchange.Batch // of those rounds, the newest maxUnsent
	refused string           // why the last batch was not taken, if it wasn't: refusalOf
}

// rests tells whether a node trains on alone without trying to reach the swarm.
func (o *outage) rests() bool { return o.cut && time.Now().Before(o.rest) }

// lost tells whether the swarm could not be reached in a round.
func (o *outage) lost(round int) bool { return o.cut && o.last == round }

// deadline is how long a node waits for its peers, or for the bus to answer.
func (n *Node) deadline() time.Duration {
	return units.Seconds(n.Config.BarrierDeadline)
}

// patience is deadline, and shorter while the node is cut off: it has waited once.
func (n *Node) patience() time.Duration {
	if n.outage.cut {
		return min(n.deadline(), max(n.deadline()/10, shortPatience))
	}
	return n.deadline()
}

// shared handles the result of a remote node's Publish with the context bounded: nil if the round continues. After an
// outage it shares what was kept, for others may wait for it.
func (n *Node) shared(ctx, bounded context.Context, batch exchange.Batch, err error) error {
	switch {
	case err == nil:
		n.outage.refused = ""
		n.back(bounded, batch.Round)
		return nil
	case ctx.Err() != nil, errors.Is(err, exchange.ErrInvalid):
		return err
	case turnedAway(err) != nil:
		return turnedAway(err)
	case errors.Is(err, exchange.ErrRefused):
		if reason := refusalOf(err); reason != n.outage.refused {
			n.outage.refused = reason
			n.warn(fmt.Sprintf("the rollouts of round %d were not taken: %v", batch.Round, err))
		}
		n.back(bounded, batch.Round)
		return nil
	}
	n.outage.keep(batch)
	return n.away(batch.Round, err)
}

// keep keeps a batch for when the swarm is reached again.
func (o *outage) keep(batch exchange.Batch) {
	o.unsent = append(o.unsent, batch)
	o.unsent = o.unsent[max(0, len(o.unsent)-maxUnsent):]
}

// refusalOf is what a refusal is about, whatever round it names.
func refusalOf(err error) string {
	var refusal *membership.Refusal
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return err.Error()
}

// away takes note that a round goes on without the swarm. Its error is that of a node that is not welcome any more.
func (n *Node) away(round int, err error) error {
	if final := turnedAway(err); final != nil {
		return final
	}
	n.outage.last = round
	n.outage.rest = time.Now().Add(restPerTry * time.Since(n.outage.asked))
	if n.outage.cut {
		n.Logger.Debug("still alone", "round", round, "error", err)
		return nil
	}
	n.outage.cut, n.outage.since = true, round
	n.warn(fmt.Sprintf("the swarm can't be reached in round %d: %v; the node trains on alone and tries again now and then. "+
		"Try: check the network between this host and the coordinator", round, err))
	return nil
}

// back takes note that the swarm is reached in a round, and shares what was kept.
func (n *Node) back(ctx context.Context, round int) {
	if n.outage.cut {
		n.warn(fmt.Sprintf("the swarm is reached again in round %d: rounds %d to %d were trained alone", round, n.outage.since, n.outage.last))
		n.outage.cut = false
	}
	for len(n.outage.unsent) > 0 {
		err := n.Swarm.Publish(ctx, n.outage.unsent[0])
		if err != nil && !errors.Is(err, exchange.ErrRefused) {
			n.Logger.Debug("kept rollouts not shared yet", "round", n.outage.unsent[0].Round, "error", err)
			return
		}
		n.outage.unsent = n.outage.unsent[1:]
	}
}

// turnedAway is the failure of a node that the coordinator will not have any more; nil where err says nothing of the
// kind.
func turnedAway(err error) error {
	final := errors.Is(err, exchange.ErrClosed)
	var refusal *membership.Refusal
	if errors.As(err, &refusal) {
		switch refusal.Code {
		case membership.CodeToken, membership.CodeRevoked, membership.CodeBanned, membership.CodeVersion:
			final = true
		}
	}
	if final {
		return &Failure{event.CauseExchange, err}
	}
	return nil
}

// warn tells the log and whoever listens.
func (n *Node) warn(message string) {
	n.Logger.Warn(message)
	if n.Warn != nil {
		n.Warn(message)
	}
}
