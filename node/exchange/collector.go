package exchange

import (
	"fmt"
	"time"
)

// lookLimit bounds how long a Gather may take to find the batches that have already been shared, even if its barrier is
// shorter.
const lookLimit = 5 * time.Second

// Collector is the barrier of one Gather call: it keeps the batches that arrived and decides when to stop waiting. All
// implementations of Exchange share it. It does no I/O and reads no clock. It is not safe for concurrent use.
type Collector struct {
	round   int
	self    string
	peers   []string
	barrier Barrier
	batches map[string]*Received // by peer, nil until the peer shares
}

// NewCollector waits for the peers' batches of a round. The batch of self never counts toward the quorum.
func NewCollector(round int, self string, peers []string, barrier Barrier) *Collector {
	batches := make(map[string]*Received, len(peers))
	for _, peer := range peers {
		batches[peer] = nil
	}
	barrier.Limit = max(barrier.Limit, barrier.Deadline)
	return &Collector{round: round, self: self, peers: peers, barrier: barrier, batches: batches}
}

// Add records a node's batch. It ignores nodes that are not peers, and every batch after a node's first.
func (c *Collector) Add(node string, data []byte) {
	if batch, waited := c.batches[node]; waited && batch == nil {
		c.batches[node] = Receive(data, node, c.round)
	}
}

// Missing lists the peers that haven't shared yet, in the order of peers.
func (c *Collector) Missing() []string {
	var missing []string
	for _, peer := range c.peers {
		if c.batches[peer] == nil {
			missing = append(missing, peer)
		}
	}
	return missing
}

// Done reports whether the wait is over at the given time since its start. The error is ErrNoQuorum if the quorum was
// missed. looked tells that every batch shared before the wait began has been added. Until then the deadlines are
// extended to lookLimit.
func (c *Collector) Done(elapsed time.Duration, looked bool) (bool, error) {
	shared, total := 0, 0
	for node, batch := range c.batches {
		if node == c.self {
			continue
		}
		total++
		if batch != nil {
			shared++
		}
	}
	switch {
	case len(c.Missing()) == 0:
		return true, nil
	case !looked && elapsed < lookLimit:
		return false, nil
	case elapsed >= c.barrier.Deadline && shared >= c.barrier.Quorum:
		return true, nil
	case elapsed >= c.barrier.Limit:
		return true, fmt.Errorf("round %d: %d of %d peers after %v, %d needed: %w",
			c.round, shared, total, elapsed.Round(time.Millisecond), c.barrier.Quorum, ErrNoQuorum)
	}
	return false, nil
}

// Next returns the time from elapsed until the result of Done can change without a new batch: until the next time
// limit.
func (c *Collector) Next(elapsed time.Duration) time.Duration {
	next := time.Duration(1<<63 - 1)
	for _, at := range []time.Duration{c.barrier.Deadline, c.barrier.Limit, lookLimit} {
		if at > elapsed {
			next = min(next, at-elapsed)
		}
	}
	return next
}

// Batches returns the batches in the order of peers, nil for a peer that hasn't shared.
func (c *Collector) Batches() []*Received {
	batches := make([]*Received, len(c.peers))
	for i, peer := range c.peers {
		batches[i] = c.batches[peer]
	}
	return batches
}
