package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// fakeSharer records its calls.
type fakeSharer struct {
	mu      sync.Mutex
	budgets map[int][]int64 // by node index
	killed  [][]int
}

func (s *fakeSharer) ClientEnv(index int, budget int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.budgets == nil {
		s.budgets = map[int][]int64{}
	}
	s.budgets[index] = append(s.budgets[index], budget)
	return []string{fmt.Sprintf("FAKE_CLIENT=client_%d", index)}
}

func (s *fakeSharer) BeforeKill(pids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = append(s.killed, pids)
}

// once calls do after n events of a type from the given nodes.
func (st *swarmTest) once(n int, t event.Type, nodes []string, do func()) {
	before := st.on
	st.on = func(e event.Event) {
		if before != nil {
			before(e)
		}
		if e.Type == t && slices.Contains(nodes, e.Node) {
			if n--; n == 0 {
				do()
			}
		}
	}
}

// A fault ends only the nodes of its GPU. They restart when it is over, and it does not count as their failure.
func TestFaultIsOutlived(t *testing.T) {
	st := newSwarmTest(t, 4, "node_0=hangs in 1 attempts;node_2=hangs in 1 attempts;*=normal")
	sharer := &fakeSharer{}
	faults, recovered := make(chan Fault, 1), make(chan struct{})
	st.spec.Sharer, st.spec.Faults = sharer, faults
	st.spec.Restarts.MaxRestarts = 0
	st.onGPUs(fit.Room{}, fit.Room{}) // nodes 0 and 2 on GPU 0
	on0 := []string{"node_0", "node_2"}
	st.once(2, event.TypeLoaded, on0, func() { faults <- Fault{GPU: 0, Message: "MPS server: FAULT", Recovered: recovered} })
	isOver := false
	// Not before the other GPU is done: enough time to restart too early.
	st.once(4, event.TypeExit, append([]string{"node_1", "node_3"}, on0...), func() {
		isOver = true
		close(recovered)
	})
	st.once(3, event.TypeSpawn, on0, func() {
		if !isOver {
			t.Error("started again before the fault was over")
		}
	})
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, restarts := range []int{1, 0, 1, 0} {
		wantState(t, result.Nodes[i], event.StateDone, restarts)
	}
	for _, node := range on0 {
		exits := st.of(node, event.TypeExit)
		if len(exits) != 2 || exits[0].Cause != event.CauseDevice || exits[0].Message != "GPU 0: MPS server: FAULT" {
			t.Errorf("%s: exits %+v", node, exits)
		}
	}
	if got := st.messages(""); len(got) != 1 || !strings.HasPrefix(got[0], "GPU 0: MPS server: FAULT: ") {
		t.Errorf("the run's warnings: %q", got)
	}
	if len(sharer.killed) != 2 {
		t.Errorf("BeforeKill was called with %v", sharer.killed)
	}
	for i, starts := range []int{2, 1, 2, 1} {
		if got := sharer.budgets[i]; len(got) != starts || got[0] != 9e9 {
			t.Errorf("node %d was given %v", i, got)
		}
	}
}

// The processes on a GPU often notice its fault before its monitor does.
func TestDeathsJustBeforeAFaultDoNotCount(t *testing.T) {
	st := newSwarmTest(t, 2, "node_0=dies in its engine once;*=normal")
	faults := make(chan Fault, 1)
	st.spec.Faults = faults
	st.spec.FaultSettle = 20 * time.Second
	st.spec.Restarts.MaxRestarts = 0
	st.onGPUs(fit.Room{}, fit.Room{})
	st.once(1, event.TypeExit, []string{"node_0"}, func() { faults <- Fault{GPU: -1, Message: "Xid 31"} })
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[0], event.StateDone, 1)
	if got := st.of("node_0", event.TypeRestart); len(got) != 1 || got[0].Cause != event.CauseDevice || got[0].Message != "GPU 0: Xid 31" {
		t.Errorf("restarts %+v", got)
	}
}

func TestDeathWithoutAFaultIsTheNodesOwn(t *testing.T) {
	st := newSwarmTest(t, 1, "dies in its engine once")
	st.spec.Faults = make(chan Fault)
	st.spec.FaultSettle = time.Millisecond
	st.spec.Restarts.MaxRestarts = 0
	st.onGPUs(fit.Room{})
	result, err := st.run(t, t.Context())
	if !errors.Is(err, ErrLost) {
		t.Fatalf("error %v", err)
	}
	wantState(t, result.Nodes[0], event.StateGivenUp, 0)
}

func TestLostGPU(t *testing.T) {
	never := make(chan struct{})
	tests := map[string]struct {
		faults   []Fault // the first when all are loaded, another at each later load
		restarts int
		says     string
	}{
		"at once":            {[]Fault{{Message: "fell off the bus", Fatal: true}}, 0, "GPU 0: fell off the bus"},
		"while it lasts":     {[]Fault{{Message: "Xid 31", Recovered: never}, {Message: "fell off the bus", Fatal: true}}, 0, "GPU 0: fell off the bus"},
		"it is never over":   {[]Fault{{Message: "Xid 31", Recovered: never}}, 0, "not resolved after 200ms"},
		"it comes and comes": {[]Fault{{Message: "Xid 31"}, {Message: "Xid 31"}, {Message: "Xid 31"}}, 2, "again and again"},
	}
	for name, tt := range tests {
		for _, fallback := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, fallback %t", name, fallback), func(t *testing.T) {
				t.Parallel()
				st := newSwarmTest(t, 2, "node_0=hangs in 99 attempts;*=normal")
				faults := make(chan Fault, 4)
				st.spec.Faults, st.spec.FaultTimeout = faults, 200*time.Millisecond
				if name == "while it lasts" {
					st.spec.FaultTimeout = time.Minute
				}
				st.spec.Restarts = supervise.Policy{MaxRestarts: 2, First: time.Millisecond, Cap: time.Millisecond}
				st.spec.CPUFallback = fallback
				st.onGPUs(fit.Room{}, fit.Room{})
				sent := 0
				st.on = func(e event.Event) {
					if e.Type == event.TypeLoaded && e.Node == "node_0" && sent < len(tt.faults) {
						faults <- tt.faults[sent]
						if sent++; name == "while it lasts" {
							faults <- tt.faults[sent]
							sent++
						}
					}
				}
				result, err := st.run(t, t.Context())
				wantState(t, result.Nodes[1], event.StateDone, 0)
				if fallback {
					if err != nil {
						t.Fatal(err)
					}
					wantState(t, result.Nodes[0], event.StateDone, tt.restarts+1)
					return
				}
				var lost *LostError
				if !errors.As(err, &lost) || lost.Remaining != 1 {
					t.Fatalf("error %v", err)
				}
				wantState(t, result.Nodes[0], event.StateGivenUp, tt.restarts)
				if r := result.Nodes[0]; r.Cause != event.CauseDevice || !strings.Contains(r.Message, tt.says) {
					t.Errorf("%s: %s", r.Cause, r.Message)
				}
				if got := st.of("", event.TypeMemoryStep); len(got) != 0 {
					t.Errorf("memory steps %+v", got)
				}
			})
		}
	}
}

func TestStopDuringAFault(t *testing.T) {
	st := newSwarmTest(t, 1, "hangs in 99 attempts")
	faults := make(chan Fault, 1)
	st.spec.Faults = faults
	st.onGPUs(fit.Room{})
	st.once(1, event.TypeLoaded, []string{"node_0"}, func() { faults <- Fault{Message: "Xid 31", Recovered: make(chan struct{})} })
	cause := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	st.once(1, event.TypeExit, []string{"node_0"}, func() { cancel(cause) })
	begin := time.Now()
	result, err := st.run(t, ctx)
	if !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	if r := result.Nodes[0]; r.State == event.StateDone || r.State == event.StateGivenUp || r.Restarts != 0 {
		t.Errorf("%+v", r)
	}
	if d := time.Since(begin); d > 15*time.Second {
		t.Errorf("took %s", d)
	}
}

func TestClosedFaultsAreNone(t *testing.T) {
	st := newSwarmTest(t, 1, "normal")
	faults := make(chan Fault)
	close(faults)
	st.spec.Faults = faults
	st.onGPUs(fit.Room{})
	if _, err := st.run(t, t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Each node's process gets its own client settings. A node that falls back to the CPU is not a client and sees no
// GPU.
func TestEnvironmentOfClients(t *testing.T) {
	st := newSwarmTest(t, 2, "node_0=says what it sees;node_1=says what it sees")
	st.spec.Sharer = &fakeSharer{}
	st.onGPUs(fit.Room{}, fit.Room{})
	st.spec.Plan.GPUs = []fit.GPU{{Index: 0, UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b"}}
	if _, err := st.run(t, t.Context()); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{"node_0": "client_0 GPU-a", "node_1": "client_1 GPU-b"} {
		if got := st.messages(node); !slices.Equal(got, []string{want}) {
			t.Errorf("%s sees %q, want %q", node, got, want)
		}
	}
	n := &node{swarm: &swarm{spec: st.spec, host: hostPool(st.spec)}, start: st.spec.Starts[0]}
	n.toCPU()
	p := n.process()
	if last := p.Env[len(p.Env)-1]; last != "CUDA_VISIBLE_DEVICES=" || p.BeforeKill != nil {
		t.Errorf("on the CPU: %q", last)
	}
	if s := n.start; s.Device != deviceCPU || s.BudgetBytes != 0 || s.OthersBytes != 0 || s.TrimAfter || s.Ranks != 0 {
		t.Errorf("%+v", s)
	}
}
