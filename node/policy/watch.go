package policy

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	defaultStallLimit = 5 * time.Minute
	watchPeriod       = time.Second
	stopPatience      = 5 * time.Second        // allowed stop before the engine is continued, and again before it is killed
	leastWork         = 500 * time.Millisecond // processor time that counts as progress
	clockTick         = 10 * time.Millisecond  // resolution of /proc's times: USER_HZ is 100 on every Linux that Go runs on
)

// patient lists the calls that wait for disks. They may use no processor time for long.
var patient = map[string]bool{"hello": true, "load": true, "save": true, "saved": true, "restore": true}

// watch observes the engine's processes during one call and reports a stall: a process is stopped (SIGSTOP, a
// debugger) and cannot be continued, or the processes use no processor time. It reads /proc. Without /proc it
// detects nothing.
type watch struct {
	pid     int // leader of the engine's group, a child that has not been waited for
	limit   time.Duration
	every   time.Duration
	patient bool
	wake    func()       // sends the group SIGCONT
	trouble func(string) // receives a line after a stop was handled

	seen      time.Time     // time of the last check
	stopped   time.Time     // start of a stop, or time of its SIGCONT; zero: not stopped
	continued bool          // SIGCONT was sent for this stop: a second stop without work in between means that it failed
	wokenAt   time.Duration // processor time at the SIGCONT
	worked    time.Time     // start of the period with less than leastWork
	used      time.Duration // processor time at that start
}

// look returns why the engine must be killed, or nil.
func (w *watch) look(now time.Time) error {
	processes := group(w.pid)
	if len(processes) == 0 {
		return nil
	}
	if gap := now.Sub(w.seen); w.seen.IsZero() || gap > 5*w.every+stopPatience/2 {
		// No check for long: this process was stopped, or the machine slept.
		w.stopped, w.continued, w.worked = time.Time{}, false, now
	}
	w.seen = now
	if err := w.lookForStop(processes, now); err != nil {
		return err
	}
	return w.lookForWork(processes, now)
}

func (w *watch) lookForStop(processes []process, now time.Time) error {
	used := totalUsed(processes)
	var found *process
	for i, p := range processes {
		if p.state == 'T' || p.state == 't' {
			found = &processes[i]
		}
	}
	if w.continued && used > w.wokenAt+clockTick {
		w.stopped, w.continued = time.Time{}, false // it ran after the SIGCONT, so a current stop is a new one
	}
	switch {
	case found == nil:
		w.stopped, w.continued = time.Time{}, false
	case w.stopped.IsZero():
		w.stopped = now
	case now.Sub(w.stopped) < w.patienceForStop():
	case w.continued:
		return fmt.Errorf("%w: its process %d is suspended, and SIGCONT does not resume it", ErrEngineStalled, found.pid)
	default:
		w.trouble(fmt.Sprintf("the engine's process %d was suspended by another process; resumed it after %s", found.pid, w.patienceForStop()))
		w.stopped, w.continued, w.wokenAt = now, true, used
		w.wake()
	}
	return nil
}

func (w *watch) patienceForStop() time.Duration { return min(stopPatience, 5*w.every) }

func (w *watch) lookForWork(processes []process, now time.Time) error {
	used := totalUsed(processes)
	waits := w.patient
	for _, p := range processes {
		waits = waits || p.state == 'D' // in the kernel, waiting for a disk or a device
	}
	if waits || used < w.used || used-w.used >= leastWork {
		w.worked, w.used = now, used
		return nil
	}
	if idle := now.Sub(w.worked); idle >= w.limit {
		return fmt.Errorf("%w: it has used no processor time for %s", ErrEngineStalled, idle.Round(time.Second/10))
	}
	return nil
}

// process is a process's state in /proc/PID/stat.
type process struct {
	pid   int
	group int
	state byte
	used  time.Duration // processor time in user mode and in the kernel
}

func totalUsed(processes []process) (used time.Duration) {
	for _, p := range processes {
		used += p.used
	}
	return used
}

// Processes returns the pids of an engine: its own and those of its other ranks.
func Processes(engine int) (pids []int) {
	for _, p := range group(engine) {
		pids = append(pids, p.pid)
	}
	return pids
}

// group returns the engine's process and those of its children that are in its group: the ranks of an engine with
// several.
func group(leader int) []process {
	first, ok := readProcess(leader)
	if !ok {
		return nil
	}
	processes := []process{first}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", leader, leader))
	for field := range strings.FieldsSeq(string(children)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok && p.group == leader {
			processes = append(processes, p)
		}
	}
	return processes
}

func readProcess(pid int) (process, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	return parseProcess(pid, data)
}

// processState returns the state letter of proc(5), false if there is no such process.
func processState(pid int) (byte, bool) {
	p, ok := readProcess(pid)
	return p.state, ok
}

// parseProcess parses a line of proc(5): "pid (name) state ppid pgrp … utime stime …". The name may contain any
// characters.
func parseProcess(pid int, stat []byte) (process, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return process{}, false
	}
	group, err := strconv.Atoi(string(fields[2]))
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err != nil || err1 != nil || err2 != nil {
		return process{}, false
	}
	return process{pid: pid, group: group, state: fields[0][0], used: time.Duration(user+system) * clockTick}, true
}

// newWatch returns a watch for one call.
func (e *Engine) newWatch(call string) *watch {
	return &watch{
		pid: e.PID(), limit: e.opts.StallLimit, every: e.opts.every, patient: patient[call],
		wake: func() { e.signal(syscall.SIGCONT) }, trouble: e.opts.OnTrouble,
	}
}
