package terminal

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// hostile is text with control sequences that a model could write to take over the terminal.
const hostile = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b2J\u009b2J\r\n\ttab\u202eevil\u2028x\x00漢字\x1bPq\x1b\\end\xff"

// styling matches the sequences that our own styles write.
var styling = regexp.MustCompile("\x1b\\[[0-9;]*m")

func requireHarmless(t require.TestingT, text string) {
	text = styling.ReplaceAllString(text, "")
	for _, r := range text {
		require.True(t, r == '\n' || !unicode.IsControl(r) && !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp), "%q in %q", r, text)
	}
}

func hostileStatus() stats.Status {
	s := aStatus(4)
	s.Experiment, s.Run, s.Model, s.Device, s.Message = hostile, hostile, hostile, hostile, hostile
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.ID, n.Device, n.Cause, n.Message = hostile, hostile, hostile, hostile
	}
	return s
}

func TestHostileTextNeverReachesTheTerminal(t *testing.T) {
	for name, keys := range everyPage {
		cfg := testConfig(hostileStatus())
		cfg.Logs = func(_ context.Context, _ string, _ int, emit func(LogLine)) error {
			emit(LogLine{hostile, hostile})
			return nil
		}
		cfg.History = func(context.Context, string) (NodeHistory, error) {
			return NodeHistory{Events: []event.Event{{Type: event.TypeFailure, Node: hostile, Cause: hostile, Message: hostile}}}, nil
		}
		cfg.Feed.Add(event.Event{Type: event.TypeWarning, Node: hostile, Message: hostile})
		step := event.MemoryStep{Phase: hostile, Action: hostile, Cause: hostile}
		cfg.Feed.Add(event.Event{Type: event.TypeMemoryStep, Node: hostile, MemoryStep: &step})
		m := newModel(t.Context(), cfg)
		m.Update(tea.WindowSizeMsg{Width: 160, Height: 40})
		m.Update(m.poll())
		for _, k := range keys {
			settle(t, m, press(m, k))
		}
		m.draw()
		require.Contains(t, name+ansi.Strip(m.frame), name)
		requireHarmless(t, m.frame)
		requireFits(t, m)
	}
	var out bytes.Buffer
	p := table.NewPage(&out, table.Screen{})
	PrintStatus(p, hostileStatus())
	require.NoError(t, Summary(&out, stats.Summary{Status: hostileStatus()}, Place{}))
	PrintGPUs(p, GPUStatus{
		Driver: hostile, Reason: hostile, Warnings: []string{hostile}, Recommendations: []string{hostile},
		Devices: []GPUDevice{{Label: hostile, Name: hostile}, {Problem: hostile}}, Nodes: []GPUNode{{Run: hostile, Node: hostile, State: hostile}},
	})
	require.NoError(t, p.Flush())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := testConfig(hostileStatus())
	cfg.Out = &out
	cfg.Feed.Add(event.Event{Type: event.TypeWarning, Node: hostile, Message: hostile})
	require.NoError(t, Plain(ctx, cfg))
	require.NotContains(t, out.String(), "\x1b")
	requireHarmless(t, out.String())
}

func TestOtherCharacterSets(t *testing.T) {
	for _, keys := range everyPage {
		m := shown(t, 24, 80, 24)
		m.ascii = true
		m.cfg.Feed.Add(event.Event{Type: event.TypeWarning, Message: "漢字 and ü"})
		m.Update(m.poll())
		for _, k := range keys {
			settle(t, m, press(m, k))
		}
		m.draw()
		requireFits(t, m)
		for _, r := range m.frame {
			require.Less(t, r, rune(0x80), "%q", r)
		}
	}
}

func TestCapableTerminals(t *testing.T) {
	for environ, capable := range map[string]bool{"TERM=dumb": false, "TERM=xterm-256color": true, "TERM=dumb TERM=xterm": true, "": true} {
		require.Equal(t, capable, Capable(strings.Fields(environ)), environ)
	}
}

func TestSearchesFoldSmallLettersOnly(t *testing.T) {
	for _, x := range []struct {
		text, query string
		at          int
	}{
		{"CUDA out", "cuda", 0}, {"cuda", "CUDA", -1}, {"a CUDA", "CUDA", 2}, {"", "x", -1}, {"x", "", -1}, {"grün GRÜN", "grün", 0}, {"İx", "x", 2},
	} {
		require.Equal(t, x.at, index(x.text, x.query), x)
	}
	require.Equal(t, "<a>b<A>", mark("abA", "a", func(s ...string) string { return "<" + s[0] + ">" }))
}

func TestPollsAreBoundedByTheirCost(t *testing.T) {
	require.Equal(t, 500*time.Millisecond, pause(500*time.Millisecond, 2*time.Millisecond))
	require.Equal(t, 2900*time.Millisecond, pause(500*time.Millisecond, 100*time.Millisecond))
	require.Equal(t, 10*time.Second, pause(500*time.Millisecond, time.Minute))
	require.Equal(t, time.Minute, pause(time.Minute, time.Minute))
}
