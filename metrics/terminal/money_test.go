package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// aResumed returns a run with a price that was resumed twice. Nodes are still reapplying logged updates.
func aResumed() stats.Status {
	x := aStatus(4)
	x.Attempts, x.ActiveSeconds, x.ReplayedRounds = 3, 11440, 5
	x.PricePerHour, x.PriceCurrency, x.Cost, x.ProjectedCost = f(1.29), "$", f(4.0993), f(27.4)
	x.Nodes[1].State, x.Nodes[1].WorkingRound = string(event.StateReplaying), 8
	x.Nodes[2].State, x.Nodes[2].WorkingRound, x.Nodes[2].Round = string(event.StateReplaying), 811, 830
	return x
}

func TestResumedRunWithAPrice(t *testing.T) {
	m := newModel(t.Context(), testConfig(aResumed()))
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 24})
	m.Update(m.poll())
	golden(t, "view_resumed.txt", ansi.Strip(m.View().Content)+"\n")

	var out bytes.Buffer
	p := plain{location: time.UTC}
	now := time.Unix(1756719000, 0)
	out.WriteString(p.step(aResumed(), nil, nil, now, false))
	x := aResumed()
	x.Round++
	out.WriteString(p.step(x, nil, nil, now.Add(time.Minute), false))
	x.State, x.Round, x.ETASeconds, x.ProjectedCost, x.Cost = "done", 40, nil, nil, f(27.31)
	out.WriteString(p.step(x, nil, nil, now.Add(2*time.Minute), true))
	golden(t, "plain_resumed.txt", out.String())

	out.Reset()
	x.ElapsedSeconds, x.LastSeen = x.ActiveSeconds, x.Started+16400
	require.NoError(t, Summary(&out, stats.Summary{Status: x}, Place{}))
	golden(t, "summary_resumed.txt", out.String())
}

func TestReplayIsTold(t *testing.T) {
	e := event.Event{Type: event.TypeLoaded, Node: "node_1", Loaded: &event.Loaded{ReplayedRounds: 3, ReplaySeconds: 1.24}}
	require.Equal(t, "node_1 replayed 3 updates of its journal in 1.2 s", wording.Event(e))
	e.Loaded.ReplayedRounds = 0
	require.Empty(t, wording.Event(e))
}

func TestNoPriceIsNoCost(t *testing.T) {
	require.Empty(t, costLine(aStatus(2)), "no price, no cost")
	require.False(t, strings.Contains(progressLine(aStatus(2)), "$"))
}
