package lease

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is the naive pool: its live tickets in order of arrival, with the first ones held.
type model struct {
	pool     *Pool
	capacity Capacity
	live     []*Ticket
	counted  map[*Ticket]int64 // bytes of each held ticket
	before   int64             // bytes held at the last check
}

// TestPoolAgainstModel runs random requests, returns, deaths and changes of capacity, and compares pool and model
// after each step.
func TestPoolAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := drawCapacity(t)
		m := &model{pool: NewPool(capacity), capacity: capacity, counted: map[*Ticket]int64{}}
		var id int64
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				id++
				ticket, err := m.pool.Request(Key{drawNode(t), id}, rapid.Int64Range(0, 12).Draw(t, "bytes"))
				if err != nil {
					t.Fatal(err)
				}
				m.live = append(m.live, ticket)
				m.serve()
			},
			"release": func(t *rapid.T) {
				if len(m.live) == 0 {
					t.Skip()
				}
				gone := m.live[rapid.IntRange(0, len(m.live)-1).Draw(t, "which")]
				if !m.pool.Release(gone.key) {
					t.Fatal("nothing to return")
				}
				m.drop(func(ticket *Ticket) bool { return ticket == gone })
			},
			"death": func(t *rapid.T) {
				node := drawNode(t)
				n, before := m.pool.ReleaseAll(node), len(m.live)
				m.drop(func(ticket *Ticket) bool { return ticket.key.Node == node })
				if before-len(m.live) != n {
					t.Fatalf("%d returned, want %d", n, before-len(m.live))
				}
			},
			"resize": func(t *rapid.T) {
				m.capacity = drawCapacity(t)
				m.pool.Resize(m.capacity)
				for ticket := range m.counted {
					m.counted[ticket] = max(m.counted[ticket], m.need(ticket))
				}
				m.serve()
			},
			"": m.check,
		})
	})
}

func drawCapacity(t *rapid.T) Capacity {
	return Capacity{Bytes: rapid.Int64Range(0, 10).Draw(t, "capacity"), Slots: rapid.IntRange(0, 4).Draw(t, "slots")}
}

func drawNode(t *rapid.T) string { return fmt.Sprintf("node_%d", rapid.IntRange(0, 5).Draw(t, "node")) }

func (m *model) need(t *Ticket) int64 {
	if m.capacity.Bytes > 0 {
		return min(t.asked, m.capacity.Bytes)
	}
	return t.asked
}

func (m *model) held() (bytes int64) {
	for _, n := range m.counted {
		bytes += n
	}
	return bytes
}

// serve grants in order of arrival and stops at the first request that does not fit.
func (m *model) serve() {
	for _, t := range m.live {
		if _, held := m.counted[t]; held {
			continue
		}
		if m.capacity.Bytes > 0 && m.held()+m.need(t) > m.capacity.Bytes || m.capacity.Slots > 0 && len(m.counted) >= m.capacity.Slots {
			return
		}
		m.counted[t] = m.need(t)
	}
}

func (m *model) drop(gone func(*Ticket) bool) {
	m.live = slices.DeleteFunc(m.live, func(t *Ticket) bool {
		if gone(t) {
			delete(m.counted, t)
			return true
		}
		return false
	})
	m.serve()
}

func (m *model) check(t *rapid.T) {
	blocked := false
	for _, ticket := range m.live {
		_, want := m.counted[ticket]
		if granted(ticket) != want {
			t.Fatalf("%v is granted: %t, want %t: %+v", ticket.key, !want, want, m.pool.Snapshot())
		}
		if blocked && want {
			t.Fatal("a later request overtook an earlier one")
		}
		blocked = blocked || !want
	}
	s := m.pool.Snapshot()
	if m.capacity.Bytes > 0 && s.Bytes > max(m.capacity.Bytes, m.before) {
		t.Fatalf("%d bytes held of %d, after %d", s.Bytes, m.capacity.Bytes, m.before)
	}
	m.before = s.Bytes
	if s.Bytes != m.held() || len(s.Held) != len(m.counted) || len(s.Held)+len(s.Waiting) != len(m.live) || s.Capacity != m.capacity {
		t.Fatalf("%+v, want %d bytes in %d of %d leases", s, m.held(), len(m.counted), len(m.live))
	}
}
