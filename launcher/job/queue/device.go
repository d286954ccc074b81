package queue

import "math"

// Device is a GPU, or the host's memory, at one moment. Memory is in bytes.
type Device struct {
	GPU         string // UUID, or CPU
	Index       int
	Name        string
	Total, Free int64
	Processes   map[int]int64 // bytes by pid, -1 if unknown; nil: the driver does not report processes
}

// unlimited is the slack of an account that is not reserved.
const unlimited = math.MaxInt64

// account is the state of a device during a decision, with the claims there and the reservations for earlier tickets.
type account struct {
	Device
	strangers int64   // bytes in use by processes outside the queue
	held      []share // by tickets with a claim
	free      int64   // neither claimed nor used
	exclusive bool    // a claim excludes all others
	taken     bool    // some ticket has a claim
	slack     int64   // bytes that one more ticket may claim without delaying the tickets with a reservation
	hope      int64   // free minus the reservations; the lowest hope means the longest wait
	keptFor   *Entry  // first ticket with a reservation
}

// share is a ticket's part of an account: the larger of its claim and its usage.
type share struct {
	number uint64
	name   string
	bytes  int64
}

// newAccount returns the account of a device with the claims of entries on it.
func newAccount(r Device, entries []Entry) *account {
	r.Total = max(0, r.Total)
	r.Free = min(max(0, r.Free), r.Total)
	s := &account{Device: r, slack: unlimited}
	claimed, used, most := int64(0), int64(0), int64(0)
	told := tells(r)
	for i := range entries {
		c := entries[i].Claim
		if c == nil || c.GPU != r.GPU {
			continue
		}
		uses := int64(0)
		if told {
			for _, p := range entries[i].Processes {
				uses += r.Processes[p.PID]
			}
		}
		s.taken = true
		s.exclusive = s.exclusive || c.Exclusive
		s.held = append(s.held, share{entries[i].Number, entries[i].Name, max(c.of(r), uses)})
		claimed += c.of(r)
		used += uses
		most = max(most, c.Strangers)
	}
	inUse := r.Total - r.Free
	switch {
	case told || !s.taken:
		s.strangers = max(0, inUse-used)
	default: // at most the bytes in use, at least the part that the claims can't explain
		s.strangers = min(inUse, max(most, inUse-claimed))
	}
	s.free = r.Total - s.strangers
	for _, h := range s.held {
		s.free -= h.bytes
	}
	s.free = min(s.free, r.Free)
	s.hope = s.free
	return s
}

// tells reports whether the driver reports the bytes of every process.
func tells(r Device) bool {
	for _, bytes := range r.Processes {
		if bytes < 0 {
			return false
		}
	}
	return r.Processes != nil
}

// capacity returns the bytes that all tickets together may have.
func (s *account) capacity() int64 { return s.Total - s.strangers }

// later returns the bytes that later tickets hold.
func (s *account) later(number uint64) int64 {
	sum := int64(0)
	for _, h := range s.held {
		if h.number > number {
			sum += h.bytes
		}
	}
	return sum
}

// wants returns the bytes that a need claims on this account.
func (s *account) wants(n Need) int64 {
	if n.Exclusive {
		return max(s.capacity(), n.amount())
	}
	return max(n.Bytes, 1)
}

// fits reports whether a ticket can have the device now without delaying the tickets with a reservation.
func (s *account) fits(n Need) bool {
	return s.free >= n.amount() && s.slack >= s.wants(n) && !(n.Exclusive && s.taken)
}

// give subtracts a need that fits but is not yet claimed.
func (s *account) give(n Need) {
	s.taken = true
	s.exclusive = s.exclusive || n.Exclusive
	bytes := s.cost(n)
	s.free -= bytes
	s.hope -= bytes
	if s.slack != unlimited {
		s.slack -= bytes
	}
}

// cost returns the bytes to reserve for a ticket that waits.
func (s *account) cost(n Need) int64 { return max(s.wants(n), n.amount()) }

// spare returns the bytes that later tickets could have beside a ticket once the earlier claims have ended. Below 0,
// later claims delay the ticket.
func (s *account) spare(e *Entry) int64 { return s.capacity() - s.later(e.Number) - s.cost(e.Need) }

// keep reserves the account for a ticket that doesn't fit yet.
func (s *account) keep(e *Entry) {
	s.slack = min(s.slack, s.spare(e))
	s.hope -= s.cost(e.Need)
	if s.keptFor == nil {
		s.keptFor = e
	}
}
