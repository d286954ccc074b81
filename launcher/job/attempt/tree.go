package attempt

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

const (
	poll        = 10 * time.Millisecond
	forgetAfter = 60 // number of looks after which the tree checks every process again, because pids are reused
)

// tree holds the processes of an attempt: the command, its descendants, the members of its session, and the orphans
// of these. The tree excludes every process that it can't prove to be its own, and never signals or reaps such a
// process.
type tree struct {
	main int
	self int    // this process, the parent of orphans
	mark string // NAME=value in the environment

	mu      sync.Mutex
	looks   int
	members map[int]member // includes the command
	foreign map[int]bool   // checked before, and not part of the attempt
}

// member is a process at the last look.
type member struct {
	supervise.Stat
	id    supervise.Identity
	share float64 // proportional part of its resident memory; 0: unknown
}

func newTree(main supervise.Identity, mark string) *tree {
	return &tree{
		main: main.PID, self: os.Getpid(), mark: markVariable + "=" + mark,
		members: map[int]member{main.PID: {id: main, Stat: supervise.Stat{Start: main.Start}}}, foreign: map[int]bool{},
	}
}

// look updates the members. It reaps ended members that are children of this process, except the command. Only new
// processes and members cost more than a directory entry.
func (t *tree) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.looks++; t.looks%forgetAfter == 0 {
		clear(t.foreign)
	}
	present, fresh := map[int]bool{}, map[int]supervise.Stat{}
	for _, pid := range processes() {
		present[pid] = true
		if t.foreign[pid] || pid == t.self {
			continue
		}
		stat, err := supervise.ReadStat(pid)
		if err != nil {
			present[pid] = false
			continue
		}
		if m, ok := t.members[pid]; ok && m.Start == stat.Start {
			m.Stat = stat
			t.members[pid] = m
			continue
		}
		fresh[pid] = stat
	}
	for grown := true; grown; {
		grown = false
		for pid, stat := range fresh {
			if t.ours(pid, stat) {
				t.members[pid] = member{id: supervise.Identity{PID: pid, Start: stat.Start, Boot: t.members[t.main].id.Boot}, Stat: stat}
				delete(fresh, pid)
				grown = true
			}
		}
	}
	for pid, stat := range fresh {
		if stat.Parent != t.self { // a child of this process may be about to exec
			t.foreign[pid] = true
		}
	}
	for pid, m := range t.members {
		switch {
		case pid == t.main:
		case !present[pid]:
			delete(t.members, pid)
		case m.State == 'Z':
			if m.Parent == t.self {
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // only the tree waits for it
			}
			delete(t.members, pid)
		}
	}
}

// ours reports whether a new process belongs to the tree.
func (t *tree) ours(pid int, stat supervise.Stat) bool {
	if stat.Session == t.main {
		return true
	}
	if stat.Parent == t.self {
		return t.marked(pid)
	}
	_, ok := t.members[stat.Parent]
	return ok
}

// marked reports whether a process has the attempt's mark in its environment. It returns false for zombies and for
// other users' processes, because their environment is unreadable.
func (t *tree) marked(pid int) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if string(entry) == t.mark {
			return true
		}
	}
	return false
}

// running returns the members that run, as of the last look.
func (t *tree) running() (all []member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.members {
		if m.State != 'Z' && m.State != 'X' {
			all = append(all, m)
		}
	}
	return all
}

// others returns the running members except the command, as of the last look.
func (t *tree) others() []member {
	return slices.DeleteFunc(t.running(), func(m member) bool { return m.id.PID == t.main })
}

// goneBy waits until only the command is left, or until limit, or until cut is closed. It returns the remaining
// members.
func (t *tree) goneBy(limit time.Time, cut <-chan struct{}) []member {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		t.look()
		left := t.others()
		if len(left) == 0 || !time.Now().Before(limit) {
			return left
		}
		select {
		case <-cut:
			return left
		case <-tick.C:
		}
	}
}

// signalAll signals every member, except reused pids.
func signalAll(all []member, s syscall.Signal) {
	for _, m := range all {
		m.id.Signal(s)
	}
}

func pids(all []member) (numbers []int) {
	for _, m := range all {
		numbers = append(numbers, m.id.PID)
	}
	slices.Sort(numbers)
	return numbers
}

// names describes processes: "process 7 (python)", with a count of the others.
func names(all []member) string {
	first := pids(all)[0]
	words := fmt.Sprintf("process %d", first)
	if name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(first), "comm")); err == nil {
		words += fmt.Sprintf(" (%s)", strings.ToValidUTF8(strings.TrimSpace(string(name)), "?"))
	}
	if len(all) > 1 {
		words += fmt.Sprintf(" and %d more", len(all)-1)
	}
	return words
}

// processes returns the pids of all processes.
func processes() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
