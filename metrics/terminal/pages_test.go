package terminal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// settle runs the commands of a key that opened a page, but not the commands that follow from these. A log must have at
// least one line, because settle waits for it.
func settle(t *testing.T, m *model, cmd tea.Cmd) {
	t.Helper()
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			settle(t, m, c)
		}
	default:
		m.Update(msg)
	}
}

func aHistory(rounds int) NodeHistory {
	one := 1
	h := NodeHistory{HeldOut: []HeldOut{{0, 0.021}, {1, 0.02}, {50, 0.213}}, Events: []event.Event{
		{Type: event.TypeSpawn, Node: "node_3", Time: 1756719000, PID: 9},
		{Type: event.TypeExit, Node: "node_3", Time: 1756719002, Cause: event.CauseOutOfMemory, ExitCode: &one, Message: "CUDA out of memory"},
		{Type: event.TypeRestart, Node: "node_3", Time: 1756719002, Seconds: 2},
	}}
	for i := range rounds {
		h.Rewards = append(h.Rewards, 0.3-0.25*math.Exp(-float64(i)/40)+0.03*math.Sin(float64(i)))
	}
	if rounds > 60 {
		h.Rewards[50], h.Rewards[51] = math.NaN(), math.Inf(1)
	}
	return h
}

// shown returns a model of a run with logs and histories, polled once.
func shown(t *testing.T, nodes, width, height int) *model {
	t.Helper()
	status := aStatus(nodes)
	for i := range status.Nodes {
		n := &status.Nodes[i]
		n.BudgetBytes, n.ResidentBytes, n.TransientBytes, n.MicroBatch, n.Device = 3e9, 1.2e9, 0.9e9, 8, "cuda:0"
	}
	cfg := testConfig(status)
	cfg.History = func(context.Context, string) (NodeHistory, error) { return aHistory(120), nil }
	cfg.Logs = func(_ context.Context, node string, last int, emit func(LogLine)) error {
		for i := range min(last, 40) {
			emit(LogLine{"node_3", fmt.Sprintf("time=2025-09-01T09:30:%02d.000Z level=INFO msg=\"round done\" round=%d node=%s", i, i, node)})
		}
		return nil
	}
	m := newModel(t.Context(), cfg)
	for _, e := range someEvents() {
		m.cfg.Feed.Add(e)
	}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(m.poll())
	return m
}

// requireFits checks that a frame fits its terminal.
func requireFits(t *testing.T, m *model) {
	t.Helper()
	lines := strings.Split(m.View().Content, "\n")
	require.LessOrEqual(t, len(lines), m.height)
	for _, l := range lines {
		require.LessOrEqual(t, ansi.StringWidth(l), m.width, "%q", l)
	}
}

var everyPage = map[string][]string{
	"overview": nil, "node": {"down", "down", "down", "enter"}, "logs": {"l"}, "log": {"enter", "l"}, "events": {"e"}, "help": {"?"},
	"search": {"l", "/", "d", "o", "n", "e"}, "found": {"l", "/", "d", "o", "n", "e", "enter"}, "quit": {"q"},
}

func TestPages(t *testing.T) {
	for _, name := range []string{"node", "logs", "events", "help", "found", "quit"} {
		for _, size := range [][2]int{{80, 24}, {40, 12}, {200, 50}, {20, 6}} {
			width, height := size[0], size[1]
			t.Run(fmt.Sprintf("%s_%dx%d", name, width, height), func(t *testing.T) {
				m := shown(t, 24, width, height)
				m.cfg.Interrupt = func(bool) {}
				for _, k := range everyPage[name] {
					settle(t, m, press(m, k))
				}
				m.draw()
				requireFits(t, m)
				golden(t, fmt.Sprintf("page_%s_%dx%d.txt", name, width, height), ansi.Strip(m.frame)+"\n")
			})
		}
	}
}

// TestEverySizeFits draws terminals of unusual sizes.
func TestEverySizeFits(t *testing.T) {
	for name, keys := range everyPage {
		m := shown(t, 24, 80, 24)
		m.cfg.Interrupt = func(bool) {}
		m.cfg.Feed.Add(event.Event{Type: event.TypeWarning, Message: strings.Repeat("wide 漢字 ", 60)})
		for _, k := range keys {
			settle(t, m, press(m, k))
		}
		m.Update(statusMsg{err: errors.New("locked")})
		for width := 1; width < 160; width += 7 {
			for height := 1; height < 50; height += 3 {
				m.Update(tea.WindowSizeMsg{Width: width, Height: height})
				requireFits(t, m)
			}
		}
		require.NotEmpty(t, m.frame, name)
	}
}

func TestTheCursorStaysWithItsNode(t *testing.T) {
	m := shown(t, 1000, 80, 24)
	press(m, "end")
	require.Equal(t, "node_999", m.chosen())
	require.Contains(t, ansi.Strip(m.frame), "> node_999")
	press(m, "pgup", "up")
	chosen := m.chosen()
	require.Contains(t, ansi.Strip(m.frame), "> "+chosen)
	status := m.screen.status
	status.Nodes = append([]stats.NodeStatus{{ID: "node_new", State: "queued"}}, status.Nodes...)
	m.Update(statusMsg{status: status})
	require.Equal(t, chosen, m.chosen())
	status.Nodes = status.Nodes[:3]
	m.Update(statusMsg{status: status})
	require.Equal(t, "node_1", m.chosen(), "the last there is")
	press(m, "home")
	require.Equal(t, "node_new", m.chosen())
	requireFits(t, m)
}

func TestSearchInTheTable(t *testing.T) {
	m := shown(t, 24, 80, 24)
	press(m, "/")
	spell(m, "node_17")
	require.Contains(t, ansi.Strip(m.frame), "/node_17_")
	press(m, "enter")
	require.Equal(t, "node_17", m.chosen())
	press(m, "/")
	spell(m, "out of mem")
	press(m, "enter")
	require.Equal(t, "node_3", m.chosen())
	press(m, "/")
	spell(m, "nowhere")
	press(m, "enter")
	require.Contains(t, m.frame, "not found: nowhere")
	press(m, "esc")
	require.NotContains(t, m.frame, "not found")
	press(m, "/", "q", "esc")
	require.Equal(t, "node_3", m.chosen(), "a q that is typed is text")
}

func TestScrollingALog(t *testing.T) {
	m := shown(t, 2, 80, 24)
	press(m, "l")
	p := m.shown().(*pager)
	require.Contains(t, m.frame, "no lines yet")
	for i := range 100 {
		p.book.add(fmt.Sprint("line ", i))
	}
	m.draw()
	require.Contains(t, m.frame, "line 99")
	require.Contains(t, m.frame, "following")
	press(m, "pgup")
	require.NotContains(t, m.frame, "following")
	before := m.frame
	p.book.add("line 100")
	m.draw()
	require.Equal(t, strings.Replace(before, "of 100", "of 101", 1), m.frame, "what is read stays where it is")
	press(m, "G")
	require.Contains(t, m.frame, "line 100")
	press(m, "/")
	spell(m, "line 1")
	press(m, "enter", "g", "n", "n", "n")
	require.Equal(t, "line 11", p.book.read(p.top, p.top+1)[0])
	press(m, "N")
	require.Equal(t, "line 10", p.book.read(p.top, p.top+1)[0])
	press(m, "f")
	require.True(t, p.follow)
	p.book.add(strings.Repeat("a", 70) + strings.Repeat("b", 30))
	m.draw()
	require.NotContains(t, m.frame, strings.Repeat("b", 30))
	press(m, "right")
	require.Contains(t, m.frame, strings.Repeat("b", 30))
	press(m, "esc")
	require.Equal(t, []page{overview{}}, m.pages)
}

// Leaving a log's page stops its reader.
func TestLeavingALogStopsReadingIt(t *testing.T) {
	m := shown(t, 2, 80, 24)
	ended := make(chan error, 1)
	m.cfg.Logs = func(ctx context.Context, node string, _ int, emit func(LogLine)) error {
		emit(LogLine{"node_1", "it lives"})
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	for _, c := range press(m, "l")().(tea.BatchMsg) {
		go c()
	}
	require.Eventually(t, func() bool { m.draw(); return strings.Contains(m.frame, "node_1      | it lives") }, time.Minute, time.Millisecond)
	press(m, "esc")
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(10 * time.Second):
		t.Fatal("the log is still read")
	}
}

func TestLogsThatCannotBeRead(t *testing.T) {
	m := shown(t, 2, 80, 24)
	m.cfg.Logs = func(_ context.Context, _ string, _ int, emit func(LogLine)) error {
		emit(LogLine{"node_0", "the last line that could be read"})
		return errors.New("permission\ndenied \x1b[31m")
	}
	m.cfg.History = func(context.Context, string) (NodeHistory, error) { return NodeHistory{}, errors.New("locked") }
	settle(t, m, press(m, "enter"))
	require.Contains(t, m.frame, "log: permission denied")
	require.Contains(t, m.frame, "no news: locked")
	settle(t, m, press(m, "l"))
	require.Contains(t, m.frame, "permission denied")
	requireFits(t, m)
}

func TestHeldOutRewards(t *testing.T) {
	for want, rewards := range map[string][]HeldOut{
		"":                             nil,
		"held-out 0.021 untrained":     {{0, 0.021}},
		"held-out 0.250 after 1 round": {{1, 0.25}},
		"held-out 0.300 after 50 rounds, 0.021 untrained": {{0, 0.021}, {25, 0.2}, {50, 0.3}},
	} {
		require.Equal(t, want, heldOut(rewards))
	}
}

func TestLogLinesAreMadeBrief(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	for line, want := range map[string]string{
		`time=2025-09-01T09:30:01.234Z level=WARN msg="round done" round=12`: `11:30:01 WARN "round done" round=12`,
		"time=2025-09-01T09:30:01Z odd":                                      "11:30:01 odd",
		"time=soon level=INFO msg=x":                                         "time=soon level=INFO msg=x",
		"Traceback (most recent call last):":                                 "Traceback (most recent call last):",
		"time=2025-09-01T09:30:01Z":                                          "11:30:01 ",
	} {
		require.Equal(t, want, brief(line, zone))
	}
}

func TestANodesPageGoesToItsNeighbours(t *testing.T) {
	m := shown(t, 3, 80, 24)
	settle(t, m, press(m, "enter"))
	first := m.shown().(*nodePage)
	require.Contains(t, m.frame, "node_0")
	press(m, "left")
	require.Same(t, first, m.shown(), "there is none before it")
	settle(t, m, press(m, "right"))
	require.Equal(t, "node_1", m.shown().(*nodePage).id)
	require.Error(t, first.ctx.Err(), "the first one's log is read no more")
	require.Len(t, m.pages, 2)
	m.Update(historyMsg{page: first, history: aHistory(10)})
	require.Len(t, m.shown().(*nodePage).history.Rewards, 120, "an answer that comes late is another page's")
	status := m.screen.status
	status.Nodes = status.Nodes[:1]
	m.Update(statusMsg{status: status})
	require.Contains(t, m.frame, "no longer has this node")
	press(m, "esc")
	require.Equal(t, "node_0", m.chosen())
}

// The live view shows the dashboard's URL, because it hides the line that up printed before.
func TestTheFirstPageSaysWhereTheDashboardIs(t *testing.T) {
	for _, page := range []string{"http://127.0.0.1:8420/", ""} {
		m := newModel(t.Context(), Config{Page: page, Feed: NewFeed(), Poll: func(context.Context) (stats.Status, error) { return aStatus(2), nil }})
		m.width, m.height = 100, 30
		m.Update(m.poll())
		require.Equal(t, page != "", strings.Contains(ansi.Strip(m.frame), "dashboard http://127.0.0.1:8420/"))
	}
}
