package terminal

import (
	"context"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// sharedStatus is a run of four local nodes and two nodes of other hosts. One of the latter is away.
func sharedStatus() stats.Status {
	s := aStatus(6)
	s.Workers, s.WorkersConnected, s.NodesAlive, s.NodesPlanned = 2, 1, 5, 6
	there, away := &s.Nodes[4], &s.Nodes[5]
	there.ID, there.Worker, there.PID, there.From, there.GenerateOnly = "anna_0", "anna", 0, 7, true
	away.ID, away.Worker, away.PID, away.State, away.From = "bob_0", "bob", 0, string(event.StateAway), 9
	return s
}

func TestFramesOfASharedRun(t *testing.T) {
	for name, size := range map[string][2]int{"shared_120": {120, 24}, "shared_80": {80, 24}, "shared_40x12": {40, 12}} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t.Context(), testConfig(sharedStatus()))
			for _, e := range []event.Event{
				{Type: event.TypeWorker, Worker: "anna", State: event.WorkerConnected, Time: 1756719001},
				{Type: event.TypeJoin, Node: "anna_0", Worker: "anna", RoundIndex: 7, Message: "gpt2 on cpu", Time: 1756719001},
				{Type: event.TypeLeave, Node: "bob_0", Worker: "bob", Message: "silent for 15s", Time: 1756719002},
				{Type: event.TypeLeave, Node: "bob_0", Worker: "bob", Cause: "banned", Message: "wrong keys", Time: 1756719003},
			} {
				m.cfg.Feed.Add(e)
			}
			m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			m.Update(m.poll())
			frame := ansi.Strip(m.View().Content)
			for _, l := range strings.Split(frame, "\n") {
				require.LessOrEqual(t, ansi.StringWidth(l), size[0], l)
			}
			golden(t, name+".txt", frame+"\n")
		})
	}
}

func TestANodePageTellsWhoseTheNodeIs(t *testing.T) {
	s := sharedStatus()
	lines := ansi.Strip(strings.Join((&nodePage{}).facts(newStyles(false), s, s.Nodes[4], 100), "\n"))
	require.Contains(t, lines, "of worker anna")
	require.Contains(t, lines, "from round 7 · generates only")
	require.NotContains(t, lines, "no process")
}

func TestASummaryCountsOnlyThoseWhoGaveUp(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Summary(&b, stats.Summary{Status: sharedStatus()}, Place{}))
	require.NotContains(t, b.String(), "given up", "who is away has not")
	require.Contains(t, b.String(), "1/2 workers")
	require.Contains(t, b.String(), "WORKER")
}

// After a run is over, nodes that have left count as participants.
func TestARunThatIsOverCountsWhoTookPart(t *testing.T) {
	s := sharedStatus()
	require.Contains(t, progressLine(s), "5/6 nodes · 1/2 workers")
	for _, end := range []func(*stats.Status){
		func(s *stats.Status) { s.State = "done" },
		func(s *stats.Status) { s.Round = s.Rounds }, // its workers leave before it ends
	} {
		x := s
		end(&x)
		for _, line := range []string{progressLine(x), paceLine(x)} {
			require.Contains(t, line, "6 nodes · 2 workers")
			require.NotContains(t, line, "nodes/")
		}
	}
}

// The live view shows how to join until a worker joins, because it hides what was printed before.
func TestTheLiveViewSaysHowToJoinUntilSomebodyHas(t *testing.T) {
	for _, workers := range []int{0, 1} {
		config := testConfig(aStatus(2))
		config.Join = "swarm workers invite"
		config.Poll = func(context.Context) (stats.Status, error) {
			s := aStatus(2)
			s.Workers = workers
			return s, nil
		}
		m := newModel(t.Context(), config)
		m.Update(tea.WindowSizeMsg{Width: 100, Height: 24})
		m.Update(m.poll())
		require.Equal(t, workers == 0, strings.Contains(ansi.Strip(m.View().Content), "others can join: swarm workers invite"))
	}
}

func TestAReturnIsNoSecondJoin(t *testing.T) {
	e := event.Event{Type: event.TypeJoin, Node: "anna_0", Worker: "anna", RoundIndex: 7}
	require.Equal(t, "anna_0 is back", wording.Event(e))
	e.Message = "gpt2 on cpu"
	require.Equal(t, "anna_0 joins at round 7: gpt2 on cpu", wording.Event(e))
}
