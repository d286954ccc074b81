package launch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// onGPUs assigns a test's nodes to GPUs in turn, with a budget of 9 GB each.
func (st *swarmTest) onGPUs(pools ...fit.Room) {
	for i := range pools {
		pools[i].GPU = &i
	}
	st.spec.Plan = fit.Plan{Device: fit.DeviceCUDA, Rooms: pools, PerNode: fit.Footprint{Resident: 3e9}}
	for i := range st.spec.Starts {
		gpu := i % len(pools)
		st.spec.Plan.Placement = append(st.spec.Plan.Placement, fit.Placement{Node: st.spec.Starts[i].Node, GPU: &gpu})
		s := &st.spec.Starts[i]
		s.Device, s.BudgetBytes, s.OthersBytes, s.TrimAfter, s.Ranks = "cuda:0", 9e9, 20e9, true, 1
	}
}

func (st *swarmTest) messages(node string) (texts []string) {
	for _, e := range st.of(node, event.TypeWarning) {
		texts = append(texts, e.Message)
	}
	return texts
}

// A node that no longer fits is restarted once, then leaves the swarm. The others continue with its memory.
func TestNodeThatDoesNotFitIsShed(t *testing.T) {
	tests := map[string]struct {
		step  event.MemoryStep
		cause string
	}{
		"runs out of memory": {event.MemoryStep{
			Round: 4, Phase: "update", Cause: event.MemoryOwnCap, Action: event.ActionShed, MicroBatch: 1,
			RequestedBytes: 2e9, UsedBytes: 3e9, CapBytes: 4e9,
		}, event.CauseOutOfMemory},
		"is killed by the kernel": {event.MemoryStep{Phase: "generate", Cause: event.MemoryHost, Action: event.ActionShed}, event.CauseHostOutOfMemory},
	}
	for behaviour, want := range tests {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			st := newSwarmTest(t, 3, "node_1="+behaviour+";*=waits for a budget")
			st.spec.Restarts.MaxRestarts = 5
			// the host is full, so the CPU must not be used
			st.spec.CPUFallback = want.cause == event.CauseHostOutOfMemory
			st.onGPUs(fit.Room{})
			result, err := st.run(t, t.Context())
			var lost *LostError
			if !errors.As(err, &lost) || lost.Remaining != 2 {
				t.Fatalf("error %v", err)
			}
			wantState(t, result.Nodes[0], event.StateDone, 0)
			wantState(t, result.Nodes[1], event.StateGivenUp, 1)
			wantState(t, result.Nodes[2], event.StateDone, 0)
			if result.Nodes[1].Cause != want.cause {
				t.Errorf("cause %s", result.Nodes[1].Cause)
			}
			var after []event.Type
			for _, e := range st.of("node_1", event.TypeRestart, event.TypeMemoryStep, event.TypeGiveUp) {
				if e.Type != event.TypeMemoryStep || e.MemoryStep.Action == event.ActionShed {
					after = append(after, e.Type)
				}
				if e.Type == event.TypeMemoryStep && e.MemoryStep.Action == event.ActionShed && *e.MemoryStep != want.step {
					t.Errorf("step %+v, want %+v", *e.MemoryStep, want.step)
				}
			}
			if !slices.Equal(after, []event.Type{event.TypeRestart, event.TypeMemoryStep, event.TypeGiveUp}) {
				t.Errorf("followed by %v", after)
			}
			for _, node := range []string{"node_0", "node_2"} { // 9 GB of their own and half of another 9
				if got := st.messages(node); !slices.Equal(got, []string{"13500000000"}) {
					t.Errorf("%s was told %v", node, got)
				}
			}
		})
	}
}

func TestNodeThatDoesNotFitGoesOnOnTheCPU(t *testing.T) {
	st := newSwarmTest(t, 3, "node_1=runs out of memory;*=waits for a budget")
	st.spec.CPUFallback = true
	st.onGPUs(fit.Room{})
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[1], event.StateDone, 2)
	var devices []string
	for _, e := range st.of("node_1", event.TypeLoaded) {
		devices = append(devices, e.Loaded.Device)
	}
	if !slices.Equal(devices, []string{"cuda:0", "cuda:0", "cpu"}) {
		t.Errorf("lived on %v", devices)
	}
	steps := st.of("node_1", event.TypeMemoryStep)
	if last := steps[len(steps)-1].MemoryStep; last.Action != event.ActionCPU || last.Cause != event.MemoryOwnCap {
		t.Errorf("last step %+v", last)
	}
	for _, node := range []string{"node_0", "node_2"} {
		if got := st.messages(node); !slices.Equal(got, []string{"13500000000"}) {
			t.Errorf("%s was told %v", node, got)
		}
	}
}

// Another process on the GPU may free its memory. The launcher waits after such deaths and does not count them.
func TestNeighboursAreWaitedFor(t *testing.T) {
	st := newSwarmTest(t, 1, "is crowded out 4 times")
	st.spec.Restarts.MaxRestarts = 1
	st.spec.Crowded = supervise.Policy{MaxRestarts: 4, First: 2 * time.Millisecond, Cap: 10 * time.Millisecond}
	st.onGPUs(fit.Room{})
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[0], event.StateDone, 4)
}

func TestNeighboursAreNotWaitedForForEver(t *testing.T) {
	st := newSwarmTest(t, 2, "node_0=is crowded out 99 times;*=normal")
	st.spec.Crowded = supervise.Policy{MaxRestarts: 3, First: time.Millisecond, Cap: 10 * time.Millisecond}
	st.onGPUs(fit.Room{})
	result, err := st.run(t, t.Context())
	if !errors.Is(err, ErrLost) {
		t.Fatalf("error %v", err)
	}
	wantState(t, result.Nodes[0], event.StateGivenUp, 3)
	wantState(t, result.Nodes[1], event.StateDone, 0)
	shed := st.of("node_0", event.TypeMemoryStep)
	if last := shed[len(shed)-1].MemoryStep; last.Action != event.ActionShed || last.Cause != event.MemoryNeighbour {
		t.Errorf("last step %+v", last)
	}
}

func TestMemoryDeaths(t *testing.T) {
	type death struct {
		neighbour bool
		learnt    bool
		rounds    int
		again     bool
	}
	tests := map[string][]death{
		"twice in a row":                 {{again: true}, {again: false}},
		"rounds between":                 {{again: true}, {rounds: 1, again: true}, {rounds: 7, again: true}, {again: false}},
		"a neighbour between":            {{again: true}, {neighbour: true, again: true}, {again: false}},
		"neighbours only, two allowed":   {{neighbour: true, again: true}, {neighbour: true, again: true}, {neighbour: true, again: false}},
		"rounds do not forgive a crowd":  {{neighbour: true, again: true}, {neighbour: true, rounds: 3, again: true}, {neighbour: true, again: false}},
		"rounds before the first of all": {{rounds: 100, again: true}, {again: false}},
		"as long as it learns":           {{again: true}, {learnt: true, again: true}, {learnt: true, again: true}, {again: false}},
		"learning first":                 {{learnt: true, again: true}, {again: true}, {again: false}},
	}
	for name, deaths := range tests {
		m := newMemoryDeaths(supervise.Policy{MaxRestarts: 2})
		for i, d := range deaths {
			l := &attempt{rounds: d.rounds, verdict: supervise.Verdict{Cause: event.CauseOutOfMemory}}
			switch {
			case d.neighbour:
				l.step = &event.MemoryStep{Cause: event.MemoryNeighbour, Action: event.ActionRestartEngine}
			case d.learnt:
				l.verdict.Cause = event.CauseHostOutOfMemory
				l.step = &event.MemoryStep{Cause: event.MemoryHost, Action: event.ActionHalveMicroBatch}
			}
			wait, again := m.add(l)
			if again != d.again || (wait > 0) != (d.neighbour && d.again) {
				t.Errorf("%s: death %d: again %t after %s", name, i, again, wait)
			}
		}
	}
}

// Nodes may leave a pool in any order: the sum of the budgets stays the same (except for rounding), and the leases
// grow by the memory held between phases.
func TestLeavingSharesWhatIsFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		byBytes := rapid.Bool().Draw(t, "by bytes")
		c := lease.Capacity{}
		if byBytes {
			c.Bytes = 10e9
		}
		s := &swarm{spec: Spec{Plan: fit.Plan{PerNode: fit.Footprint{Resident: 2e9}}}}
		r := newPool("GPU 0", []int{0}, c, s.spec)
		const each = int64(7e9)
		var total int64
		leases := c.Bytes
		for i := range rapid.IntRange(1, 64).Draw(t, "nodes") {
			n := &node{swarm: s, start: protocol.Start{Node: fmt.Sprintf("node_%d", i), BudgetBytes: each, OthersBytes: 50e9}}
			if rapid.Bool().Draw(t, "measured") {
				n.resident.Store(rapid.Int64Range(1, 4e9).Draw(t, "resident"))
			}
			r.enter(n)
			total += each
		}
		for len(r.nodes) > 1 {
			gone := r.nodes[rapid.IntRange(0, len(r.nodes)-1).Draw(t, "who")]
			free := rapid.Bool().Draw(t, "free")
			r.leave(gone, free, true)
			total -= gone.start.BudgetBytes
			if free && byBytes {
				resident := gone.resident.Load()
				if resident == 0 {
					resident = 2e9
				}
				leases += resident
				total += resident
			} else if free {
				total += gone.start.BudgetBytes
			}
			var sum int64
			for _, n := range r.nodes {
				sum += n.start.BudgetBytes
				if n.start.OthersBytes != max(0, 50e9-(n.start.BudgetBytes-each)) {
					t.Fatalf("%+v", n.start)
				}
			}
			if lost := total - sum; lost < 0 || lost > 64*64 {
				t.Fatalf("budgets of %d, want %d", sum, total)
			}
			if got := r.leases.Snapshot().Capacity.Bytes; got != leases {
				t.Fatalf("leases share %d, want %d", got, leases)
			}
		}
	})
}
