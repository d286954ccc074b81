package queue

import (
	"os"
	"slices"
	"time"
)

// Try takes a device if one of devices fits and is not reserved for an earlier ticket. Verdict.Granted reports the
// result. devices are the current devices that the ticket could use. A ticket with a device gets the same one again.
func (t *Ticket) Try(devices []Device) (Claim, Verdict, error) { return t.try(devices, 0) }

// try is Try for a ticket that looks at an interval.
func (t *Ticket) try(devices []Device, interval time.Duration) (claim Claim, verdict Verdict, err error) {
	err = t.change(func(l *locked) error {
		if t.entry.Claim != nil {
			claim, verdict = *t.entry.Claim, Verdict{Granted: true, Position: 1, Need: t.entry.Need}
			return nil
		}
		entries, err := t.q.entries(l)
		if err != nil {
			return err
		}
		news := t.look(devices, interval)
		all := t.among(entries)
		news = news || len(all) > len(entries) // its files are missing
		claim, verdict = decide(all, t.entry.Number, t.q.trusted(devices), t.q.now())
		if !verdict.Granted && !news {
			return nil
		}
		if verdict.Granted {
			t.entry.Claim = &claim
		}
		if err := t.save(); err != nil {
			t.entry.Claim, verdict.Granted = nil, false
			return err
		}
		return nil
	})
	return claim, verdict, err
}

// freshness is the maximum age of the record of a waiting ticket's last look.
const freshness = 10 * time.Second

// look records the visible devices, and reports whether the ticket's file must be updated.
func (t *Ticket) look(devices []Device, interval time.Duration) (news bool) {
	var sees []string
	for _, r := range devices[:min(len(devices), gpuLimit)] {
		sees = append(sees, r.GPU)
	}
	now := t.q.now()
	recorded := t.entry.Looked
	news = now-recorded >= freshness || t.entry.Interval != interval || !slices.Equal(t.entry.Sees, sees)
	t.entry.Looked, t.entry.Interval, t.entry.Sees = now, interval, sees
	if !news {
		t.entry.Looked = recorded // as in the file
	}
	return news
}

// among inserts the ticket's current state into the entries from the folder.
func (t *Ticket) among(entries []Entry) []Entry {
	at, found := slices.BinarySearchFunc(entries, t.entry.Number, func(e Entry, number uint64) int {
		if e.Number < number {
			return -1
		}
		return int(min(1, e.Number-number))
	})
	if !found {
		return slices.Insert(entries, at, t.entry)
	}
	entries[at] = t.entry
	return entries
}

// trusted returns the devices, without their processes if the driver's pids differ from this process's. The driver
// uses the pids of the initial pid namespace.
func (q *Queue) trusted(devices []Device) []Device {
	if q.pids == firstPIDs {
		return devices
	}
	devices = slices.Clone(devices)
	for i := range devices {
		devices[i].Processes = nil
	}
	return devices
}

// SeesDriversPIDs reports whether the driver's pids are the same as this process's.
func SeesDriversPIDs() bool {
	pids, _ := os.Readlink(pidNamespace)
	return pids == firstPIDs
}

const pidNamespace = "/proc/self/ns/pid"

// firstPIDs is the initial pid namespace (include/linux/proc_ns.h: PROC_PID_INIT_INO).
const firstPIDs = "pid:[4026531836]"
