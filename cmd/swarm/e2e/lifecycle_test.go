package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/background"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/runs"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// pollEvery is the interval between polls that run the program.
const pollEvery = 100 * time.Millisecond

// detached starts a tiny run of experiment e in the background.
func detached(t *testing.T, home string, more ...string) background.Announcement {
	t.Helper()
	cmd := swarmCommand(t, home, append([]string{"up", "--detach", "-o", "json", "--name", "e"}, tinyRun(more...)...)...)
	cmd.Env = append(cmd.Env, marker(home))
	t.Cleanup(func() {
		for _, pid := range processes(home) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stderr)
	var a background.Announcement
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &a), o.stdout)
	return a
}

// awaitStatus polls swarm status until wanted holds.
func awaitStatus(t *testing.T, home string, wanted func(stats.Status) bool) stats.Status {
	t.Helper()
	var s stats.Status
	require.Eventually(t, func() bool {
		s = status(t, home)
		return wanted(s)
	}, patience, pollEvery)
	return s
}

// A run in the background has no terminal. It can be watched, attached to, stopped and resumed.
func TestDetachedRun(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	a := detached(t, home, "--rounds", "100000", "--checkpoint-every", "5")
	require.Equal(t, background.Announcement{Experiment: "e", Run: "e-1", PID: a.PID, Log: runlog.Path(filepath.Join(home, "runs", "e-1"), runlog.Coordinator)}, a)
	session, err := unix.Getsid(a.PID)
	require.NoError(t, err)
	require.Equal(t, a.PID, session)
	for fd, want := range []string{os.DevNull, a.Log, a.Log} {
		target, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(a.PID), "fd", strconv.Itoa(fd)))
		require.NoError(t, err)
		require.Equal(t, want, target)
	}
	send(t, a.PID, syscall.SIGHUP) // a closed terminal does not end it

	follower := swarmCommand(t, home, "logs", "-f", "e", "-n", "all")
	var followed lockedBuffer
	follower.Stdout = &followed
	require.NoError(t, follower.Start())
	watcher := swarmCommand(t, home, "attach", "--interval", "100ms")
	var watched, watcherErr lockedBuffer
	watcher.Stdout, watcher.Stderr = &watched, &watcherErr
	require.NoError(t, watcher.Start())
	lines := swarmCommand(t, home, "status", "--watch", "-o", "json", "--interval", "100ms")
	var statuses lockedBuffer
	lines.Stdout = &statuses
	require.NoError(t, lines.Start())
	s := awaitStatus(t, home, func(s stats.Status) bool { return s.Round >= 6 })
	require.Equal(t, a.PID, s.PID)

	o := swarm(t, home, "down", "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	var d runs.Stopped
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	require.Equal(t, runs.OutcomeStopped, d.Runs[0].Outcome)
	require.Equal(t, store.RunStopped, d.Runs[0].State)
	require.GreaterOrEqual(t, d.Runs[0].CheckpointRound, 6)
	require.Less(t, d.Runs[0].Seconds, 25.0)
	requireNoProcess(t, home)

	require.Equal(t, 0, waitFor(t, follower))
	require.Contains(t, followed.String(), "coordinator | e-1: tiny on cpu, 2 nodes")
	require.Contains(t, followed.String(), "cumulative reward", "the summary")
	require.Equal(t, 143, waitFor(t, watcher), watcherErr.String())
	require.Contains(t, watched.String(), "e stopped: ")
	require.Equal(t, 143, waitFor(t, lines))
	last := strings.Split(strings.TrimSpace(statuses.String()), "\n")
	var final stats.Status
	require.NoError(t, json.Unmarshal([]byte(last[len(last)-1]), &final))
	require.Equal(t, store.RunStopped, final.State)

	again := detached(t, home, "--rounds", strconv.Itoa(final.Round+3), "--checkpoint-every", "5")
	require.Equal(t, "e-1", again.Run)
	o = swarm(t, home, "attach")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "e done: "+strconv.Itoa(final.Round+3)+" of ")
	requireNoProcess(t, home)
	require.Equal(t, 0, swarm(t, home, "logs", "node_0", "-n", "3").code)
}

// Errors before the run starts are reported by the command in the foreground, with its exit code.
func TestDetachTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"up", "--detach", "--rounds", "x"}, fail.ExitUsage, "Error: bad rounds"},
		{append([]string{"up", "--detach", "--name", "e"}, tinyRun("--device", "cuda")...), fail.ExitNoRoom, "Error: "},
		{append([]string{"up", "--detach", "--python", "/bin/false", "--name", "e"}, tinyRun()...), fail.ExitFailed, "Error: "},
	} {
		cmd := swarmCommand(t, home, tt.args...)
		cmd.Env = append(cmd.Env, marker(home))
		o := finish(t, cmd)
		require.Equal(t, tt.code, o.code, "%v: %s", tt.args, o.stderr)
		require.Contains(t, o.stderr, tt.text)
		require.Empty(t, o.stdout)
		require.NoDirExists(t, filepath.Join(home, "runs", "e-1"))
		requireNoProcess(t, home)
	}
}

// A crash is recorded in the log.
func TestPanicIsFoundInTheLog(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	a := detached(t, home, "--rounds", "100000", "--nodes", "1")
	send(t, a.PID, syscall.SIGQUIT) // Go prints stacks as in a panic
	requireNoProcess(t, home)
	o := swarm(t, home, "logs", "coordinator")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "SIGQUIT: quit")
	require.Contains(t, o.stdout, "goroutine ")
	o = swarm(t, home, "attach", "e-1")
	require.Equal(t, fail.ExitFailed, o.code)
	require.Contains(t, o.stdout, "e crashed: ")
}

// Ctrl-C before the run starts also ends the background process.
func TestInterruptedDetach(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	slow := filepath.Join(dir, "python3")
	require.NoError(t, os.WriteFile(slow, []byte("#!/bin/sh\ntouch "+dir+"/asked\nexec sleep 1000\n"), 0o755))
	cmd := swarmCommand(t, home, append([]string{"up", "--detach", "--python", slow, "--name", "e"}, tinyRun()...)...)
	cmd.Env = append(cmd.Env, marker(home))
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(dir + "/asked"); return err == nil }, patience, pollEvery)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, waitFor(t, cmd))
	requireNoProcess(t, home)
	require.NoDirExists(t, filepath.Join(home, "runs", "e-1"))
}
