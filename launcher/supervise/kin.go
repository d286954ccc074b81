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
	kinLeave = 500 * time.Millisecond // for kin to end by themselves once the child has
	kinPoll  = 10 * time.Millisecond
)

// kin are the processes that a child has started, or had started, in groups of their own: a node's engine and its
// ranks. They end by themselves when the child does, for their stdin closes; one that is stopped or hangs would stay,
// with all the memory it has. The pid file names them, for a launcher that comes later.
type kin struct {
	mu     sync.Mutex
	path   string // of the pid file; empty: none
	record pidFile
	newest int // pid on this machine when all that the child had started was known; 0: look
}

// begin writes the child's pid file. Kin of the child before it that would not die stay named in it.
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

// look takes in what the process with that pid has started of late.
func (k *kin) look(pid int) { k.lookAt(pid, newestPID()) }

// lookAt is look when newest is the newest process of this machine: where all is known up to that one there is nothing
// to look for.
func (k *kin) lookAt(pid, newest int) {
	if newest != 0 && newest == k.known() {
		return
	}
	for _, child := range children(pid) {
		id, err := Identify(child)
		if err == nil && !k.has(id) {
			_ = k.adopt(pid, child) // the next look tries again
		}
		if err != nil || !k.has(id) { // one of the child's own group may still leave it
			newest = 0
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.newest = newest
}

// known is the newest process of this machine when all that the child had started was known.
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

// adopt takes in a process and its descendants, as far as they have left the group of the process with the pid of.
func (k *kin) adopt(of, pid int) error {
	var found []Identity
	for _, p := range family(pid) {
		stat, err := ReadStat(p)
		if err != nil || stat.Group == of {
			continue // it has ended; or it is ended with the group
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

// alive are those that still run.
func (k *kin) alive() []Identity {
	k.mu.Lock()
	defer k.mu.Unlock()
	return alive(k.record.Also)
}

// end makes the kin of a child that has ended end, and returns those that don't. It takes kinLeave and drainLimit at
// most, and what announce takes, which is called before the first is killed.
func (k *kin) end(announce func()) []Identity {
	limit := time.Now().Add(drainLimit)
	left := goneBy(time.Now().Add(kinLeave), k.alive())
	if len(left) == 0 {
		return nil
	}
	began := time.Now()
	announce()
	for _, id := range left {
		id.SignalGroup(syscall.SIGKILL) // which ends a stopped process too
		id.Signal(syscall.SIGKILL)
	}
	return goneBy(limit.Add(time.Since(began)), left)
}

// forget removes the pid file, unless there is somebody left whom a later launcher can end.
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

// goneBy waits until all have ended, or until a time, and returns those that still run.
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

// Adopt notes that the child's process pid, and what that one has started, must not outlive the child though they are
// in other groups. A process is refused that neither descends from the child nor reads what the child writes, as an
// engine does that an engine host has forked.
func (c *Child) Adopt(pid int) error {
	if !descends(pid, c.PID()) && !fedBy(pid, c.PID()) {
		return fmt.Errorf("adopt process %d: it neither descends from process %d nor reads from it", pid, c.PID())
	}
	return c.kin.adopt(c.PID(), pid)
}

// family is the child, its descendants, and those of its kin that have lost their parent.
func (c *Child) family() []int {
	all := family(c.PID())
	for _, id := range c.kin.alive() {
		if !slices.Contains(all, id.PID) {
			all = append(all, id.PID)
		}
	}
	return all
}
