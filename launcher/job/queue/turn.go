package queue

import (
	"cmp"
	"time"
)

// decide says what ticket number gets of devices, as of now. entries are all tickets, in order of their numbers. The
// claim is valid when the verdict is Granted. It has no side effects.
func decide(entries []Entry, number uint64, devices []Device, now time.Duration) (Claim, Verdict) {
	accounts := make([]*account, 0, len(devices))
	for _, r := range devices {
		accounts = append(accounts, newAccount(r, entries))
	}
	v := Verdict{}
	for i := range entries {
		e := &entries[i]
		if e.Number == number {
			return finish(e, accounts, v)
		}
		if e.Claim != nil || !e.present(now) {
			continue
		}
		open := openTo(e, accounts)
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
func finish(e *Entry, accounts []*account, v Verdict) (Claim, Verdict) {
	open := openTo(e, accounts)
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

// openTo are the accounts that a ticket may use at all.
func openTo(e *Entry, accounts []*account) []*account {
	open := make([]*account, 0, len(accounts))
	for _, s := range accounts {
		if e.visible(s.GPU) {
			open = append(open, s)
		}
	}
	return open
}

// choose is the account for a need: the one with most memory; nil where none fits.
func choose(n Need, open []*account) *account {
	var best *account
	for _, s := range open {
		if s.fits(n) && (best == nil || preferred(s, best, s.free, best.free)) {
			best = s
		}
	}
	return best
}

// preferred says whether a is better than b, by what each of them has, most first.
func preferred(a, b *account, has, had int64) bool {
	return cmp.Or(-cmp.Compare(has, had), cmp.Compare(a.Index, b.Index)) < 0
}

// keeping is the account to keep for a ticket that fits none now: one where no later ticket is in its way, before
// others, and then the one that misses least. It is nil where no end of a claim would help.
//
// A account that is kept stays one where nobody later is in the way. So there always is one, from the ticket's arrival
// on, but for strangers and for claims that grow.
func keeping(e *Entry, open []*account) *account {
	var best *account
	for _, s := range open {
		if s.capacity() < s.cost(e.Need) {
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
