package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// ongoing returns the writer of a run whose coordinator is this process.
func ongoing(t *testing.T, home string) *store.Store {
	t.Helper()
	aRun(t, home, "")
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// attach exits with the run's exit code.
func TestAttachHasTheRunsExitCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state   event.State
		message string
		code    int
	}{
		{store.RunDone, "", 0},
		{store.RunLost, "1 node given up", fail.ExitLost},
		{store.RunFailed, "no", fail.ExitFailed},
		{store.RunStopped, "stopped by interrupt", 130},
		{store.RunStopped, "stopped by terminated", 143},
		{store.RunStopped, "stopped by SIGINT", 130},
		{store.RunStopped, "stopped by SIGTERM", 143},
		{store.RunStopped, "stopped because the disk is nearly full", fail.ExitFailed},
	} {
		t.Run(string(tt.state)+" "+tt.message, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			s := ongoing(t, home)
			end := event.Event{Type: event.TypeRunEnded, Run: "r-1", Time: event.Now(), State: tt.state, Message: tt.message}
			require.NoError(t, s.Record(t.Context(), end))
			require.NoError(t, s.Flush(t.Context()))
			o := swarm(t, home, "attach")
			require.Equal(t, tt.code, o.code, o.stderr)
			require.Contains(t, o.stdout, "r "+string(tt.state)+": ")
			require.Empty(t, o.stderr)
		})
	}
}

// On a terminal attach is the live view with the history. Leaving it is no success, because the run continues.
func TestAttachOnATerminal(t *testing.T) {
	t.Parallel()
	for _, leave := range []string{"q", "ctrl+c", "SIGTERM", "the run's end"} {
		t.Run(leave, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			s := ongoing(t, home)
			happens := func(e event.Event) {
				e.Run, e.Time = "r-1", event.Now()
				require.NoError(t, s.Record(t.Context(), e))
				require.NoError(t, s.Flush(t.Context()))
			}
			happens(event.Event{Type: event.TypeWarning, Node: "node_0", Message: "before the attach"})
			ours, theirs := openTerminal(t)
			cmd := swarmCommand(t, home, "status", "--watch", "--interval", "100ms")
			cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=1")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
			require.NoError(t, cmd.Start())
			screen := &watcher{}
			go screen.follow(ours)
			shown := func(text string) {
				t.Helper()
				require.Eventually(t, func() bool { return screen.shows(text) }, patience, pollEvery, "never shown: %q", text)
			}
			shown("before the attach")
			shown("q leave (the run continues)")
			happens(event.Event{Type: event.TypeWarning, Node: "node_1", Message: "while attached"})
			shown("while attached")
			want := 130
			switch leave {
			case "q", "ctrl+c":
				_, err := ours.WriteString(map[string]string{"q": "q", "ctrl+c": "\x03"}[leave])
				require.NoError(t, err)
				shown("r-1 continues.")
			case "SIGTERM":
				require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
				want = 143
			default:
				happens(event.Event{Type: event.TypeRunEnded, State: store.RunDone})
				shown("r done: ")
				want = 0
			}
			require.Equal(t, want, waitFor(t, cmd))
			require.Equal(t, leave == "the run's end", status(t, home).State == store.RunDone)
		})
	}
}

func TestAttachToNothing(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.Equal(t, fail.ExitFailed, swarm(t, home, "attach").code)
	pretend(t, home, map[string]string{"a": obedient, "b": obedient})
	o := swarm(t, home, "attach")
	require.Equal(t, fail.ExitUsage, o.code)
	require.Contains(t, o.stderr, "Error: 2 runs are running: ")
	require.Equal(t, fail.ExitUsage, swarm(t, home, "attach", "c").code)
	require.Equal(t, fail.ExitUsage, swarm(t, home, "attach", "--interval", "1ms").code)
	require.Equal(t, fail.ExitUsage, swarm(t, home, "status", "--watch", "--interval", "1ms").code)
	require.Equal(t, fail.ExitUsage, swarm(t, home, "attach", "a", "b").code)
}

func TestLogsOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.Equal(t, fail.ExitFailed, swarm(t, home, "logs").code)
	aRun(t, home, "")
	o := swarm(t, home, "logs", "node_9")
	require.Equal(t, fail.ExitUsage, o.code)
	require.Equal(t, `Error: "node_9" is not a run, an experiment or a node of r-1`+"\n"+
		"Try: swarm logs r-1 with any of coordinator, node_0, node_1, node_2\n", o.stderr)
	o = swarm(t, home, "logs", "r", "node_9")
	require.Equal(t, fail.ExitUsage, o.code)
	require.Equal(t, "Error: run r-1 has no node \"node_9\"\nTry: coordinator, node_0, node_1, node_2\n", o.stderr)
	o = swarm(t, home, "logs", "-n", "-3")
	require.Equal(t, fail.ExitUsage, o.code)
	o = swarm(t, home, "logs")
	require.Equal(t, fail.ExitFailed, o.code)
	require.Contains(t, o.stderr, "the logs of r-1 are missing")
	require.NoError(t, os.MkdirAll(home+"/runs/r-1/node_1", 0o755))
	require.NoError(t, os.WriteFile(runlog.Path(home+"/runs/r-1", "node_1"), nil, 0o644))
	require.Equal(t, outcome{0, "", "The logs of node_1 of r-1 are empty.\n"}, swarm(t, home, "logs", "r-1", "node_1"))
	require.NoError(t, os.WriteFile(runlog.Path(home+"/runs/r-1", "node_1"), []byte(strings.Repeat("<x>\n", 3)), 0o644))
	o = swarm(t, home, "logs", "node_1", "-n", "2", "-o", "json")
	require.Equal(t, outcome{0, strings.Repeat(`{"log":"node_1","time":null,"line":"<x>"}`+"\n", 2), ""}, o)
}
