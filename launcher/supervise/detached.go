package supervise

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	detachedGrace = 500 * time.Millisecond // for detached processes to end by themselves after the child
	detachedPoll  = 10 * time.Millisecond
)

// detached are processes that a child, directly or indirectly, started in groups of their own: a node's engine and its
// ranks. Normally they end when the child ends, because their stdin closes. A suspended or hanging process would
// stay with all its memory. The pid file names the detached processes for a later launcher.
type detached struct {
	mu     sync.Mutex
	path   string // of the pid file; empty: none
	record pidFile
	newest int // newest pid on this machine when all of the child's detached processes were known; 0: unknown
}

// begin writes the child's pid file. It keeps surviving detached processes of the previous child.
func (d *detached) begin(path string, pid int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.path = path
	var err error
	if d.record.Process, err = Identify(pid); err != nil {
		return err
	}
	if d.record.Parent, err = Identify(os.Getpid()); err != nil {
		return err
	}
	if before, err := readPIDFile(path); err == nil {
		d.record.Also = slices.DeleteFunc(before.Also, func(id Identity) bool { return !id.Alive() })
	}
	return d.record.write(path)
}

// look records the processes that pid has started since the last look.
func (d *detached) look(pid int) { d.lookAt(pid, newestPID()) }

// lookAt is look, given the newest pid on this machine. If no process has started since all detached processes were
// known, there is nothing to look for.
func (d *detached) lookAt(pid, newest int) {
	if newest != 0 && newest == d.known() {
		return
	}
	for _, child := range children(pid) {
		id, err := Identify(child)
		if err == nil && !d.has(id) {
			_ = d.adopt(pid, child) // the next look retries
		}
		if err != nil || !d.has(id) { // a process in the child's group may still leave it
			newest = 0
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.newest = newest
}

// known returns the newest pid at the time when all detached processes were known.
func (d *detached) known() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.newest
}

func (d *detached) has(id Identity) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.record.Also, id)
}

// adopt records a process and its descendants, except those in the process group of the process of.
func (d *detached) adopt(of, pid int) error {
	var found []Identity
	for _, p := range family(pid) {
		stat, err := ReadStat(p)
		if err != nil || stat.State == 'Z' || stat.Group == of {
			continue // it has ended, or will end with the group
		}
		if id, err := Identify(p); err == nil && id.Start == stat.Start {
			found = append(found, id)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	also := slices.DeleteFunc(slices.Clone(d.record.Also), func(id Identity) bool { return slices.Contains(found, id) || !id.Alive() })
	also = append(also, found...)
	if slices.Equal(also, d.record.Also) {
		return nil
	}
	d.record.Also = also
	return d.record.write(d.path)
}

// alive returns the detached processes that are still running.
func (d *detached) alive() []Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return alive(d.record.Also)
}

// end ends the detached processes of a child that has ended, and returns the survivors. It takes at most detachedGrace
// and drainLimit, plus the time for announce, which it calls before the first kill.
func (d *detached) end(announce func()) []Identity {
	limit := time.Now().Add(drainLimit)
	left := goneBy(time.Now().Add(detachedGrace), d.alive())
	if len(left) == 0 {
		return nil
	}
	began := time.Now()
	announce()
	for _, id := range left {
		id.SignalGroup(syscall.SIGKILL) // ends suspended processes too
		id.Signal(syscall.SIGKILL)
	}
	return goneBy(limit.Add(time.Since(began)), left)
}

// forget removes the pid file, unless detached processes survive that a later launcher can end.
func (d *detached) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.path != "" && len(alive(d.record.Also)) == 0 {
		os.Remove(d.path)
	}
}

func alive(all []Identity) (running []Identity) {
	for _, id := range all {
		if id.Alive() {
			running = append(running, id)
		}
	}
	return running
}

// goneBy waits until all have ended, or until limit, and returns those that are still running.
func goneBy(limit time.Time, all []Identity) []Identity {
	tick := time.NewTicker(detachedPoll)
	defer tick.Stop()
	for {
		if all = alive(all); len(all) == 0 || !time.Now().Before(limit) {
			return all
		}
		<-tick.C
	}
}

// Adopt records that pid and its descendants must not outlive the child, although they are in other groups. It
// rejects a process that neither descends from the child nor reads from it. An engine that an engine host has
// forked reads from the child.
func (c *Child) Adopt(pid int) error {
	if !descends(pid, c.PID()) && !fedBy(pid, c.PID()) {
		return fmt.Errorf("adopt process %d: it neither descends from process %d nor reads from it", pid, c.PID())
	}
	return c.detached.adopt(c.PID(), pid)
}

// family returns the pids of the child, its descendants, and its detached processes that have lost their parent.
func (c *Child) family() []int {
	all := family(c.PID())
	for _, id := range c.detached.alive() {
		if !slices.Contains(all, id.PID) {
			all = append(all, id.PID)
		}
	}
	return all
}
