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

// Stat is the part of /proc/PID/stat with a process's identity and size.
type Stat struct {
	State    byte // Z: zombie
	Parent   int
	Group    int    // process group
	Session  int    // session id
	Start    uint64 // clock ticks after boot; identifies a process together with its pid until the next boot
	Resident int64  // bytes, including shared pages
}

// ReadStat reads the state of a process. The error is os.ErrNotExist if there is none.
func ReadStat(pid int) (Stat, error) {
	data, err := readProc("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return parseStat(data)
}

// readProc reads a small file of /proc. It makes a third of the system calls of os.ReadFile, whose attempts to use
// the poller always fail here. That matters because each child is checked every second.
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

// retried repeats a system call that a signal has interrupted.
func retried(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// parseStat parses proc_pid_stat(5). The command's name may contain blanks and brackets, so fields count from its
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

// family returns a process and its visible descendants, parents first.
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

// children returns the processes that a process's threads have started, including zombies. It returns none if the
// kernel does not report them.
func children(pid int) []int {
	folder := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := names(folder)
	if err != nil {
		return nil // the process has ended
	}
	var found []int
	for _, thread := range threads {
		data, err := readProc(folder + "/" + thread + "/children") // fails if the thread has just ended
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

// names lists a folder. Unlike filepath.Glob it does not list the folders inside, which is expensive in /proc.
func names(folder string) ([]string, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// newestPID returns the pid that the kernel assigned last, to a process or a thread, or 0 if unknown.
func newestPID() int {
	data, err := readProc("/proc/loadavg")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 5 {
		return 0
	}
	pid, _ := strconv.Atoi(fields[4]) // 0 if it is not a number
	return pid
}

// descends reports whether the process from has started pid, directly or indirectly. It needs all processes between
// them to be still running.
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

// fedBy reports whether a process's stdin is a pipe, and the process from holds its other end.
func fedBy(pid, from int) bool {
	stdin, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "fd", "0"))
	if err != nil || !strings.HasPrefix(stdin, "pipe:") {
		return false
	}
	// fails only for an invalid pattern
	held, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(from), "fd", "*"))
	for _, path := range held {
		if target, err := os.Readlink(path); err == nil && target == stdin {
			return true
		}
	}
	return false
}

// bootID identifies the boot of the kernel.
var bootID = sync.OnceValues(func() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
})

// pidNamespace returns the PID namespace of this process in the kernel's form ("pid:[4026531836]"), or "" if
// unknown.
var pidNamespace = sync.OnceValue(func() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
})

// Identity identifies a process even if its pid is reused.
type Identity struct {
	PID       int    `json:"pid"`
	Start     uint64 `json:"start_ticks"` // from /proc/PID/stat
	Boot      string `json:"boot_id"`
	Namespace string `json:"pid_namespace,omitempty"` // namespace of PID; empty: not recorded
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

// Elsewhere reports whether the process belongs to another PID namespace of the running kernel, as in a container.
// Its pid then means nothing here, so Alive cannot tell whether it is running.
func (id Identity) Elsewhere() bool {
	if id.Namespace == "" || id.Namespace == pidNamespace() {
		return false
	}
	boot, err := bootID()
	return err == nil && id.Boot == boot
}

// Alive reports whether this process is still running. It is false for a zombie, and for a process in another PID
// namespace.
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

// SignalGroup sends a signal to the process's group if the process is still running.
func (id Identity) SignalGroup(s syscall.Signal) {
	if id.Alive() {
		syscall.Kill(-id.PID, s)
	}
}

// Signal sends a signal to the process only. It takes the process handle before it checks the identity, so that the
// pid cannot be reused in between.
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
		_ = p.Signal(s) // fails if it has just ended
	}
}
