package queue

import (
	"cmp"
	"time"
)

// decide returns the claim that the ticket with this number gets on one of the devices, as of now. entries are all
// tickets in order of their numbers. The claim is valid if the verdict is Granted. decide has no side effects.
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

// finish decides for the ticket that tries.
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

// openTo returns the accounts that a ticket may use.
func openTo(e *Entry, accounts []*account) []*account {
	open := make([]*account, 0, len(accounts))
	for _, s := range accounts {
		if e.visible(s.GPU) {
			open = append(open, s)
		}
	}
	return open
}

// choose returns the account with the most free memory that fits a need, or nil if none fits.
func choose(n Need, open []*account) *account {
	var best *account
	for _, s := range open {
		if s.fits(n) && (best == nil || preferred(s, best, s.free, best.free)) {
			best = s
		}
	}
	return best
}

// preferred reports whether a is better than b: it has more memory, or on a tie the lower index.
func preferred(a, b *account, has, had int64) bool {
	return cmp.Or(-cmp.Compare(has, had), cmp.Compare(a.Index, b.Index)) < 0
}

// keeping returns the account to reserve for a ticket that fits none now. It prefers accounts where no later ticket
// delays it, then the account that lacks the least memory. It returns nil if no account would have room even
// after all claims ended.
//
// A reserved account stays free of later tickets that delay it. So such an account always exists from the ticket's
// arrival on, except for growing claims and processes outside the queue.
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
