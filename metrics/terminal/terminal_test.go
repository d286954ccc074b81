package terminal

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func f(v float64) *float64 { return &v }

func aStatus(nodes int) stats.Status {
	s := stats.Status{
		Experiment: "sapo-4-4", Run: "sapo-4-4-20250901-0930", State: "running", Round: 12, Rounds: 40, CumulativeReward: 19.873,
		ETASeconds: f(87), SecondsPerRound: f(3.1), ElapsedSeconds: 41, Model: "gpt2", Device: "cuda:0", NodesPlanned: nodes, NodesAlive: nodes,
		Reward: f(0.214), Restarts: 1, MemoryBytes: 15_300_000_000, RecentRewards: []float64{0.05, 0.06, 0.1, 0.09, 0.15, 0.2, 0.18, 0.214},
	}
	states := []event.State{event.StateGenerating, event.StateWaiting, event.StateUpdating, event.StateBarrier, event.StateDone}
	for i := range nodes {
		s.Nodes = append(s.Nodes, stats.NodeStatus{
			ID: fmt.Sprint("node_", i), State: string(states[i%len(states)]), Round: 12 + i%2, Reward: f(0.2 + float64(i)/100),
			RecentReward: f(0.15), CumulativeReward: 2.5, MemoryBytes: 1_900_000_000, PeakMemoryBytes: 2_100_000_000, PID: 4000 + i,
		})
	}
	if nodes > 3 {
		n := &s.Nodes[3]
		n.State, n.Restarts, n.PID, n.MemoryBytes, n.Reward = string(event.StateFailed), 1, 0, 0, nil
		n.Cause, n.Message = event.CauseOutOfMemory, "CUDA out of memory: tried to allocate 2.00 GiB"
	}
	return s
}

func someEvents() []event.Event {
	one := 1
	return []event.Event{
		{Type: event.TypeSpawn, Node: "node_3", Time: 1, PID: 9},
		{Type: event.TypeWarning, Node: "node_1", Time: 1756719001, Message: "fp16 may\noverflow"},
		{Type: event.TypeExit, Node: "node_3", Time: 1756719002, Cause: event.CauseOutOfMemory, ExitCode: &one, Message: "CUDA out of memory"},
		{Type: event.TypeRestart, Node: "node_3", Time: 1756719002, Seconds: 2},
	}
}

func TestFrames(t *testing.T) {
	for name, x := range map[string]struct{ nodes, width, height int }{
		"view_80":         {8, 80, 24},
		"view_120":        {8, 120, 30},
		"view_60":         {4, 60, 20},
		"view_24_nodes":   {24, 80, 24},
		"view_tiny":       {8, 30, 10},
		"view_40x12":      {8, 40, 12},
		"view_200x50":     {1000, 200, 50},
		"view_20x6":       {8, 20, 6},
		"view_phone_wide": {24, 50, 9},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t.Context(), testConfig(aStatus(x.nodes)))
			for _, e := range someEvents() {
				m.cfg.Feed.Add(e)
			}
			m.Update(tea.WindowSizeMsg{Width: x.width, Height: x.height})
			m.Update(m.poll())
			frame := ansi.Strip(m.View().Content)
			lines := strings.Split(frame, "\n")
			require.LessOrEqual(t, len(lines), x.height)
			for _, l := range lines {
				require.LessOrEqual(t, ansi.StringWidth(l), x.width, l)
			}
			golden(t, name+".txt", frame+"\n")
		})
	}
}

func testConfig(s stats.Status) Config {
	return Config{
		Poll:     func(context.Context) (stats.Status, error) { return s, nil },
		Location: time.UTC, Now: func() time.Time { return time.Unix(0, 0) },
	}.withDefaults()
}

func TestFailingPollKeepsTheLastFrame(t *testing.T) {
	m := newModel(t.Context(), testConfig(aStatus(2)))
	require.Contains(t, m.frame, "waiting")
	m.Update(m.poll())
	m.Update(statusMsg{err: errors.New("database locked\nby another")})
	require.Contains(t, m.frame, "node_1")
	require.Contains(t, m.frame, "no news: database locked by another")
	m.Update(m.poll())
	require.NotContains(t, m.frame, "no news")
}

func TestNoColor(t *testing.T) {
	cfg := testConfig(aStatus(4))
	for environ, color := range map[string]bool{"TERM=xterm": true, "NO_COLOR=": true, "NO_COLOR=1": false} {
		cfg.Environ = []string{environ}
		m := newModel(t.Context(), cfg)
		m.Update(m.poll())
		require.Equal(t, color, strings.Contains(m.frame, "\x1b[31m") || strings.Contains(m.frame, "\x1b[32m"), environ)
	}
}

// safeBuffer allows the renderer to write while the test reads.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestLiveFromKeyToEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, keys := io.Pipe()
	defer keys.Close()
	asked := make(chan bool, 2)
	out := &safeBuffer{}
	cfg := testConfig(aStatus(2))
	cfg.In, cfg.Out, cfg.Environ, cfg.Interval = in, out, []string{"TERM=xterm"}, time.Millisecond
	cfg.Interrupt = func(now bool) { asked <- now }
	done := make(chan error, 1)
	go func() { done <- Live(ctx, cfg) }()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "sapo-4-4") }, time.Minute, 5*time.Millisecond)
	_, err := keys.Write([]byte("qs"))
	require.NoError(t, err)
	require.False(t, <-asked)
	cancel()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the view didn't end with its context")
	}
}

// A view of a run without changes writes nothing, for any number of polls.
func TestAnIdleViewWritesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, keys := io.Pipe()
	defer keys.Close()
	out := &safeBuffer{}
	cfg := testConfig(aStatus(24))
	var polls atomic.Int64
	cfg.Poll = func(context.Context) (stats.Status, error) { polls.Add(1); return aStatus(24), nil }
	cfg.In, cfg.Out, cfg.Environ, cfg.Interval = in, out, []string{"TERM=xterm"}, 5*time.Millisecond
	done := make(chan error, 1)
	go func() { done <- Live(ctx, cfg) }()
	looks := func(n int64) {
		t.Helper()
		from := polls.Load()
		require.Eventually(t, func() bool { return polls.Load() >= from+n }, time.Minute, 5*time.Millisecond)
	}
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "node_7") }, time.Minute, 5*time.Millisecond)
	looks(100)
	before := len(out.String())
	looks(200)
	require.Equal(t, before, len(out.String()))
	cancel()
	require.NoError(t, <-done)
}

func TestLiveLeftByKey(t *testing.T) {
	in, keys := io.Pipe()
	defer keys.Close()
	cfg := testConfig(aStatus(2))
	cfg.In, cfg.Out, cfg.Environ = in, io.Discard, []string{"TERM=xterm"}
	done := make(chan error, 1)
	go func() { done <- Live(context.Background(), cfg) }()
	_, err := keys.Write([]byte("q"))
	require.NoError(t, err)
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("q didn't leave the view")
	}
}

func TestPlainSteps(t *testing.T) {
	p := plain{location: time.UTC}
	now := time.Unix(1756719000, 0)
	var out strings.Builder
	step := func(after time.Duration, round int, lines []feedLine, err error, last bool) {
		now = now.Add(after)
		x := aStatus(8)
		x.Round = round
		out.WriteString(p.step(x, err, lines, now, last))
	}
	feed := NewFeed()
	for _, e := range someEvents() {
		feed.Add(e)
	}
	lines, _ := feed.since(0)
	step(0, 0, nil, nil, false)
	step(3*time.Second, 0, nil, nil, false) // nothing new
	step(58*time.Second, 0, nil, nil, false)
	step(4*time.Second, 1, lines, nil, false) // events appear immediately, the round is held back
	step(7*time.Second, 2, nil, nil, false)
	step(time.Second, 2, nil, errors.New("locked"), false)
	step(time.Second, 2, nil, errors.New("locked"), false) // reported once
	step(time.Second, 39, nil, nil, false)
	step(time.Second, 40, nil, nil, false) // the last round is not held back
	step(time.Second, 40, nil, nil, true)
	golden(t, "plain.txt", out.String())
}

func TestPlainTellsTheRestAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	cfg := testConfig(aStatus(8))
	cfg.Out, cfg.Interval = &out, time.Millisecond
	feed := cfg.Feed
	polls := 0
	cfg.Poll = func(ctx context.Context) (stats.Status, error) {
		if err := ctx.Err(); err != nil {
			return stats.Status{}, err
		}
		x := aStatus(8)
		if polls++; polls > 3 {
			x.Round = 13
			cancel()
			feed.Add(event.Event{Type: event.TypeRunEnded, Time: 1756719009, State: "stopped"})
		}
		return x, nil
	}
	require.NoError(t, Plain(ctx, cfg))
	require.Contains(t, out.String(), "run stopped")
	require.Contains(t, out.String(), "round 13/40")
	require.Equal(t, 1, strings.Count(out.String(), "run sapo-4-4"))

	cfg.Out = brokenPipe{}
	require.ErrorIs(t, Plain(ctx, cfg), io.ErrClosedPipe)
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestSummary(t *testing.T) {
	status := aStatus(4)
	status.State, status.Round, status.Message = "lost", 40, "1 of 4 nodes gave up"
	status.Nodes[3].State, status.NodesAlive, status.ElapsedSeconds = string(event.StateGivenUp), 3, 7512
	s := stats.Summary{Status: status, FirstReward: f(0.112), LastReward: f(0.305), EdgeRounds: 5}
	var out bytes.Buffer
	require.NoError(t, Summary(&out, s, Place{Database: "/home/u/swarm.db", Folder: "/home/u/runs/r",
		Next: []string{"swarm compare", "swarm logs node_3"}}))
	golden(t, "summary.txt", out.String())
	out.Reset()
	require.NoError(t, Summary(&out, stats.Summary{Status: stats.Status{Experiment: "e", State: "failed", Rounds: 1}}, Place{}))
	golden(t, "summary_empty.txt", out.String())
}

func TestFeedForgetsTheOldest(t *testing.T) {
	feed := NewFeed()
	for i := range feedLength + 5 {
		feed.Add(event.Event{Type: event.TypeWarning, Time: 1, Message: fmt.Sprint(i)})
	}
	lines, seen := feed.since(0)
	require.Len(t, lines, feedLength)
	require.Equal(t, "warning: 5", lines[0].text)
	feed.Add(event.Event{Type: event.TypeWarning, Time: 1, Message: "new"})
	lines, _ = feed.since(seen)
	require.Equal(t, []feedLine{{1, "warning: new"}}, lines)
}

func TestBarAndSparkline(t *testing.T) {
	require.Equal(t, "▁▅█", sparkline([]float64{9, 0, 0.5, 1}, 3))
	require.Equal(t, "▁▁", sparkline([]float64{2, 2}, 5))
	require.Equal(t, "███░", bar(0.75, 4))
}

// BenchmarkFrame measures the cost of one poll and frame of the live view, without the database.
func BenchmarkFrame(b *testing.B) {
	for _, nodes := range []int{24, 1000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			m := newModel(b.Context(), testConfig(aStatus(nodes)))
			m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
			for b.Loop() {
				m.Update(m.poll())
			}
		})
	}
}
