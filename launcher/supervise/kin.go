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
	kinLeave = 500 * time.Millisecond // for kin to end by themselves after the child
	kinPoll  = 10 * time.Millisecond
)

// kin are processes that a child, directly or indirectly, started in groups of their own: a node's engine and its
// ranks. Normally they end when the child ends, because their stdin closes. A suspended or hanging process would
// stay with all its memory. The pid file names the kin for a later launcher.
type kin struct {
	mu     sync.Mutex
	path   string // of the pid file; empty: none
	record pidFile
	newest int // newest pid on this machine when all of the child's kin were known; 0: unknown
}

// begin writes the child's pid file. It keeps surviving kin of the previous child.
func (k *kin) begin(path string, pid int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.path = path
	var err error
	if k.record.Process, err = Identify(pid); err != nil {
		return err
	}
	if k.record.Parent, err = Identify(os.Getpid()); err != nil {
		return err
	}
	if before, err := readPIDFile(path); err == nil {
		k.record.Also = slices.DeleteFunc(before.Also, func(id Identity) bool { return !id.Alive() })
	}
	return k.record.write(path)
}

// look records the processes that pid has started since the last look.
func (k *kin) look(pid int) { k.lookAt(pid, newestPID()) }

// lookAt is look, given the newest pid on this machine. If no process has started since all kin were known, there
// is nothing to look for.
func (k *kin) lookAt(pid, newest int) {
	if newest != 0 && newest == k.known() {
		return
	}
	for _, child := range children(pid) {
		id, err := Identify(child)
		if err == nil && !k.has(id) {
			_ = k.adopt(pid, child) // the next look retries
		}
		if err != nil || !k.has(id) { // a process in the child's group may still leave it
			newest = 0
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.newest = newest
}

// known returns the newest pid at the time when all kin were known.
func (k *kin) known() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.newest
}

func (k *kin) has(id Identity) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.record.Also, id)
}

// adopt records a process and its descendants, except those in the process group of the process of.
func (k *kin) adopt(of, pid int) error {
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
	k.mu.Lock()
	defer k.mu.Unlock()
	also := slices.DeleteFunc(slices.Clone(k.record.Also), func(id Identity) bool { return slices.Contains(found, id) || !id.Alive() })
	also = append(also, found...)
	if slices.Equal(also, k.record.Also) {
		return nil
	}
	k.record.Also = also
	return k.record.write(k.path)
}

// alive returns the kin that are still running.
func (k *kin) alive() []Identity {
	k.mu.Lock()
	defer k.mu.Unlock()
	return alive(k.record.Also)
}

// end ends the kin of a child that has ended, and returns the survivors. It takes at most kinLeave and drainLimit,
// plus the time for announce, which it calls before the first kill.
func (k *kin) end(announce func()) []Identity {
	limit := time.Now().Add(drainLimit)
	left := goneBy(time.Now().Add(kinLeave), k.alive())
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

// forget removes the pid file, unless kin survive that a later launcher can end.
func (k *kin) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path != "" && len(alive(k.record.Also)) == 0 {
		os.Remove(k.path)
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
	tick := time.NewTicker(kinPoll)
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
	return c.kin.adopt(c.PID(), pid)
}

// family returns the pids of the child, its descendants, and its kin that have lost their parent.
func (c *Child) family() []int {
	all := family(c.PID())
	for _, id := range c.kin.alive() {
		if !slices.Contains(all, id.PID) {
			all = append(all, id.PID)
		}
	}
	return all
}
