package queue

import "math"

// Device is a GPU, or the host's memory, at one moment. Memory is in bytes.
type Device struct {
	GPU         string // UUID, or CPU
	Index       int
	Name        string
	Total, Free int64
	Processes   map[int]int64 // bytes by pid, -1 where one's aren't told; nil: the driver tells of none
}

// unlimited is the slack of an account that is kept for nobody.
const unlimited = math.MaxInt64

// account is a device during a decision, with the actual claims there and those that the decision has to respect.
type account struct {
	Device
	strangers int64   // bytes in use by others than the queue's tickets
	held      []share // of tickets that have a claim
	free      int64   // that nobody has claimed or uses
	exclusive bool    // somebody has it alone
	taken     bool    // somebody has a claim
	slack     int64   // what one more ticket may claim without delaying those it is kept for
	hope      int64   // free less what those it is kept for need: where another one would wait longest
	keptFor   *Entry  // the first of them
}

// share is what a ticket has of an account: the larger of its claim and what it uses.
type share struct {
	number uint64
	name   string
	bytes  int64
}

// newAccount accounts for the claims on a device, of whichever entries have one there. trusted says that the driver's
// pids are those of the processes whose entries have pids.
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
	default: // not more than is in use, not less than what the claims can't explain
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

// tells says whether the driver tells what each process uses.
func tells(r Device) bool {
	for _, bytes := range r.Processes {
		if bytes < 0 {
			return false
		}
	}
	return r.Processes != nil
}

// capacity is what the queue's tickets may have of it altogether.
func (s *account) capacity() int64 { return s.Total - s.strangers }

// later is what tickets that came after one have.
func (s *account) later(number uint64) int64 {
	sum := int64(0)
	for _, h := range s.held {
		if h.number > number {
			sum += h.bytes
		}
	}
	return sum
}

// wants is what a need takes of this account.
func (s *account) wants(n Need) int64 {
	if n.Exclusive {
		return max(s.capacity(), n.amount())
	}
	return max(n.Bytes, 1)
}

// fits says whether a ticket that is behind all those the account is kept for may have it now.
func (s *account) fits(n Need) bool {
	return s.free >= n.amount() && s.slack >= s.wants(n) && !(n.Exclusive && s.taken)
}

// give takes the part of a ticket away that has not come for it yet.
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

// cost is what it takes to let a ticket in that has to wait.
func (s *account) cost(n Need) int64 { return max(s.wants(n), n.amount()) }

// spare is what later tickets could have beside a ticket once the earlier claims have ended; below 0 they are in its
// way.
func (s *account) spare(e *Entry) int64 { return s.capacity() - s.later(e.Number) - s.cost(e.Need) }

// keep keeps the account for a ticket that doesn't fit yet.
func (s *account) keep(e *Entry) {
	s.slack = min(s.slack, s.spare(e))
	s.hope -= s.cost(e.Need)
	if s.keptFor == nil {
		s.keptFor = e
	}
}
