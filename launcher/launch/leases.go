package launch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// leaseBytes returns the size of a request: what the node declares, or else the plan's estimate for the phase.
// Loading ends with a self-test, which needs about as much as a small generation. A phase of unknown size gets the
// whole pool.
func (n *node) leaseBytes(r event.Lease) int64 {
	expected := n.start.Transient.GenerateBytes
	if r.Phase == "update" {
		expected = n.start.Transient.UpdateBytes
	}
	switch {
	case r.Bytes > 0 || !n.pool.byBytes:
		return r.Bytes
	case expected > 0:
		return expected
	}
	return lease.All
}

// requestLease queues a request and serves it in a goroutine. It must not block, because the event reader calls it.
func (n *node) requestLease(l *attempt, r event.Lease) {
	asked := n.leaseBytes(r)
	ticket, err := n.pool.leases.Request(lease.Key{Node: n.start.Node, ID: r.ID}, asked)
	if err != nil {
		n.warn("lease refused: " + err.Error())
		return
	}
	if bytes := ticket.Bytes(); bytes < asked && asked < lease.All && !l.cut {
		l.cut = true
		n.warn(fmt.Sprintf("needs %s to %s, but the nodes on %s share %s: it computes alone", units.Bytes(asked), r.Phase, n.pool.name, units.Bytes(bytes)))
	}
	l.asks.Store(true)
	n.grants.Go(func() { n.serveLease(l, r, ticket) })
}

// serveLease sends the grant once the lease is available, and watches it until it is returned. Both waits end at
// the latest with the process, because its leases are then returned.
func (n *node) serveLease(l *attempt, r event.Lease, ticket *lease.Ticket) {
	if ticket.Wait(context.Background()) != nil {
		return
	}
	l.gotOn.mark()
	l.asks.Store(false)
	grant := event.Lease{ID: r.ID, Phase: r.Phase, Bytes: r.Bytes}
	if err := l.child.Send(protocol.Command{Type: protocol.CommandGrant, Lease: &grant}); err != nil {
		n.swarm.logger.Debug("grant not sent", "node", n.start.Node, "err", err)
	}
	limit := n.swarm.spec.LeaseLimit
	tick := time.NewTicker(limit)
	defer tick.Stop()
	for {
		select {
		case <-ticket.Over():
			return
		case <-tick.C:
			if waiting := n.pool.leases.Snapshot().Waiting; len(waiting) > 0 {
				of := ""
				if n.pool.byBytes {
					of = " of " + units.Bytes(ticket.Bytes())
				}
				n.warn(fmt.Sprintf("has held a lease%s to %s for more than %s, and %s", of, r.Phase, limit, waits(waiting)))
				return
			}
		}
	}
}

// waits names the first few waiting nodes.
func waits(waiting []lease.Entry) string {
	const most = 4
	var names []string
	for _, w := range waiting[:min(most, len(waiting))] {
		names = append(names, w.Node)
	}
	text := strings.Join(names, ", ")
	if more := len(waiting) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " " + units.Verb(len(waiting), "wait")
}

func (n *node) warn(message string) {
	n.swarm.emit(n.start.Node, event.Event{Type: event.TypeWarning, Message: message})
}
