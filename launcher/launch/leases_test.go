package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// mostAtOnce counts the nodes that hold a lease at one time.
func (st *swarmTest) mostAtOnce() *int {
	held, most := map[string]bool{}, new(int)
	st.on = func(e event.Event) {
		switch e.Type {
		case event.TypeRound: // completed while the lease is held
			held[e.Node] = true
			*most = max(*most, len(held))
		case event.TypeRelease, event.TypeExit:
			delete(held, e.Node)
		}
	}
	return most
}

func TestLeasesAreWithinTheirBytes(t *testing.T) {
	tests := []struct {
		name, behaviour string
		expected        protocol.Transient
		planned         fit.Footprint
		most            int
	}{
		{"declared", "asks for 4 GB", protocol.Transient{GenerateBytes: 9e9}, fit.Footprint{}, 2},
		{"as assigned", "normal", protocol.Transient{GenerateBytes: 4e9, UpdateBytes: 9e9}, fit.Footprint{}, 2},
		{"as planned", "normal", protocol.Transient{}, fit.Footprint{Generate: 6e9, Update: 1e9}, 1},
		{"unknown", "normal", protocol.Transient{}, fit.Footprint{}, 1},
		{"more than there is", "asks for 40 GB", protocol.Transient{}, fit.Footprint{}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := newSwarmTest(t, 6, tt.behaviour)
			st.onGPUs(fit.Room{LeaseBytes: 10e9})
			st.spec.Plan.PerNode = tt.planned
			for i := range st.spec.Starts {
				st.spec.Starts[i].Transient = tt.expected
			}
			most := st.mostAtOnce()
			if _, err := st.run(t, t.Context()); err != nil {
				t.Fatal(err)
			}
			if *most < 1 || *most > tt.most {
				t.Errorf("%d computed at once, want at most %d", *most, tt.most)
			}
			for i := range st.spec.Starts {
				node := fit.NodeName(i)
				if got := st.of(node, event.TypeRound); len(got) != fakeRounds {
					t.Errorf("%s: %d rounds", node, len(got))
				}
				warned := st.messages(node)
				var want []string // once per attempt, not per lease
				if tt.name == "more than there is" {
					want = []string{"needs 40.0 GB to generate, but the nodes on GPU 0 share 10.0 GB: it computes alone"}
				}
				if !slices.Equal(warned, want) {
					t.Errorf("%s: warnings %q, want %q", node, warned, want)
				}
			}
		})
	}
}

func TestWhatALeaseCountsFor(t *testing.T) {
	planned := protocol.Transient{GenerateBytes: 2, UpdateBytes: 3}
	tests := []struct {
		request  event.Lease
		expected protocol.Transient
		byBytes  bool
		want     int64
	}{
		{event.Lease{Phase: "update", Bytes: 7}, planned, true, 7},
		{event.Lease{Phase: "generate"}, planned, true, 2},
		{event.Lease{Phase: "update"}, planned, true, 3},
		{event.Lease{Phase: "load"}, planned, true, 2},
		{event.Lease{Phase: "update"}, protocol.Transient{}, true, lease.All},
		{event.Lease{Phase: "update"}, protocol.Transient{}, false, 0},
		{event.Lease{Phase: "update", Bytes: 7}, planned, false, 7},
	}
	for _, tt := range tests {
		n := &node{pool: &devicePool{byBytes: tt.byBytes}, start: protocol.Start{Transient: tt.expected}}
		if got := n.leaseBytes(tt.request); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt, got, tt.want)
		}
	}
}

// A lease that is held for too long causes one warning, which names the waiting nodes. Other pools continue
// meanwhile.
func TestLongLeaseIsWarnedOf(t *testing.T) {
	st := newSwarmTest(t, 4, "node_0=holds a lease and beats;*=normal")
	st.onGPUs(fit.Room{LeaseBytes: 10e9}, fit.Room{LeaseBytes: 10e9}) // nodes 0 and 2 on GPU 0
	for i := range st.spec.Starts {
		st.spec.Starts[i].Transient.GenerateBytes = 6e9
	}
	st.spec.LeaseLimit = 300 * time.Millisecond
	cause := errors.New("seen")
	ctx, cancel := context.WithCancelCause(t.Context())
	finished := 0
	warned := make(chan struct{})
	st.on = func(e event.Event) {
		if e.Type == event.TypeWarning {
			select {
			case <-warned:
				t.Error("warned twice")
			default:
				close(warned)
			}
		}
		if e.Type == event.TypeState && e.State == event.StateDone {
			finished++
		}
		if finished == 2 {
			select {
			case <-warned:
				cancel(cause)
			default:
			}
		}
	}
	result, err := st.run(t, ctx)
	if !errors.Is(err, cause) {
		t.Fatalf("error %v", err)
	}
	for i, state := range []event.State{event.StateStopped, event.StateDone, event.StateStopped, event.StateDone} {
		if i != 2 && result.Nodes[i].State != state { // the third cannot respond, because it waits for its grant
			t.Errorf("%+v, want %s", result.Nodes[i], state)
		}
	}
	if got := st.messages("node_0"); !slices.Equal(got, []string{"has held a lease of 6.0 GB to generate for more than 300ms, and node_2 waits"}) {
		t.Errorf("warnings %q", got)
	}
}

func TestWaitingForALeaseIsNotLoading(t *testing.T) {
	t.Parallel()
	st := newSwarmTest(t, 2, "node_0=computes for long;node_1=loads under a lease")
	st.spec.Plan.Slots = 1
	st.spec.LoadTimeout = 1500 * time.Millisecond
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[1], event.StateDone, 0)
}

func TestWhoWaits(t *testing.T) {
	var waiting []lease.Entry
	for i := range 7 {
		waiting = append(waiting, lease.Entry{Key: lease.Key{Node: fit.NodeName(i)}})
	}
	for n, want := range map[int]string{
		1: "node_0 waits", 2: "node_0, node_1 wait", 4: "node_0, node_1, node_2, node_3 wait", 7: "node_0, node_1, node_2, node_3 and 3 more wait",
	} {
		if got := waits(waiting[:n]); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestNodeWithoutARoom(t *testing.T) {
	st := newSwarmTest(t, 2, "normal")
	st.onGPUs(fit.Room{}, fit.Room{})
	st.spec.Plan.Rooms = st.spec.Plan.Rooms[:1]
	if _, err := st.run(t, t.Context()); err == nil || !strings.Contains(err.Error(), "node_1") || !strings.Contains(err.Error(), "GPU 1") {
		t.Errorf("error %v", err)
	}
}

// BenchmarkLease measures the time from one request of a node to its next: two pipes, two processes and the pool,
// without any work.
func BenchmarkLease(b *testing.B) {
	for _, nodes := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d nodes", nodes), func(b *testing.B) {
			const cycles = 2000
			var seconds float64
			var leases int
			for b.Loop() {
				spec := fakeSpec(b.TempDir(), nodes, fmt.Sprintf("*=computes %d times", cycles))
				spec.Plan.Slots = 1
				_, err := Run(b.Context(), spec, func(e event.Event) {
					if e.Message == "computed" {
						seconds = max(seconds, e.Seconds)
						leases += cycles
					}
				}, slog.New(slog.DiscardHandler))
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(seconds*1e6/cycles, "µs/lease")
		})
	}
}
