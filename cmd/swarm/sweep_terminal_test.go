package main

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// onTerminal starts a sweep in a session of its own on a pseudo-terminal, and returns the test's end of it.
func onTerminal(t *testing.T, home string, live bool, args []string) (*sweeping, *os.File, *watcher) {
	t.Helper()
	ours, theirs := openTerminal(t)
	s := &sweeping{cmd: swarmCommand(t, home, args...), stderr: &lockedBuffer{}}
	s.cmd.Env = append(s.cmd.Env, marker(home), "TERM=xterm", "NO_COLOR=1")
	s.cmd.Stdin, s.cmd.Stderr = theirs, s.stderr
	if live {
		s.cmd.Stdout, s.cmd.Stderr = theirs, theirs
	} else {
		s.cmd.Stdout = &bytes.Buffer{}
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	require.NoError(t, s.cmd.Start())
	screen := &watcher{}
	go screen.follow(ours)
	t.Cleanup(func() {
		for _, pid := range processes(home) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s, ours, screen
}

const ctrlC = "\x03"

// The terminal sends Ctrl-C to the sweep and to its run. It counts once, and the run stops cleanly.
func TestCtrlCCountsOnce(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s, keyboard, _ := onTerminal(t, home, false, sweepArgs([]string{"8loc0ext", "4loc4ext"}, "--rounds", "500"))
	engine := awaitRounds(t, home, 1).Nodes[0].EnginePID
	send(t, engine, syscall.SIGSTOP) // an orderly stop must wait for it
	_, err := keyboard.WriteString(ctrlC)
	require.NoError(t, err)
	ended := make(chan int, 1)
	go func() { ended <- waitFor(t, s.cmd) }()
	select {
	case <-ended:
		t.Fatal("one Ctrl-C stopped the run at once")
	case <-time.After(2 * time.Second):
	}
	send(t, engine, syscall.SIGCONT)
	require.Equal(t, 130, <-ended, s.stderr.String())
	stopped := status(t, home)
	require.Equal(t, "8loc0ext", stopped.Experiment)
	require.Equal(t, "stopped", stopped.State)
	requireNoProcess(t, home)
}

// A run of a sweep uses the terminal for its live view. There Ctrl-C is a key, and it stops the sweep, too.
func TestTheRunOfASweepHasTheTerminal(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s, keyboard, screen := onTerminal(t, home, true, sweepArgs([]string{"8loc0ext", "4loc4ext"}, "--rounds", "500"))
	awaitRounds(t, home, 1)
	require.Eventually(t, func() bool { return screen.shows("sweep: run 1 of 2: 8loc0ext seed 42; done 0, failed 0") }, patience, pollEvery)
	_, err := keyboard.WriteString(ctrlC)
	require.NoError(t, err)
	require.Equal(t, 130, waitFor(t, s.cmd))
	stopped := status(t, home)
	require.Equal(t, "stopped", stopped.State)
	require.Eventually(t, func() bool { return screen.shows("The same command continues it.") }, patience, pollEvery)
	requireNoProcess(t, home)
}
