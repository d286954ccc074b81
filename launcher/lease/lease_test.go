package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func granted(t *Ticket) bool {
	select {
	case <-t.ready:
		return t.err == nil
	default:
		return false
	}
}

func request(t *testing.T, p *Pool, node string, id, bytes int64) *Ticket {
	t.Helper()
	ticket, err := p.Request(Key{node, id}, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func TestDeadNodesLeasesReturn(t *testing.T) {
	p := NewPool(Capacity{Bytes: 2})
	request(t, p, "node_0", 1, 1)
	second := request(t, p, "node_0", 2, 1)
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
	for _, ended := range []*Ticket{second, dead} {
		select {
		case <-ended.Over():
		default:
			t.Error("a returned lease is not over")
		}
	}
	if err := waiting.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if p.Release(Key{"node_0", 1}) {
		t.Error("a lease returned twice")
	}
	if s := p.Snapshot(); s.Bytes != 2 || len(s.Held) != 1 || s.Held[0] != (Entry{Key{"node_1", 1}, 2}) || len(s.Waiting) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestRefusals(t *testing.T) {
	p := NewPool(Capacity{Bytes: 2})
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
	p := NewPool(Capacity{Bytes: 1})
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

// A request above the capacity runs alone and does not block the pool forever.
func TestTooLargeRunsAlone(t *testing.T) {
	p := NewPool(Capacity{Bytes: 10})
	small := request(t, p, "node_0", 1, 3)
	large := request(t, p, "node_1", 1, 25)
	behind := request(t, p, "node_2", 1, 1)
	if !granted(small) || granted(large) || granted(behind) || large.Bytes() != 10 {
		t.Fatalf("%+v", p.Snapshot())
	}
	p.Release(small.key)
	if !granted(large) || granted(behind) {
		t.Fatalf("%+v", p.Snapshot())
	}
	p.Resize(Capacity{Bytes: 20}) // the cut lease counted for too little, and still does
	if granted(behind) || p.Snapshot().Bytes != 20 {
		t.Fatalf("%+v", p.Snapshot())
	}
	p.Resize(Capacity{Bytes: 30})
	if !granted(behind) || p.Snapshot().Bytes != 26 {
		t.Fatalf("%+v", p.Snapshot())
	}
}

func TestWithoutLimitsEverythingIsGranted(t *testing.T) {
	p := NewPool(Capacity{})
	for id := range int64(1000) {
		if !granted(request(t, p, "node_0", id, All)) {
			t.Fatalf("request %d waits", id)
		}
	}
}

func TestResizeEvictsNobody(t *testing.T) {
	p := NewPool(Capacity{Slots: 3})
	var tickets []*Ticket
	for id := range int64(5) {
		tickets = append(tickets, request(t, p, "node_0", id, 1))
	}
	p.Resize(Capacity{Slots: 1})
	if got := p.Snapshot(); len(got.Held) != 3 || len(got.Waiting) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, id := range []int64{0, 1} {
		p.Release(Key{"node_0", id})
		if granted(tickets[3]) {
			t.Fatal("granted although two and one are held of one")
		}
	}
	p.Release(Key{"node_0", 2})
	if !granted(tickets[3]) || granted(tickets[4]) {
		t.Fatalf("%+v", p.Snapshot())
	}
	p.Resize(Capacity{})
	if !granted(tickets[4]) {
		t.Error("a wider pool does not serve those who wait")
	}
}

// TestNodesAtOnce runs 64 nodes at once, some of which die while they hold or wait. It checks the capacity, and that
// every node gets through.
func TestNodesAtOnce(t *testing.T) {
	const nodes, rounds, capacity = 64, 20, 5
	p := NewPool(Capacity{Bytes: capacity})
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
				if n%7 == 3 && round%5 == 2 { // the node dies, its death is noticed, and it comes back
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
	if s := p.Snapshot(); s.Bytes != 0 || len(s.Held)+len(s.Waiting) != 0 {
		t.Errorf("left over: %+v", s)
	}
	if want := int64(nodes*rounds - 9*4); served.Load() != want {
		t.Errorf("%d leases served, want %d", served.Load(), want)
	}
}
