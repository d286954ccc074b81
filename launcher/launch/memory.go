package launch

import (
	"math/rand/v2"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// memoryDeaths decides what follows when a node dies because memory ran out. It has then tried everything it could do
// itself, so that it is started once more; a second death before it has done a round would be followed by a third. A
// death from which the node has learnt, so that its next attempt takes less at a time, is none of the two.
type memoryDeaths struct {
	inARow  int // without a round between them
	crowded *supervise.Failures
}

func newMemoryDeaths(crowded supervise.Policy) *memoryDeaths {
	return &memoryDeaths{crowded: supervise.NewFailures(crowded, rand.Float64)}
}

// add counts a death after an attempt of so many rounds. Where somebody else had filled the GPU, that one may go again:
// it returns how long to wait for that, without counting the death. It returns false when starting the node again would
// be in vain.
func (m *memoryDeaths) add(l *attempt) (wait time.Duration, again bool) {
	if l.crowdedOut() {
		return m.crowded.Add(l.healthy, 0) // its rounds don't send the neighbour away
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

// lowered tells whether the last that the node did about its memory was to lower its sights for its next attempt
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

// memoryStep is what the launcher does about a node that can't go on where it is, with what the node last said about
// its memory.
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

// crowdedOut tells whether the node's last word about its memory was that somebody else has it.
func (l *attempt) crowdedOut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.verdict.Cause == event.CauseOutOfMemory && l.step != nil && l.step.Cause == event.MemoryNeighbour
}

// budget is the node's, in bytes; 0: none.
func (n *node) budget() int64 {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	return n.start.BudgetBytes
}

// grow adds to the node's budget, if it has one, and tells it if it runs and announce is set.
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

// toCPU makes the node's next start one on the CPU: no GPU is seen there, and none of its limits hold.
func (n *node) toCPU() {
	n.swarm.host.enter(n)
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	n.start.Device = deviceCPU
	n.start.BudgetBytes, n.start.OthersBytes, n.start.Transient = 0, 0, protocol.Transient{}
	n.start.Ranks, n.start.TrimAfter = 0, false
}
