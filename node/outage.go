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
	// maxUnsent is the number of rounds of rollouts that a node keeps while it cannot reach the swarm.
	maxUnsent = 64

	// shortPatience is the least time that a try to reach the swarm lasts during an outage. Otherwise it lasts a
	// tenth of the barrier's deadline.
	shortPatience = 5 * time.Second

	// restPerTry is the ratio of time training alone to time spent on a failed try to reach the swarm.
	restPerTry = 4
)

// errBusSilent ends a call of the exchange that received no answer.
var errBusSilent = errors.New("the message bus does not answer")

// outage is the state of a remote node's connection to the swarm. The zero value is connected.
type outage struct {
	since   int              // first round without a connection
	last    int              // newest such round
	cut     bool             // not connected since then
	asked   time.Time        // time of the round's publish call
	rest    time.Time        // no publish before this time, after a failed try
	unsent  []exchange.Batch // batches of those rounds, the newest maxUnsent
	refused string           // refusalOf the last batch; empty: it was accepted
}

// rests reports whether the node trains alone without trying to reach the swarm.
func (o *outage) rests() bool { return o.cut && time.Now().Before(o.rest) }

// lost reports whether the node could not reach the swarm in a round.
func (o *outage) lost(round int) bool { return o.cut && o.last == round }

// deadline is the maximum time to wait for peers or for an answer of the bus.
func (n *Node) deadline() time.Duration {
	return units.Seconds(n.Config.BarrierDeadline)
}

// patience is deadline, or less during an outage, because the node has already waited once.
func (n *Node) patience() time.Duration {
	if n.outage.cut {
		return min(n.deadline(), max(n.deadline()/10, shortPatience))
	}
	return n.deadline()
}

// shared handles the result of a remote node's Publish, which ran under bounded. It returns nil if the round
// continues. After an outage it publishes the batches that were kept, because peers may wait for them.
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
			n.warn(fmt.Sprintf("the rollouts of round %d were refused: %v", batch.Round, err))
		}
		n.back(bounded, batch.Round)
		return nil
	}
	n.outage.keep(batch)
	return n.away(batch.Round, err)
}

// keep stores a batch to publish after the outage.
func (o *outage) keep(batch exchange.Batch) {
	o.unsent = append(o.unsent, batch)
	o.unsent = o.unsent[max(0, len(o.unsent)-maxUnsent):]
}

// refusalOf is the reason for a refusal, without the round.
func refusalOf(err error) string {
	var refusal *membership.Refusal
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return err.Error()
}

// away records that a round continues without the swarm. It returns an error only if the coordinator no longer
// admits the node.
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
	n.warn(fmt.Sprintf("the swarm is not reachable in round %d: %v; the node continues alone and retries from time to time. "+
		"Try: check the network between this host and the coordinator", round, err))
	return nil
}

// back records that the swarm is reachable in a round, and publishes the batches that were kept.
func (n *Node) back(ctx context.Context, round int) {
	if n.outage.cut {
		n.warn(fmt.Sprintf("the swarm is reachable again in round %d: rounds %d to %d were trained alone", round, n.outage.since, n.outage.last))
		n.outage.cut = false
	}
	for len(n.outage.unsent) > 0 {
		err := n.Swarm.Publish(ctx, n.outage.unsent[0])
		if err != nil && !errors.Is(err, exchange.ErrRefused) {
			n.Logger.Debug("stored rollouts not shared yet", "round", n.outage.unsent[0].Round, "error", err)
			return
		}
		n.outage.unsent = n.outage.unsent[1:]
	}
}

// turnedAway returns the failure if err means that the coordinator no longer admits the node, and nil otherwise.
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

// warn writes a warning to the log and sends it to the user.
func (n *Node) warn(message string) {
	n.Logger.Warn(message)
	if n.Warn != nil {
		n.Warn(message)
	}
}
