package main

import (
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// A node's history is read once, then only new records.
func TestTheViewReadsANodesHistory(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := ongoing(t, home)
	record := func(e event.Event) {
		e.Run, e.Time = "r-1", event.Now()
		require.NoError(t, s.Record(t.Context(), e))
	}
	round := func(node string, index int, reward float64) {
		record(event.Event{Type: event.TypeRound, Node: node, Round: &event.Round{Round: index, Reward: reward}})
	}
	for i := range 3 {
		round("node_0", i, 0.5)
		round("node_1", i, float64(i)/4)
	}
	record(event.Event{Type: event.TypeFailure, Node: "node_1", Cause: event.CauseOutOfMemory, Message: "too much"})
	record(event.Event{Type: event.TypeWarning, Node: "node_0", Message: "another node's"})
	require.NoError(t, s.Flush(t.Context()))
	reader, err := store.OpenReader(t.Context(), filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	v := coordinator.NewView(reader, "r-1", filepath.Join(home, "runs", "r-1"))
	_, err = v.Poll(t.Context())
	require.NoError(t, err)
	past, err := v.History(t.Context(), "node_1")
	require.NoError(t, err)
	require.Equal(t, []float64{0, 0.25, 0.5}, past.Rewards)
	require.Len(t, past.Events, 1)
	require.Equal(t, "too much", past.Events[0].Message)
	require.Empty(t, past.HeldOut)
	for i, sum := range []float64{1, 3} {
		for _, node := range []string{"node_0", "node_1"} {
			record(event.Event{Type: event.TypeEval, Node: node, Eval: &event.Eval{
				Round: 3 * i, Set: "a", Generations: 2, Questions: []event.EvalQuestion{{Task: "x", RewardSum: sum / 2}, {Task: "y", RewardSum: sum / 2}},
			}})
		}
	}

	round("node_1", 5, math.Inf(1))
	round("node_1", 6, 1)
	record(event.Event{Type: event.TypeRestart, Node: "node_1", Seconds: 2})
	require.NoError(t, s.Flush(t.Context()))
	past, err = v.History(t.Context(), "node_1")
	require.NoError(t, err)
	require.Zero(t, past.First)
	require.Equal(t, []terminal.HeldOut{{Round: 0, Reward: 0.25}, {Round: 3, Reward: 0.75}}, past.HeldOut)
	require.Len(t, past.Rewards, 7)
	for i, reward := range past.Rewards {
		require.Equal(t, i >= 3 && i <= 5, math.IsNaN(reward), "round %d", i)
	}
	require.Len(t, past.Events, 2)
	for i := range coordinator.PastRounds + 10 {
		round("node_2", i, 0)
	}
	require.NoError(t, s.Flush(t.Context()))
	past, err = v.History(t.Context(), "node_2")
	require.NoError(t, err)
	require.Equal(t, 10, past.First, "no more than a page can show")
	require.Len(t, past.Rewards, coordinator.PastRounds)
}

// The pages of the live view on a terminal that changes its size, in both character sets.
func TestTheLiveViewsPages(t *testing.T) {
	t.Parallel()
	for _, locale := range []string{"C.UTF-8", "C"} {
		t.Run(locale, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			s := ongoing(t, home)
			require.NoError(t, s.Record(t.Context(), event.Event{
				Type: event.TypeRound, Run: "r-1", Node: "node_1", Time: event.Now(), Round: &event.Round{Reward: 0.25},
			}))
			require.NoError(t, s.Flush(t.Context()))
			log := runlog.Path(filepath.Join(home, "runs", "r-1"), "node_1")
			require.NoError(t, os.MkdirAll(filepath.Dir(log), 0o755))
			require.NoError(t, os.WriteFile(log, []byte("\x1b]0;owned\x07unheard-of\nsecond\n"), 0o644))
			ours, theirs := openTerminal(t)
			cmd := swarmCommand(t, home, "attach", "--interval", "100ms")
			cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=1", "LC_ALL="+locale)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
			require.NoError(t, cmd.Start())
			screen := &watcher{}
			go screen.follow(ours)
			width := uint16(100)
			shown := func(text string) {
				t.Helper()
				require.Eventually(t, func() bool {
					if screen.shows(text) {
						return true
					}
					width = 201 - width // a resized terminal is redrawn completely
					require.NoError(t, unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: width}))
					return cmd.Process.Signal(syscall.SIGWINCH) != nil
				}, patience, pollEvery, "never shown: %q", text)
			}
			press := func(keys string) {
				t.Helper()
				_, err := ours.WriteString(keys)
				require.NoError(t, err)
			}
			shown("node_2")
			press("j\r")
			shown("micro-batch 8")
			shown("reward, rounds 1")
			shown("unheard-of")
			press("l")
			shown("following")
			press("/second\r")
			press("?")
			shown("everywhere")
			press("q")
			require.Equal(t, 130, waitFor(t, cmd))
			shown("r-1 continues.")
			require.False(t, screen.shows("owned"))
			if locale == "C" {
				screen.mu.Lock()
				defer screen.mu.Unlock()
				for _, b := range screen.b.Bytes() {
					require.Less(t, b, byte(0x80))
				}
			}
		})
	}
}

// A terminal that can't move its cursor gets plain lines.
func TestADumbTerminalGetsLines(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := ongoing(t, home)
	ours, theirs := openTerminal(t)
	cmd := swarmCommand(t, home, "attach", "--interval", "100ms")
	cmd.Env = append(cmd.Env, "TERM=dumb")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	require.NoError(t, cmd.Start())
	screen := &watcher{}
	go screen.follow(ours)
	require.Eventually(t, func() bool { return screen.shows("run r-1") }, patience, pollEvery)
	require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeRunEnded, Run: "r-1", Time: event.Now(), State: store.RunDone}))
	require.NoError(t, s.Flush(t.Context()))
	require.Equal(t, 0, waitFor(t, cmd))
	require.Eventually(t, func() bool { return screen.shows("r done: ") }, patience, pollEvery)
	require.False(t, screen.shows("\x1b"))
}

// In up's own view q asks for confirmation: esc continues training, s stops in order.
func TestQuittingTheViewOfUp(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up, keyboard, screen := onTerminal(t, home, true, append([]string{"up"}, tinyRun("--rounds", "500")...))
	press := func(keys string) {
		t.Helper()
		_, err := keyboard.WriteString(keys)
		require.NoError(t, err)
	}
	awaitRounds(t, home, 1)
	press("q")
	require.Eventually(t, func() bool { return screen.shows("s stop after a checkpoint") }, patience, pollEvery)
	press("\x1b")
	seen := status(t, home)
	require.Greater(t, awaitRounds(t, home, seen.Round+2).Round, seen.Round, "it trains on")
	press("qs")
	require.Equal(t, 130, waitFor(t, up.cmd))
	require.Equal(t, "stopped", status(t, home).State)
	require.Eventually(t, func() bool { return screen.shows("stopped by SIGINT") }, patience, pollEvery)
	requireNoProcess(t, home)
}
