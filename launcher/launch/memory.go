package launch

import (
	"math/rand/v2"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// memoryDeaths decides what to do after a node has died out of memory. Such a node has already tried everything
// itself, so it is restarted only once: a second death without a completed round would lead to a third. A death
// does not count if the node has lowered its memory settings for its next attempt.
type memoryDeaths struct {
	inARow  int // deaths without a completed round between them
	crowded *supervise.Failures
}

func newMemoryDeaths(crowded supervise.Policy) *memoryDeaths {
	return &memoryDeaths{crowded: supervise.NewFailures(crowded, rand.Float64)}
}

// add counts a death after an attempt. If another process had filled the GPU, it does not count the death and
// returns how long to wait for that memory. It returns false if a restart would be useless.
func (m *memoryDeaths) add(l *attempt) (wait time.Duration, again bool) {
	if l.crowdedOut() {
		return m.crowded.Add(l.healthy, 0) // completed rounds do not free the other process's memory
	}
	if l.rounds > 0 {
		m.inARow = 0
	}
	if l.lowered() {
		return 0, true
	}
	m.inARow++
	return 0, m.inARow < 2
}

// lowered reports whether the node's last memory step was to lower its settings for its next attempt
// (node/ladder.go, fall).
func (l *attempt) lowered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdict.Cause != event.CauseHostOutOfMemory || l.step == nil || l.step.Cause != event.MemoryHost {
		return false
	}
	return l.step.Action == event.ActionHalveMicroBatch || l.step.Action == event.ActionCheckpointing
}

func outOfMemory(cause string) bool {
	return cause == event.CauseOutOfMemory || cause == event.CauseHostOutOfMemory
}

// memoryStep returns the event for an action of the launcher on a node that cannot continue, based on the node's
// last memory step.
func (l *attempt) memoryStep(action string) event.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	step := event.MemoryStep{Round: l.round, Phase: "generate", Cause: event.MemoryGPU}
	switch {
	case l.step != nil:
		step = *l.step
	case !l.isUp.Load():
		step.Phase = "load"
	case l.state == event.StateUpdating:
		step.Phase = "update"
	}
	if l.verdict.Cause == event.CauseHostOutOfMemory {
		step.Cause = event.MemoryHost
	}
	step.Action = action
	return event.Event{Type: event.TypeMemoryStep, MemoryStep: &step}
}

// crowdedOut reports whether the node's last memory step says that another process holds the memory.
func (l *attempt) crowdedOut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.verdict.Cause == event.CauseOutOfMemory && l.step != nil && l.step.Cause == event.MemoryNeighbour
}

// budget returns the node's budget in bytes; 0: none.
func (n *node) budget() int64 {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	return n.start.BudgetBytes
}

// grow adds to the node's budget, if it has one. With announce it also tells a running node.
func (n *node) grow(bytes int64, announce bool) {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	if n.start.BudgetBytes <= 0 || bytes <= 0 {
		return
	}
	n.start.BudgetBytes += bytes
	n.start.OthersBytes = max(0, n.start.OthersBytes-bytes)
	if n.child == nil || !announce {
		return
	}
	if err := n.child.Send(protocol.Command{Type: protocol.CommandBudget, BudgetBytes: n.start.BudgetBytes}); err != nil {
		n.swarm.logger.Debug("budget command not sent", "node", n.start.Node, "err", err)
	}
}

// toCPU makes the node's next attempt run on the CPU, where it sees no GPU and has no GPU limits.
func (n *node) toCPU() {
	n.swarm.host.enter(n)
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	n.start.Device = deviceCPU
	n.start.BudgetBytes, n.start.OthersBytes, n.start.Transient = 0, 0, protocol.Transient{}
	n.start.Ranks, n.start.TrimAfter = 0, false
}
