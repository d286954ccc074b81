package coordinator

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/alarm"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// normOf is a round with a norm. From round 100 on the share of groups with an advantage is a fifth higher.
func normOf(node string, round int, norm float64) event.Event {
	flat := 0.6
	if round >= 100 {
		flat = 0.52
	}
	return event.Event{Type: event.TypeRound, Run: "e-1", Node: node, Time: float64(1000 + round), Round: &event.Round{Round: round, GradNorm: norm, FracRewardZeroStd: flat, TrainedOwn: 4}}
}

// grows doubles after 100 rounds. With normOf, the alarm is raised in round 117: 18 of 20 rounds are 1.9 times the
// norm, and 1.18 times the share.
func grows(round int) float64 {
	if round < 100 {
		return 1
	}
	return 2
}

// reportRounds has a watch see rounds of nodes, in an order in which they may come, each once more at some later time.
func reportRounds(w *alarmWatch, nodes []string, from, to int, draw *rand.Rand) (raised []int) {
	next := map[string]int{}
	left := len(nodes)
	for _, n := range nodes {
		next[n] = from
	}
	for left > 0 {
		node := nodes[draw.IntN(len(nodes))]
		if next[node] == to {
			continue
		}
		for _, round := range []int{next[node], from + draw.IntN(next[node]-from+1)} {
			for _, g := range w.see(normOf(node, round, grows(round))) {
				raised = append(raised, g.Round)
			}
		}
		if next[node]++; next[node] == to {
			left--
		}
	}
	return raised
}

func TestAnAlarmDoesNotDependOnTheOrderOfReports(t *testing.T) {
	t.Parallel()
	nodes := []string{"node_0", "node_1", "node_2"}
	for seed := range uint64(20) {
		w := newAlarmWatch(nodes, alarm.Rule{})
		require.Equal(t, []int{117}, reportRounds(w, nodes, 0, 200, rand.New(rand.NewPCG(seed, 1))))
		require.Equal(t, 200, w.judged())
		require.Empty(t, w.own().waiting, "what is judged is forgotten")
	}
}

// With on_alarm stop a run is warned first.
func TestAnAlarmWarnsBeforeItStops(t *testing.T) {
	t.Parallel()
	w := newAlarmWatch([]string{"node_0"}, alarm.Rule{}, alarm.Rule{Factor: alarm.StopFactor})
	var raised []growth
	for round := range 200 {
		norm := 1.0
		if round >= 100 {
			norm = 3
		}
		raised = append(raised, w.see(normOf("node_0", round, norm))...)
	}
	require.Len(t, raised, 2)
	require.Equal(t, []any{107, false, 116, true}, []any{raised[0].Round, raised[0].stops, raised[1].Round, raised[1].stops})
}

// Where most questions had no advantage at first, the norm may grow with those that have one.
func TestAnAlarmExpectsGrowthFromMoreGroups(t *testing.T) {
	t.Parallel()
	reported := func(round int, zero, norm float64) event.Event {
		e := normOf("node_0", round, norm)
		e.Round.FracRewardZeroStd = zero
		return e
	}
	w := newAlarmWatch([]string{"node_0"}, alarm.Rule{})
	var raised []growth
	for round := range 300 {
		zero, norm := 0.75, 0.5
		if round >= 100 {
			zero, norm = 0.25, 1.5
		}
		if round >= 200 {
			norm = 3
		}
		raised = append(raised, w.see(reported(round, zero, norm))...)
	}
	require.Equal(t, []growth{{Growth: alarm.Growth{Round: 212, Recent: (7*1.5 + 13*3) / 20, Reference: 0.5, Expected: 3}}}, raised)
}

// A round waits for every node that takes part, and for no other.
func TestAnAlarmWaitsForTheNodesThatAreThere(t *testing.T) {
	t.Parallel()
	w := newAlarmWatch([]string{"node_0", "node_1"}, alarm.Rule{})
	for round := range 150 {
		require.Empty(t, w.see(normOf("node_0", round, grows(round))))
	}
	require.Zero(t, w.judged(), "node_1 has done none")
	raised := w.see(event.Event{Type: event.TypeGiveUp, Node: "node_1"})
	require.Len(t, raised, 1)
	require.Equal(t, 117, raised[0].Round)

	only := newAlarmWatch([]string{"node_0"}, alarm.Rule{})
	for round := range 150 {
		e := normOf("node_0", round, 1)
		e.Round.GenerateOnly = true
		require.Empty(t, only.see(e))
	}
	require.Equal(t, 150, only.judged(), "rounds without a gradient are judged, too")
}

// workersEvent is an event of a worker's node, whose name begins with the worker's.
func workersEvent(what event.Type, node string, from int) event.Event {
	worker, _, _ := strings.Cut(node, "_")
	return event.Event{Type: what, Run: "e-1", Node: node, Worker: worker, Time: 1, RoundIndex: from}
}

// delivered are rounds of a worker's node with norms.
func delivered(node string, from, to int, norm func(round int) float64) (list []event.Event) {
	for round := from; round < to; round++ {
		e := workersEvent(event.TypeRound, node, 0)
		e.Round = &event.Round{Round: round, GradNorm: norm(round), FracRewardZeroStd: 0.5, TrainedOwn: 4}
		list = append(list, e)
	}
	return list
}

// seeAll returns the rounds in which a watch raises alarms at events.
func seeAll(w *alarmWatch, events ...event.Event) (rounds []int) {
	for _, e := range events {
		for _, g := range w.see(e) {
			rounds = append(rounds, g.Round)
		}
	}
	return rounds
}

func always(norm float64) func(int) float64 { return func(int) float64 { return norm } }

// lies are what a worker may report and leave out so that others' alarm is raised, or is not.
var lies = map[string][]event.Event{
	"nothing":                    nil,
	"a few rounds":               delivered("eve_0", 2, 10, always(1)),
	"growth in rounds to come":   append(delivered("eve_0", 20, 60, always(1)), delivered("eve_0", 60, 120, always(1e12))...),
	"huge norms at first":        delivered("eve_0", 20, 60, always(1e12)),
	"no gradient, then growth":   append(delivered("eve_0", 20, 60, always(1e-12)), delivered("eve_0", 60, 200, always(1))...),
	"that it has left the swarm": {workersEvent(event.TypeGiveUp, "eve_0", 0)},
}

// If this host has nodes, a worker neither raises the alarm nor prevents it.
func TestAWorkerMovesNoAlarmOfOwnNodes(t *testing.T) {
	t.Parallel()
	for name, lie := range lies {
		for _, grown := range []bool{false, true} {
			w := newAlarmWatch([]string{"node_0"}, alarm.Rule{})
			require.Empty(t, seeAll(w, append([]event.Event{workersEvent(event.TypeJoin, "eve_0", 2)}, lie...)...))
			var raised []int
			for round := range 200 {
				norm := 1.0
				if grown {
					norm = grows(round)
				}
				raised = append(raised, seeAll(w, normOf("node_0", round, norm))...)
			}
			if grown {
				require.Equal(t, []int{117}, raised, name)
			} else {
				require.Empty(t, raised, name)
			}
			require.Equal(t, 200, w.judged(), name)
		}
	}
}

// If this host has none, one of three workers neither raises the alarm nor prevents it, and none waits for another.
func TestOneWorkerMovesNoAlarmOfOthers(t *testing.T) {
	t.Parallel()
	for name, lie := range lies {
		for _, grown := range []bool{false, true} {
			w := newAlarmWatch(nil, alarm.Rule{})
			for _, node := range []string{"anna_0", "anna_1", "ben_0", "eve_0"} {
				w.see(workersEvent(event.TypeJoin, node, 2))
			}
			require.Empty(t, seeAll(w, lie...), name)
			norm := always(1)
			if grown {
				norm = grows
			}
			require.Empty(t, seeAll(w, delivered("anna_0", 2, 200, norm)...), "%s: anna_1 has done none", name)
			raised := seeAll(w, append(delivered("anna_1", 2, 200, norm), delivered("ben_0", 2, 200, norm)...)...)
			if grown {
				require.Equal(t, []int{112}, raised, name)
			} else {
				require.Empty(t, raised, name)
			}
		}
	}
}

// A worker that comes late is judged by its own first rounds. One that only generates does not count, nor does one that
// is away.
func TestTheAlarmOfWorkers(t *testing.T) {
	t.Parallel()
	late := func(round int) float64 { return grows(round - 300) }
	w := newAlarmWatch(nil, alarm.Rule{}, alarm.Rule{Factor: alarm.StopFactor})
	w.see(workersEvent(event.TypeJoin, "anna_0", 300))
	w.see(workersEvent(event.TypeJoin, "ben_0", 300))
	require.Empty(t, seeAll(w, delivered("anna_0", 0, 300, always(1e12))...), "of rounds before it joined")
	require.Empty(t, seeAll(w, delivered("anna_0", 300, 450, late)...), "one of two")
	require.Empty(t, seeAll(w, workersEvent(event.TypeLeave, "ben_0", 0)))
	require.Equal(t, []int{450}, seeAll(w, delivered("anna_0", 450, 500, late)...), "ben is away")
	require.Empty(t, seeAll(w, workersEvent(event.TypeJoin, "ben_0", 300)))
	require.Empty(t, seeAll(w, delivered("ben_0", 300, 500, late)...), "it was raised")

	w = newAlarmWatch(nil, alarm.Rule{}, alarm.Rule{Factor: alarm.StopFactor})
	for _, node := range []string{"anna_0", "ben_0", "carl_0"} {
		w.see(workersEvent(event.TypeJoin, node, 0))
	}
	for _, e := range append(delivered("ben_0", 0, 2, always(0)), delivered("carl_0", 0, 2, always(0))...) {
		e.Round.GenerateOnly = true
		w.see(e)
	}
	raised := []growth{}
	for _, e := range delivered("anna_0", 0, 200, func(round int) float64 { return 2*grows(round) - 1 }) {
		raised = append(raised, w.see(e)...)
	}
	require.Len(t, raised, 2)
	require.Equal(t, []any{106, false, 112, true}, []any{raised[0].Round, raised[0].stops, raised[1].Round, raised[1].stops})
	require.Empty(t, seeAll(w, delivered("anna_0", 200, 300, always(1))...))
	require.Equal(t, []int{306}, seeAll(w, delivered("anna_0", 300, 310, always(3))...), "it had ended")
}

// An alarm of workers is raised once, also if the coordinator is killed, and in whatever order they come back.
func TestAnAlarmOfWorkersThatGoOn(t *testing.T) {
	t.Parallel()
	nodes := []string{"anna_0", "ben_0", "carl_0"}
	for _, recorded := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "swarm.db")
		s, err := store.Open(t.Context(), path, store.Options{})
		require.NoError(t, err)
		defer s.Close()
		run := store.Run{Run: "e-1", Experiment: "e", Rounds: 300, Started: 1}
		require.NoError(t, s.StartRun(t.Context(), run))
		norms := map[string]func(int) float64{"anna_0": grows, "ben_0": grows, "carl_0": always(1)}
		for _, n := range nodes {
			require.NoError(t, s.Record(t.Context(), workersEvent(event.TypeJoin, n, 2)))
			for _, e := range delivered(n, 2, 150, norms[n]) {
				require.NoError(t, s.Record(t.Context(), e))
			}
		}
		if recorded {
			require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeAlarm, Run: "e-1", Time: 2,
				Alarm: &event.Alarm{Round: 112, Recent: 1.65, Reference: 1, ExpectedGrowth: 1, Action: event.AlarmWarn}}))
		}
		require.NoError(t, s.Flush(t.Context()))
		run.Started = 3
		require.NoError(t, s.StartRun(t.Context(), run))
		reader, err := store.OpenReader(t.Context(), path)
		require.NoError(t, err)
		defer reader.Close()

		w := newAlarmWatch(nil, alarm.Rule{})
		missed, _, err := w.restore(t.Context(), reader, "e-1")
		require.NoError(t, err)
		require.Nil(t, missed)
		var raised []int
		for _, n := range []string{"carl_0", "ben_0", "anna_0"} {
			raised = append(raised, seeAll(w, workersEvent(event.TypeJoin, n, 2))...)
			raised = append(raised, seeAll(w, delivered(n, 100, 200, norms[n])...)...)
		}
		if recorded {
			require.Empty(t, raised)
		} else {
			require.Equal(t, []int{150}, raised, "two of three")
		}
	}
}

// A run that goes on after its coordinator was killed raises the alarm in the same round, and raises none twice.
func TestAnAlarmOfARunThatGoesOn(t *testing.T) {
	t.Parallel()
	nodes := []string{"node_0", "node_1"}
	var whole *growth // as a run that was never killed raises it
	live := newAlarmWatch(nodes, alarm.Rule{})
	for round := range 200 {
		for _, n := range nodes {
			for _, g := range live.see(normOf(n, round, grows(round))) {
				require.Nil(t, whole)
				whole = &g
			}
		}
	}
	require.InDelta(t, 1.18, whole.Expected, 1e-12)
	for _, at := range []int{0, 1, 50, 79, 117, 118, 119, 130} {
		path := filepath.Join(t.TempDir(), fmt.Sprint(at, ".db"))
		s, err := store.Open(t.Context(), path, store.Options{})
		require.NoError(t, err)
		defer s.Close()
		require.NoError(t, s.StartRun(t.Context(), store.Run{Run: "e-1", Experiment: "e", Rounds: 200, NodeIDs: nodes, Started: 1}))
		for round := range at {
			for i, n := range nodes {
				if i == 0 || round < at-2 { // node_1 is two rounds behind
					require.NoError(t, s.Record(t.Context(), normOf(n, round, grows(round))))
				}
			}
		}
		require.NoError(t, s.Flush(t.Context()))
		reader, err := store.OpenReader(t.Context(), path)
		require.NoError(t, err)
		defer reader.Close()

		restored := func() (*alarmWatch, *growth) {
			w := newAlarmWatch(nodes, alarm.Rule{})
			g, _, err := w.restore(t.Context(), reader, "e-1")
			require.NoError(t, err)
			return w, g
		}
		w, missed := restored()
		require.Equal(t, max(0, at-2), w.judged())
		raised := reportRounds(w, nodes, max(0, at-4), 200, rand.New(rand.NewPCG(uint64(at), 2)))
		if at-2 <= 117 {
			require.Nil(t, missed, "at %d", at)
			require.Equal(t, []int{117}, raised, "at %d", at)
			continue
		}
		require.Empty(t, raised)
		require.Equal(t, whole, missed, "every digit")
		require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeAlarm, Run: "e-1", Time: 2000,
			Alarm: &event.Alarm{Round: missed.Round, Recent: missed.Recent, Reference: missed.Reference, ExpectedGrowth: missed.Expected, Action: event.AlarmWarn}}))
		require.NoError(t, s.Flush(t.Context()))
		_, again := restored()
		require.Nil(t, again, "it is recorded")
	}
}

// An older program raised its alarms without the expected growth. This one judges its runs as it did, so that none is
// raised once more, some rounds later.
func TestAnAlarmOfAnOlderProgramIsNotRepeated(t *testing.T) {
	t.Parallel()
	nodes := []string{"node_0"}
	path := filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.StartRun(t.Context(), store.Run{Run: "e-1", Experiment: "e", Rounds: 200, NodeIDs: nodes, Started: 1}))
	for round := range 130 {
		require.NoError(t, s.Record(t.Context(), normOf("node_0", round, grows(round))))
	}
	require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeAlarm, Run: "e-1", Time: 2000,
		Alarm: &event.Alarm{Round: 112, Recent: 1.65, Reference: 1, Action: event.AlarmWarn}}))
	require.NoError(t, s.Flush(t.Context()))
	reader, err := store.OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer reader.Close()
	w := newAlarmWatch(nodes, alarm.Rule{}, alarm.Rule{Factor: alarm.StopFactor})
	raised, recorded, err := w.restore(t.Context(), reader, "e-1")
	require.NoError(t, err)
	require.Len(t, recorded, 1)
	require.Nil(t, raised)
	require.Empty(t, reportRounds(w, nodes, 130, 200, rand.New(rand.NewPCG(1, 2))))
}

// A KL penalty gives all groups a gradient, and others' groups may be flat where nothing filters them.
func TestAlarmRuleOfAConfiguration(t *testing.T) {
	t.Parallel()
	c := configs.Default()
	require.Equal(t, alarm.Rule{}, AlarmRule(c))
	c.Beta, c.ZeroAdvantageFilter = 0.04, false
	require.Equal(t, alarm.Rule{AllActive: true, Unfiltered: true}, AlarmRule(c))
}

func TestAlarmAdviceFitsTheRun(t *testing.T) {
	t.Parallel()
	p := plan.Planned{Config: configs.Default()}
	c := &p.Config
	require.NotContains(t, alarmAdvice(p, "e-1"), "external-correction", "nothing comes from others")
	c.NumTransplantTrees, c.ExternalCorrection = 4, configs.CorrectionNone
	require.Contains(t, alarmAdvice(p, "e-1"), "--external-correction importance")
	c.ExternalCorrection = configs.CorrectionTapered
	require.Equal(t, "a new run with a lower --learning-rate, and with --validation-questions 36, which keeps the best weights", alarmAdvice(p, "e-1"))
	c.ValidationQuestions = 36
	require.Equal(t, "a new run with a lower --learning-rate, or swarm model save e-1 DIR --best for its best weights", alarmAdvice(p, "e-1"))
	p.Trainer.Command = "train"
	require.Equal(t, "a new run with a lower --learning-rate", alarmAdvice(p, "e-1"), "the trainer's weights are its own")
}
