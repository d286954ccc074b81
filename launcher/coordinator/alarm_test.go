package coordinator

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
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
		require.Equal(t, 200, w.alarm.Rounds())
		require.Empty(t, w.waiting, "what is judged is forgotten")
	}
}

// With on_alarm stop a run is warned first.
func TestAnAlarmWarnsBeforeItStops(t *testing.T) {
	t.Parallel()
	w := newAlarmWatch([]string{"node_0"}, alarm.Rule{})
	w.stop = &alarm.Collapse{Rule: alarm.Rule{Factor: alarm.StopFactor}}
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
	require.Zero(t, w.alarm.Rounds(), "node_1 has done none")
	raised := w.see(event.Event{Type: event.TypeGiveUp, Node: "node_1"})
	require.Len(t, raised, 1)
	require.Equal(t, 117, raised[0].Round)

	w.see(event.Event{Type: event.TypeJoin, Node: "anna_0", Worker: "anna", RoundIndex: 150})
	w.see(normOf("node_0", 150, 2))
	require.Equal(t, 150, w.alarm.Rounds(), "anna_0 is waited for from its first round on")
	w.see(normOf("anna_0", 150, 2))
	require.Equal(t, 151, w.alarm.Rounds())
	w.see(normOf("node_0", 151, 2))
	w.see(event.Event{Type: event.TypeLeave, Node: "anna_0", Worker: "anna"})
	require.Equal(t, 152, w.alarm.Rounds(), "it is away")
	w.see(event.Event{Type: event.TypeJoin, Node: "anna_0", Worker: "anna", RoundIndex: 150})
	w.see(normOf("node_0", 152, 2))
	require.Equal(t, 152, w.alarm.Rounds(), "it is back")

	only := newAlarmWatch(nil, alarm.Rule{})
	for round := range 150 {
		only.see(event.Event{Type: event.TypeJoin, Node: "anna_0", Worker: "anna"})
		e := normOf("anna_0", round, 1)
		e.Round.GenerateOnly = true
		require.Empty(t, only.see(e))
	}
	require.Equal(t, 150, only.alarm.Rounds(), "rounds without a gradient are judged, too")
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
		require.Equal(t, max(0, at-2), w.alarm.Rounds())
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
	w := newAlarmWatch(nodes, alarm.Rule{})
	w.stop = &alarm.Collapse{Rule: alarm.Rule{Factor: alarm.StopFactor}}
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
