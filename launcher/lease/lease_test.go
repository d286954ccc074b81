package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

func granted(t *Ticket) bool {
	select {
	case <-t.ready:
		return t.err == nil
	default:
		return false
	}
}

func request(t *testing.T, p *Pool, node string, id, weight int64) *Ticket {
	t.Helper()
	ticket, err := p.Request(Key{node, id}, weight)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func TestDeadNodesLeasesReturn(t *testing.T) {
	p := NewPool(2)
	request(t, p, "node_0", 1, 1)
	request(t, p, "node_0", 2, 1)
	dead := request(t, p, "node_0", 3, 1)
	waiting := request(t, p, "node_1", 1, 2)
	if granted(waiting) {
		t.Fatal("granted beyond capacity")
	}
	if n := p.ReleaseAll("node_0"); n != 3 {
		t.Errorf("%d leases returned, want 3", n)
	}
	if err := dead.Wait(t.Context()); !errors.Is(err, ErrReturned) {
		t.Errorf("the dead node's request ended with %v", err)
	}
	if err := waiting.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if p.Release(Key{"node_0", 1}) {
		t.Error("a lease returned twice")
	}
	if used, queued := p.InUse(); used != 2 || queued != 0 {
		t.Errorf("%d used, %d waiting", used, queued)
	}
}

func TestRefusals(t *testing.T) {
	p := NewPool(2)
	if _, err := p.Request(Key{"node_0", 1}, 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("weight 3 of 2: %v", err)
	}
	request(t, p, "node_0", 1, 2)
	if _, err := p.Request(Key{"node_0", 1}, 1); !errors.Is(err, ErrInUse) {
		t.Errorf("the same key again: %v", err)
	}
	waiting := request(t, p, "node_1", 1, 1)
	p.Close()
	if err := waiting.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("waiting at Close: %v", err)
	}
	if _, err := p.Request(Key{"node_2", 1}, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if !p.Release(Key{"node_0", 1}) {
		t.Error("a held lease was lost by Close")
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	p := NewPool(1)
	request(t, p, "node_0", 1, 1)
	cause := errors.New("asked to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	withdrawn := request(t, p, "node_1", 1, 1)
	if err := withdrawn.Wait(ctx); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	next := request(t, p, "node_2", 1, 1)
	p.Release(Key{"node_0", 1})
	if !granted(next) {
		t.Error("the withdrawn request still stands in the queue")
	}
}

// TestPoolAgainstModel runs random operations and compares with an obvious model: a list of tickets in order of arrival, of which
// a prefix of those not ended is held.
func TestPoolAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(1, 8).Draw(t, "capacity")
		p := NewPool(capacity)
		var live []*Ticket // in order of arrival
		check := func() {
			var used int64
			blocked := false
			for _, ticket := range live {
				if !granted(ticket) {
					blocked = true
					continue
				}
				if blocked {
					t.Fatal("a later request overtook an earlier one")
				}
				used += ticket.weight
			}
			if used > capacity {
				t.Fatalf("%d held of %d", used, capacity)
			}
			for _, ticket := range live {
				if !granted(ticket) {
					if used+ticket.weight <= capacity {
						t.Fatal("the first in the queue fits and isn't served")
					}
					break
				}
			}
			if weight, _ := p.InUse(); weight != used {
				t.Fatalf("InUse %d, want %d", weight, used)
			}
		}
		var id int64
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				id++
				node := fmt.Sprintf("node_%d", rapid.IntRange(0, 5).Draw(t, "node"))
				ticket, err := p.Request(Key{node, id}, rapid.Int64Range(1, capacity).Draw(t, "weight"))
				if err != nil {
					t.Fatal(err)
				}
				live = append(live, ticket)
			},
			"release": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				p.Release(live[i].key)
				live = slices.Delete(live, i, i+1)
			},
			"death": func(t *rapid.T) {
				node := fmt.Sprintf("node_%d", rapid.IntRange(0, 5).Draw(t, "node"))
				n := p.ReleaseAll(node)
				before := len(live)
				live = slices.DeleteFunc(live, func(ticket *Ticket) bool { return ticket.key.Node == node })
				if before-len(live) != n {
					t.Fatalf("%d returned, want %d", n, before-len(live))
				}
			},
			"": func(t *rapid.T) { check() },
		})
	})
}

// TestSwarmOfNodes runs 64 nodes, some of which die while they hold or wait, and checks capacity and that everyone gets through.
func TestSwarmOfNodes(t *testing.T) {
	const nodes, rounds, capacity = 64, 20, 5
	p := NewPool(capacity)
	var computing, most, served atomic.Int64
	var group sync.WaitGroup
	for n := range nodes {
		group.Go(func() {
			node := fmt.Sprintf("node_%d", n)
			for round := range int64(rounds) {
				weight := 1 + (round+int64(n))%3
				ticket, err := p.Request(Key{node, round}, weight)
				if err != nil {
					t.Error(err)
					return
				}
				if n%7 == 3 && round%5 == 2 { // dies, is noticed, and comes back
					p.ReleaseAll(node)
					continue
				}
				if err := ticket.Wait(t.Context()); err != nil {
					t.Error(err)
					return
				}
				now := computing.Add(weight)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				runtime.Gosched()
				computing.Add(-weight)
				served.Add(1)
				p.Release(ticket.key)
			}
		})
	}
	group.Wait()
	if most.Load() > capacity {
		t.Errorf("%d computed at once, capacity %d", most.Load(), capacity)
	}
	if used, queued := p.InUse(); used != 0 || queued != 0 {
		t.Errorf("left over: %d used, %d waiting", used, queued)
	}
	if want := int64(nodes*rounds - 9*4); served.Load() != want {
		t.Errorf("%d leases served, want %d", served.Load(), want)
	}
}
