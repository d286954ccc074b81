package queue

import "math"

// Room is a GPU, or the host's memory, at one moment. Memory is in bytes.
type Room struct {
	GPU         string // UUID, or CPU
	Index       int
	Name        string
	Total, Free int64
	Processes   map[int]int64 // bytes by pid, -1 where one's aren't told; nil: the driver tells of none
}

// unlimited is the slack of a seat that is kept for nobody.
const unlimited = math.MaxInt64

// seat is a room while a decision is made, with what is claimed there, in fact or as good as.
type seat struct {
	Room
	strangers int64   // bytes in use by others than the queue's tickets
	held      []share // of tickets that have a claim
	free      int64   // that nobody has claimed or uses
	exclusive bool    // somebody has it alone
	taken     bool    // somebody has a claim
	slack     int64   // what one more ticket may claim without delaying those it is kept for
	hope      int64   // free less what those it is kept for need: where another one would wait longest
	keptFor   *Entry  // the first of them
}

// share is what a ticket has of a seat: the larger of its claim and what it uses.
type share struct {
	number uint64
	name   string
	bytes  int64
}

// newSeat accounts for the claims on a room, of whichever entries have one there. trusted says that the driver's pids are those of
// the processes whose entries have pids.
func newSeat(r Room, entries []Entry) *seat {
	r.Total = max(0, r.Total)
	r.Free = min(max(0, r.Free), r.Total)
	s := &seat{Room: r, slack: unlimited}
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
func tells(r Room) bool {
	for _, bytes := range r.Processes {
		if bytes < 0 {
			return false
		}
	}
	return r.Processes != nil
}

// capacity is what the queue's tickets may have of it altogether.
func (s *seat) capacity() int64 { return s.Total - s.strangers }

// later is what tickets that came after one have.
func (s *seat) later(number uint64) int64 {
	sum := int64(0)
	for _, h := range s.held {
		if h.number > number {
			sum += h.bytes
		}
	}
	return sum
}

// wants is what a need takes of this seat.
func (s *seat) wants(n Need) int64 {
	if n.Exclusive {
		return max(s.capacity(), n.amount())
	}
	return max(n.Bytes, 1)
}

// fits says whether a ticket that is behind all those the seat is kept for may have it now.
func (s *seat) fits(n Need) bool {
	return s.free >= n.amount() && s.slack >= s.wants(n) && !(n.Exclusive && s.taken)
}

// give takes the part of a ticket away that has not come for it yet.
func (s *seat) give(n Need) {
	s.taken = true
	s.exclusive = s.exclusive || n.Exclusive
	bytes := s.room(n)
	s.free -= bytes
	s.hope -= bytes
	if s.slack != unlimited {
		s.slack -= bytes
	}
}

// room is what it takes to let a ticket in that has to wait.
func (s *seat) room(n Need) int64 { return max(s.wants(n), n.amount()) }

// spare is what later tickets could have beside a ticket once the earlier claims have ended; below 0 they are in its way.
func (s *seat) spare(e *Entry) int64 { return s.capacity() - s.later(e.Number) - s.room(e.Need) }

// keep keeps the seat for a ticket that doesn't fit yet.
func (s *seat) keep(e *Entry) {
	s.slack = min(s.slack, s.spare(e))
	s.hope -= s.room(e.Need)
	if s.keptFor == nil {
		s.keptFor = e
	}
}
