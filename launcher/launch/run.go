package launch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

const orphanTerm = 3 * time.Second // between SIGTERM and SIGKILL for a process of an earlier launcher

// Run runs every node of spec until all of them are done, given up or stopped. It leaves no process behind.
//
// sink gets each event with its run and node set. These are the nodes' own events, and those of the launcher:
// spawn, exit, restart, giveup, the queued state, warnings, and the memory_step of a node that leaves its GPU.
// Calls of sink are never concurrent and must not block for long, because the nodes wait for them.
//
// When ctx ends, Run stops all nodes in parallel: the stop command, SIGTERM, SIGKILL, each step bounded by
// spec.Stop. Closing spec.Now cuts that short. The error then wraps the context's cause. If nodes were given up, it
// is a *LostError. Result is valid with both errors.
func Run(ctx context.Context, spec Spec, sink func(event.Event), logger *slog.Logger) (Result, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return Result{}, err
	}
	for _, start := range spec.Starts {
		orphans, err := supervise.SweepOrphans(ctx, start.Dir, orphanTerm)
		if err != nil {
			return Result{}, fmt.Errorf("launch %s: %w", start.Node, err)
		}
		for _, orphan := range orphans {
			logger.Warn("ended a leftover process of an earlier launcher", "run", spec.Run, "node", start.Node, "pid", orphan.PID)
		}
	}
	pools, of, err := newPools(spec)
	if err != nil {
		return Result{}, err
	}
	s := &swarm{
		spec: spec, sink: sink, logger: logger, pools: pools, host: hostPool(spec),
		loading: lease.NewPool(lease.Capacity{Slots: 1}),
	}
	for i, start := range spec.Starts {
		if start.Transient == (protocol.Transient{}) {
			start.Transient = protocol.Transient{GenerateBytes: spec.Plan.PerNode.Generate, UpdateBytes: spec.Plan.PerNode.Update}
		}
		n := &node{swarm: s, index: i, start: start}
		s.nodes = append(s.nodes, n)
		of[i].enter(n)
		// Request here, so that nodes load in order regardless of scheduling.
		if n.turn, err = s.loading.Request(lease.Key{Node: start.Node}, 0); err != nil {
			return Result{}, fmt.Errorf("launch %s: %w", start.Node, err)
		}
	}
	result := Result{Nodes: make([]NodeResult, len(s.nodes))}
	var nodes, faults sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	faults.Go(func() { s.watchFaults(watching) })
	faults.Go(func() { s.watchOthers(watching) })
	faults.Go(func() { s.watchVerdicts(watching) })
	for i, n := range s.nodes {
		nodes.Go(func() { result.Nodes[i] = n.serve(ctx) })
	}
	nodes.Wait()
	stop()
	faults.Wait()
	return result, s.outcome(ctx, &result)
}

func (s *swarm) outcome(ctx context.Context, result *Result) error {
	var lost LostError
	interrupted := false
	for _, n := range result.Nodes {
		switch n.State {
		case event.StateGivenUp:
			lost.GivenUp = append(lost.GivenUp, n)
		case event.StateDone:
		default:
			interrupted = true
		}
	}
	result.Remaining = len(result.Nodes) - len(lost.GivenUp)
	lost.Remaining = result.Remaining
	switch {
	case interrupted && ctx.Err() != nil:
		return fmt.Errorf("run stopped: %w", context.Cause(ctx))
	case len(lost.GivenUp) > 0:
		return &lost
	}
	return nil
}

// swarm is the state that the nodes of a Run share.
type swarm struct {
	spec    Spec
	logger  *slog.Logger
	nodes   []*node
	pools   []*devicePool
	host    *devicePool // for nodes that fell back to the CPU
	loading *lease.Pool // one model load at a time

	sinkMu sync.Mutex
	sink   func(event.Event)

	mu      sync.Mutex
	givenUp map[string]bool
	others  []protocol.Member // on other hosts
}

// emit completes an event and passes it to the sink.
func (s *swarm) emit(node string, e event.Event) {
	e.Run, e.Node = s.spec.Run, node
	if e.Time == 0 {
		e.Time = event.Now()
	}
	s.sinkMu.Lock()
	defer s.sinkMu.Unlock()
	s.sink(e)
}

// members returns the current members of the swarm: this host's nodes without those given up, then other hosts'
// nodes. changed reports whether they differ from the members that the nodes started with.
func (s *swarm) members() (members []protocol.Member, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := map[string]int{} // index in members; -1: given up
	for _, n := range s.nodes {
		own[n.start.Node] = -1
		if !s.givenUp[n.start.Node] {
			own[n.start.Node] = len(members)
			members = append(members, protocol.Member{Node: n.start.Node, From: n.start.From})
		}
	}
	for _, m := range s.others {
		switch at, ours := own[m.Node]; {
		case !ours:
			members = append(members, m)
		case at >= 0:
			members[at].Absent, members[at].Ahead = m.Absent, m.Ahead
		}
	}
	return members, len(s.givenUp) > 0 || s.others != nil
}

// giveUp removes a node from the members and tells the others, so that they do not wait for it at the barrier.
func (s *swarm) giveUp(lost *node) {
	s.mu.Lock()
	if s.givenUp == nil {
		s.givenUp = map[string]bool{}
	}
	s.givenUp[lost.start.Node] = true
	s.mu.Unlock()
	for _, n := range s.nodes {
		if n != lost {
			n.sendMembers()
		}
	}
}

// watchOthers tells this host's nodes about changes of nodes on other hosts, until ctx ends.
func (s *swarm) watchOthers(ctx context.Context) {
	if s.spec.Others == nil {
		return
	}
	for {
		others, changed := s.spec.Others()
		s.mu.Lock()
		same := slices.Equal(others, s.others)
		s.others = slices.Clone(others)
		s.mu.Unlock()
		if !same {
			for _, n := range s.nodes {
				n.sendMembers()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// watchVerdicts sends the alarm's decisions to the nodes, until ctx ends.
func (s *swarm) watchVerdicts(ctx context.Context) {
	if s.spec.Verdicts == nil {
		return
	}
	for {
		_, changed := s.spec.Verdicts()
		for _, n := range s.nodes {
			n.sendVerdicts()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
