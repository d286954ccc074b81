package queue

import (
	"os"
	"slices"
	"time"
)

// Try takes a device if one of devices fits and is not kept for somebody in front; Verdict.Granted tells whether it
// did. devices are those that the ticket could use, looked at just now. A ticket that has a device gets the same one
// again.
func (t *Ticket) Try(devices []Device) (Claim, Verdict, error) { return t.try(devices, 0) }

// try is Try by somebody who looks at an interval.
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
		news = news || len(all) > len(entries) // its files are gone
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

// look notes what the ticket sees, and whether others need to know.
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
		t.entry.Looked = recorded // as the file has it
	}
	return news
}

// among puts the ticket as it is among the entries that were read.
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

// trusted are the devices without what the driver tells of processes, unless its pids are ours: it numbers them as the
// machine's first pid namespace does.
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

// SeesDriversPIDs tells whether the driver's pids are those that this process sees.
func SeesDriversPIDs() bool {
	pids, _ := os.Readlink(pidNamespace)
	return pids == firstPIDs
}

const pidNamespace = "/proc/self/ns/pid"

// firstPIDs is the pid namespace that the kernel starts with (include/linux/proc_ns.h: PROC_PID_INIT_INO).
const firstPIDs = "pid:[4026531836]"
