package swarmtest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Marker returns the environment variable of every process of a test's run.
func Marker(home string) string { return "E2E_HOME=" + home }

// Processes returns the PIDs of living processes with a home's marker.
func Processes(home string) []int {
	var pids []int
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range entries {
		environ, err := os.ReadFile(path) // empty for a zombie
		if err == nil && bytes.Contains(environ, []byte(Marker(home)+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// RequireNoProcess waits until no process of a home's run is left.
func RequireNoProcess(t *testing.T, home string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(Processes(home)) == 0 }, Patience, 50*time.Millisecond, "processes are left behind")
}

// Send signals one process. It refuses PID 0, an unknown PID, because kill(2) would signal the tests' own process
// group.
func Send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	require.Greater(t, pid, 1)
	require.NoError(t, syscall.Kill(pid, s))
}

// Parent returns the PID of a process's parent.
func Parent(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	require.NoError(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ppid, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	return ppid
}

// Buffer is a buffer that can be read while a process writes to it.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

var _ io.Writer = (*Buffer)(nil)

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// ChildrenOf returns the PIDs of a process's living children.
func ChildrenOf(pid int) []int {
	var list []int
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if parent, err := strconv.Atoi(fields[1]); err == nil && parent == pid && fields[0] != "Z" {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			list = append(list, child)
		}
	}
	return list
}
