package node

import (
	"context"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// awaitVerdict waits until the learning rate of a round is decided (on_alarm: lower-rate). That is the case once the
// round configs.AlarmLead rounds earlier was judged. A node that is in step with the swarm never waits. A node that is
// far ahead waits, so that the rate of a round does not depend on the node's speed. After the barrier's deadline the
// node continues with the decisions that it has.
func (n *Node) awaitVerdict(ctx context.Context, round int, m *measured) error {
	if n.Mode.Verdicts == nil || n.Mode.GenerateOnly {
		return nil
	}
	began := time.Now()
	for waiting := false; ; waiting = true {
		known, changed := n.Mode.Verdicts()
		if known.Judged > round-configs.AlarmLead {
			return nil
		}
		left := n.patience() - time.Since(began)
		if left <= 0 {
			n.Logger.Warn("the alarm's verdict is late: the learning rate may be lowered later than in a calm run", "round", round)
			return nil
		}
		if !waiting {
			n.Host.State(event.StateBarrier, round)
			defer func() { m.seconds.barrier += time.Since(began).Seconds() }()
		}
		select {
		case <-changed:
		case <-time.After(left):
		case <-n.Host.Stopping():
			return ErrStopped
		case <-ctx.Done():
			return fmt.Errorf("wait for the alarm's verdict: %w", context.Cause(ctx))
		}
	}
}

// learningRate returns the learning rate of a round's update.
func (n *Node) learningRate(round int) float64 {
	rate := n.Config.LearningRate
	if n.Mode.Verdicts == nil {
		return rate
	}
	known, _ := n.Mode.Verdicts()
	for range known.LoweredBefore(round) {
		rate /= configs.AlarmLowerBy
	}
	return rate
}
