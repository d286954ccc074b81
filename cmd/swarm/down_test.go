package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runs"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// pretend records runs whose coordinators are shell scripts: down only deals with the process.
func pretend(t *testing.T, home string, scripts map[string]string) map[string]*exec.Cmd {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	defer s.Close()
	host, err := os.Hostname()
	require.NoError(t, err)
	commands := map[string]*exec.Cmd{}
	for experiment, script := range scripts {
		// The script writes a line when its trap is set.
		cmd := exec.Command("/bin/sh", "-c", script)
		ready, err := cmd.StdoutPipe()
		require.NoError(t, err)
		hold, err := cmd.StdinPipe() // a script that should end at once reads from it first
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = ready.Read(make([]byte, 1))
		require.NoError(t, err)
		reaped := make(chan struct{})
		go func() { cmd.Wait(); close(reaped) }()
		t.Cleanup(func() { cmd.Process.Kill(); <-reaped })
		id, err := supervise.Identify(cmd.Process.Pid)
		require.NoError(t, err)
		if hold.Close(); script == brief {
			<-reaped
		}
		require.NoError(t, os.MkdirAll(filepath.Join(home, "runs", experiment+"-1"), 0o755))
		require.NoError(t, s.StartRun(t.Context(), store.Run{
			Run: experiment + "-1", Experiment: experiment, Rounds: 40, NodeIDs: []string{"node_0"}, Host: host, PID: id.PID,
			StartTicks: int64(id.Start), BootID: id.Boot, Started: event.Now(),
		}))
		require.NoError(t, s.Record(t.Context(), event.Event{
			Type: event.TypeCheckpoint, Run: experiment + "-1", Node: "node_0", Time: event.Now(), Checkpoint: &event.Checkpoint{Round: 17, Path: "x"},
		}))
		commands[experiment] = cmd
	}
	require.NoError(t, s.Flush(t.Context()))
	return commands
}

const (
	obedient = `trap 'exit 143' TERM; echo; while :; do sleep 0.02; done`
	deaf     = `trap '' TERM; echo; while :; do sleep 0.02; done`
	brief    = `echo; read _`
	twice    = `trap 'trap "exit 143" TERM' TERM; echo; while :; do sleep 0.02; done` // ends on the second signal
)

func down(t *testing.T, home string, args ...string) (runs.Stopped, outcome) {
	t.Helper()
	o := swarm(t, home, append([]string{"down", "-o", "json"}, args...)...)
	var d runs.Stopped
	if o.stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &d), o.stdout)
	}
	return d, o
}

func TestDownWhereNothingRuns(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := swarm(t, home, "down")
	require.Equal(t, outcome{0, "Nothing runs under " + home + ".\n", ""}, o)
	o = swarm(t, home, "down", "x")
	require.Equal(t, fail.ExitFailed, o.code)
	pretend(t, home, map[string]string{"a": brief})
	d, o := down(t, home)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, d.Runs)
	d, o = down(t, home, "a")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, runs.OutcomeIdle, d.Runs[0].Outcome)
	require.Equal(t, "crashed", d.Runs[0].State)
	require.Equal(t, fail.ExitUsage, swarm(t, home, "down", "other").code)
	require.Equal(t, fail.ExitUsage, swarm(t, home, "down", "--timeout", "0").code)
}

func TestDownStopsInOrder(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"running", "stopped by ctrl+z"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			cmd := pretend(t, home, map[string]string{"a": obedient})["a"]
			if state != "running" {
				require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			}
			d, o := down(t, home)
			require.Equal(t, 0, o.code, o.stderr)
			require.Equal(t, runs.OutcomeStopped, d.Runs[0].Outcome)
			require.Equal(t, cmd.Process.Pid, d.Runs[0].PID)
			require.Equal(t, 17, d.Runs[0].CheckpointRound)
			require.NoFileExists(t, filepath.Join(home, "runs", "a-1", lifecycle.AskedFile))
		})
	}
}

// A second down still asks for an orderly stop. Only --now sends the second signal.
func TestDownTwiceIsNoSecondSignal(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd := pretend(t, home, map[string]string{"a": twice})["a"]
	first := swarmCommand(t, home, "down", "--timeout", "1m")
	require.NoError(t, first.Start())
	asked := filepath.Join(home, "runs", "a-1", lifecycle.AskedFile)
	require.Eventually(t, func() bool { _, err := os.Stat(asked); return err == nil }, patience, 10*time.Millisecond)
	require.NoError(t, first.Process.Kill()) // an impatient user
	require.Equal(t, 137, waitFor(t, first))
	id, err := supervise.Identify(cmd.Process.Pid)
	require.NoError(t, err)
	second := swarmCommand(t, home, "down", "--timeout", "1m")
	var stderr lockedBuffer
	second.Stderr = &stderr
	require.NoError(t, second.Start())
	require.Eventually(t, func() bool { return strings.Contains(stderr.String(), "a-1 at round") || !id.Alive() }, patience, 10*time.Millisecond)
	if second.Process.Kill(); stderr.String() == "" {
		require.True(t, id.Alive(), "the second down sent a second signal")
	}
	waitFor(t, second)
	require.True(t, id.Alive())
	d, o := down(t, home, "--now")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, runs.OutcomeStopped, d.Runs[0].Outcome)
	require.False(t, id.Alive())
}

func TestDownKillsWhatDoesNotListen(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	pretend(t, home, map[string]string{"a": deaf})
	d, o := down(t, home, "a-1", "--timeout", "1s")
	require.Equal(t, fail.ExitFailed, o.code)
	require.Equal(t, "Error: a-1 did not stop cleanly\nTry: swarm logs a-1 coordinator for why\n", o.stderr)
	require.Equal(t, runs.OutcomeKilled, d.Runs[0].Outcome)
	require.Equal(t, "crashed", d.Runs[0].State)
}

func TestDownOfSeveral(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	pretend(t, home, map[string]string{"a": obedient, "b": obedient, "c": obedient})
	_, o := down(t, home)
	require.Equal(t, fail.ExitUsage, o.code)
	require.Regexp(t, `^Error: 3 runs are running: ([abc]-1, ){2}[abc]-1\nTry: swarm down [abc]-1\n$`, o.stderr)
	d, o := down(t, home, "b")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "b-1", d.Runs[0].Run)
	d, o = down(t, home, "--all")
	require.Equal(t, 0, o.code, o.stderr)
	require.Len(t, d.Runs, 2)
}

// A PID that another process has since been given is left alone.
func TestDownSparesStrangers(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd := pretend(t, home, map[string]string{"a": obedient})["a"]
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	id, err := supervise.Identify(cmd.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, s.StartRun(t.Context(), store.Run{
		Run: "a-1", Experiment: "a", Rounds: 40, NodeIDs: []string{"node_0"}, Host: host, PID: id.PID, StartTicks: int64(id.Start) - 1,
		BootID: id.Boot, Started: event.Now(),
	}))
	require.NoError(t, s.StartRun(t.Context(), store.Run{
		Run: "far-1", Experiment: "far", Rounds: 40, NodeIDs: []string{"node_0"}, Host: "far", PID: id.PID, StartTicks: int64(id.Start),
		BootID: id.Boot, Started: event.Now(),
	}))
	require.NoError(t, s.Close())
	d, o := down(t, home, "a")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, runs.OutcomeIdle, d.Runs[0].Outcome)
	_, o = down(t, home)
	require.Equal(t, fail.ExitFailed, o.code)
	require.Equal(t, "Error: far-1 runs on far, whose processes cannot be stopped from this host\nTry: swarm down far-1 there\n", o.stderr)
	require.True(t, id.Alive())
}
