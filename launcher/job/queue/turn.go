package queue

import (
	"cmp"
	"time"
)

// decide says what ticket number gets of rooms, as of now. entries are all tickets, in order of their numbers. The claim is valid when the
// verdict is Granted. It has no side effects.
func decide(entries []Entry, number uint64, rooms []Room, now time.Duration) (Claim, Verdict) {
	seats := make([]*seat, 0, len(rooms))
	for _, r := range rooms {
		seats = append(seats, newSeat(r, entries))
	}
	v := Verdict{}
	for i := range entries {
		e := &entries[i]
		if e.Number == number {
			return finish(e, seats, v)
		}
		if e.Claim != nil || !e.present(now) {
			continue
		}
		open := openTo(e, seats)
		at := choose(e.Need, open)
		switch kept := keeping(e, open); {
		case at != nil:
			at.give(e.Need)
			v.pass(e)
		case kept != nil:
			kept.keep(e)
			v.pass(e)
		}
	}
	return Claim{}, v
}

// finish serves the ticket whose turn it was to ask.
func finish(e *Entry, seats []*seat, v Verdict) (Claim, Verdict) {
	open := openTo(e, seats)
	v.Position++
	v.Need = e.Need
	if at := choose(e.Need, open); at != nil {
		v.Granted = true
		return Claim{
			GPU: at.GPU, Index: at.Index, Name: at.Name, Bytes: e.Need.Bytes, Exclusive: e.Need.Exclusive, Strangers: at.strangers,
		}, v
	}
	v.describe(e, open)
	return Claim{}, v
}

// openTo are the seats that a ticket may use at all.
func openTo(e *Entry, seats []*seat) []*seat {
	open := make([]*seat, 0, len(seats))
	for _, s := range seats {
		if e.visible(s.GPU) {
			open = append(open, s)
		}
	}
	return open
}

// choose is the seat for a need: the one with most room; nil where none fits.
func choose(n Need, open []*seat) *seat {
	var best *seat
	for _, s := range open {
		if s.fits(n) && (best == nil || preferred(s, best, s.free, best.free)) {
			best = s
		}
	}
	return best
}

// preferred says whether a is better than b, by what each of them has, most first.
func preferred(a, b *seat, has, had int64) bool {
	return cmp.Or(-cmp.Compare(has, had), cmp.Compare(a.Index, b.Index)) < 0
}

// keeping is the seat to keep for a ticket that fits none now: one where no later ticket is in its way, before others, and then the one that
// misses least. It is nil where no end of a claim would help.
//
// A seat that is kept stays one where nobody later is in the way. So there always is one, from the ticket's arrival on, but for
// strangers and for claims that grow.
func keeping(e *Entry, open []*seat) *seat {
	var best *seat
	for _, s := range open {
		if s.capacity() < s.room(e.Need) {
			continue
		}
		if best == nil {
			best = s
			continue
		}
		if clear, was := s.spare(e) >= 0, best.spare(e) >= 0; clear != was {
			if clear {
				best = s
			}
		} else if preferred(s, best, s.hope, best.hope) {
			best = s
		}
	}
	return best
}
