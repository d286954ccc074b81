package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Stat is the part of /proc/PID/stat that tells who a process is, and how large.
type Stat struct {
	State    byte // Z: zombie
	Parent   int
	Group    int    // process group
	Session  int    // that it belongs to
	Start    uint64 // clock ticks after boot; with the pid it names one process for as long as the machine runs
	Resident int64  // bytes, shared ones included
}

// ReadStat reads a process; os.ErrNotExist when there is none.
func ReadStat(pid int) (Stat, error) {
	data, err := readProc("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return parseStat(data)
}

// readProc reads a small file of /proc. os.ReadFile makes three times as many system calls, of which the poller's
// always fail here, and each child is looked at every second.
func readProc(path string) ([]byte, error) {
	fd, err := retried(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	data := make([]byte, 0, 1024)
	for {
		n, err := retried(func() (int, error) { return unix.Read(fd, data[len(data):cap(data)]) })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if data = data[:len(data)+n]; n == 0 {
			return data, nil
		}
		data = slices.Grow(data, 512)
	}
}

// retried repeats a system call that a signal interrupts.
func retried(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// parseStat parses proc_pid_stat(5). The command's name may hold blanks and brackets, so that fields count from its
// last bracket.
func parseStat(data []byte) (Stat, error) {
	at := bytes.LastIndexByte(data, ')')
	if at < 0 {
		return Stat{}, fmt.Errorf("no command in %.80q", data)
	}
	fields := strings.Fields(string(data[at+1:]))
	const state, parent, group, session, start, resident = 0, 1, 2, 3, 19, 21
	if len(fields) <= resident || fields[state] == "" {
		return Stat{}, fmt.Errorf("%d fields in %.80q", len(fields), data)
	}
	s := Stat{State: fields[state][0]}
	var err error
	if s.Parent, err = strconv.Atoi(fields[parent]); err != nil {
		return Stat{}, fmt.Errorf("parent: %w", err)
	}
	if s.Group, err = strconv.Atoi(fields[group]); err != nil {
		return Stat{}, fmt.Errorf("process group: %w", err)
	}
	if s.Start, err = strconv.ParseUint(fields[start], 10, 64); err != nil {
		return Stat{}, fmt.Errorf("start time: %w", err)
	}
	if s.Session, err = strconv.Atoi(fields[session]); err != nil {
		return Stat{}, fmt.Errorf("session: %w", err)
	}
	pages, err := strconv.ParseInt(fields[resident], 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("resident set: %w", err)
	}
	s.Resident = max(0, pages) * int64(os.Getpagesize())
	return s, nil
}

// family is a process and its descendants, as far as they can be seen, in an order in which parents come first.
func family(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []int{pid}
	}
	children := map[int][]int{}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, err := ReadStat(child); err == nil {
			children[stat.Parent] = append(children[stat.Parent], child)
		}
	}
	found := []int{pid}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// children are the processes that a process's threads have started, zombies included; none where the kernel doesn't
// tell.
func children(pid int) []int {
	folder := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := names(folder)
	if err != nil {
		return nil // it has ended
	}
	var found []int
	for _, thread := range threads {
		data, err := readProc(folder + "/" + thread + "/children") // fails where the thread has just ended
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

// names lists what is in a folder. Unlike filepath.Glob it doesn't list the folders in it, which is dear in /proc.
func names(folder string) ([]string, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// newestPID is the pid that the kernel has given out last, to a process or a thread; 0 where it doesn't tell.
func newestPID() int {
	data, err := readProc("/proc/loadavg")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 5 {
		return 0
	}
	pid, _ := strconv.Atoi(fields[4]) // 0 where it is none
	return pid
}

// descends tells whether a process was started by another one, directly or not, as far as all in between still run.
func descends(pid, from int) bool {
	for range 32 { // generations
		stat, err := ReadStat(pid)
		if err != nil || stat.Parent <= 1 {
			return false
		}
		if stat.Parent == from {
			return true
		}
		pid = stat.Parent
	}
	return false
}

// fedBy tells whether a process's stdin is a pipe whose other end another one holds.
func fedBy(pid, from int) bool {
	stdin, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "fd", "0"))
	if err != nil || !strings.HasPrefix(stdin, "pipe:") {
		return false
	}
	held, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(from), "fd", "*")) // fails for a bad pattern alone
	for _, path := range held {
		if target, err := os.Readlink(path); err == nil && target == stdin {
			return true
		}
	}
	return false
}

// bootID is that of the kernel's run.
var bootID = sync.OnceValues(func() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
})

// pidNamespace names the PID namespace of this process, as the kernel does ("pid:[4026531836]"); empty where it doesn't
// tell.
var pidNamespace = sync.OnceValue(func() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
})

// Identity names one process beyond the reuse of its pid.
type Identity struct {
	PID       int    `json:"pid"`
	Start     uint64 `json:"start_ticks"` // of /proc/PID/stat
	Boot      string `json:"boot_id"`
	Namespace string `json:"pid_namespace,omitempty"` // in which PID names it; empty: not recorded
}

// Identify returns the identity of a running process.
func Identify(pid int) (Identity, error) {
	stat, err := ReadStat(pid)
	if err != nil {
		return Identity{}, err
	}
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: stat.Start, Boot: boot, Namespace: pidNamespace()}, nil
}

// Elsewhere tells that the process belongs to another PID namespace of the running kernel, as a container's do. Whether
// it lives can't be seen from here: its pid names another process here, or none.
func (id Identity) Elsewhere() bool {
	if id.Namespace == "" || id.Namespace == pidNamespace() {
		return false
	}
	boot, err := bootID()
	return err == nil && id.Boot == boot
}

// Alive tells whether this very process still runs. A zombie does not, nor does one of another PID namespace, as far as
// can be seen.
func (id Identity) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	stat, err := ReadStat(id.PID)
	if err != nil || stat.State == 'Z' || stat.Start != id.Start {
		return false
	}
	now, err := Identify(id.PID)
	if id.Namespace == "" {
		now.Namespace = ""
	}
	return err == nil && now == id
}

// SignalGroup sends a signal to the process's group if the process still is what the identity says.
func (id Identity) SignalGroup(s syscall.Signal) {
	if id.Alive() {
		syscall.Kill(-id.PID, s)
	}
}

// Signal sends a signal to the process alone. The handle is taken before the identity is checked, so that the pid can't
// change hands in between.
func (id Identity) Signal(s syscall.Signal) {
	if id.PID <= 1 {
		return
	}
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return
	}
	defer p.Release()
	if id.Alive() {
		_ = p.Signal(s) // fails where it has just ended
	}
}
