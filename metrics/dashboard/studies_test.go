package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// studied returns the options of a study of these experiments, the first of which is the baseline. The second over the
// first is planned.
func studied(name, measure, question string, experiments ...string) stats.CompareOptions {
	d := &stats.StudyDesign{Name: name, Model: "nano", Question: question, Seeds: 5, Contrasts: [][2]string{{experiments[1], experiments[0]}}}
	for _, e := range experiments {
		d.Arms = append(d.Arms, stats.StudyArm{Name: e, Experiment: e})
	}
	return stats.CompareOptions{Study: d, Measure: measure}
}

// studies returns those of the studies to which runs belong.
func studies(all ...stats.CompareOptions) Studies {
	return func(runs []store.Run) ([]stats.CompareOptions, error) {
		return slices.DeleteFunc(slices.Clone(all), func(o stats.CompareOptions) bool {
			return !slices.ContainsFunc(runs, func(r store.Run) bool { return slices.Contains(o.Study.Experiments(), r.Experiment) })
		}), nil
	}
}

// evaluated records a finished run of one node, of whose 100 held-out answers some are right.
func (s *swarm) evaluated(experiment string, seed int64, right int) {
	s.t.Helper()
	run := fmt.Sprintf("%s-%d", experiment, seed)
	require.NoError(s.t, s.store.StartRun(s.t.Context(), store.Run{Run: run, Experiment: experiment, Model: "nano", Device: "cpu", Seed: seed, Rounds: 2,
		NumTrainSamples: 8, NumGenerations: 8, Started: event.Now(), Host: "here", PID: 1, NodeIDs: []string{"node_0"}}))
	for round := range 2 {
		s.record(run, event.Event{Type: event.TypeRound, Node: "node_0", Round: &event.Round{Round: round, Reward: 0.1, Completions: 64}})
	}
	for round, n := range map[int]int{0: 1, 2: right} {
		s.record(run, event.Event{Type: event.TypeEval, Node: "node_0", Eval: &event.Eval{Round: round, Set: "s", Generations: 100,
			Questions: []event.EvalQuestion{{Task: "bf", Correct: n, RewardSum: float64(n)}}}})
	}
	s.record(run, event.Event{Type: event.TypeRunEnded, State: store.RunDone})
	require.NoError(s.t, s.store.Flush(s.t.Context()))
}

func TestTheVerdictOfAStudyIsThatOfCompare(t *testing.T) {
	sharing, reward := studied("sharing", stats.MeasurePass, "Does it help?", "base", "x"), studied("pay", stats.MeasureReward, "", "base", "y")
	s := newSwarm(t, func(o *Options) { o.Studies = studies(sharing, reward) })
	s.open()
	for seed := range int64(5) {
		s.evaluated("base", seed, 10+int(seed))
		s.evaluated("x", seed, 30+int(seed))
	}
	doc := s.json("/api/studies")
	require.Equal(t, []any{map[string]any{"name": "sharing", "model": "nano"}, map[string]any{"name": "pay", "model": "nano"}}, doc["studies"])
	reader, err := store.OpenReader(t.Context(), s.path)
	require.NoError(t, err)
	defer reader.Close()
	for path, per := range map[string]string{"/api/studies": "", "/api/studies?study=sharing&model=nano&per=completions": "completions"} {
		o := query.CompareOptions{CompareOptions: sharing}
		o.Per, o.Bootstrap, o.Questions = per, true, true
		c, err := query.Compare(t.Context(), reader, o)
		require.NoError(t, err)
		for range 2 { // the second response comes from the cache
			doc := s.json(path)
			require.JSONEq(t, jsonText(t, c.Study), jsonText(t, doc["study"]), path)
			require.JSONEq(t, jsonText(t, wording.PerTable(c.Study.Per)), jsonText(t, doc["per"]), path)
			require.JSONEq(t, jsonText(t, wording.ArmTable(c.Study)), jsonText(t, doc["arms"]), path)
		}
	}
	require.Equal(t, []any{[]any{"base (8/0)", "5", "0.1200", "0.1004 to 0.1396", "-", "-", "-", "baseline"},
		[]any{"x (8/0)", "5", "0.3200", "0.3004 to 0.3396", "+0.2000", "+0.1769 to +0.2231", "0.0079", "better"}}, doc["arms"].(map[string]any)["rows"])

	s.evaluated("y", 1, 50)
	doc = s.json("/api/studies")
	require.Equal(t, "pay", doc["study"].(map[string]any)["name"], "the study with the newest run comes first")
	require.Nil(t, doc["per"].(map[string]any)["rows"])
	for target, want := range map[string]struct {
		code int
		text string
	}{
		"/api/studies?study=other":              {http.StatusNotFound, `no run of study "other" is recorded`},
		"/api/studies?study=sharing&model=gpt2": {http.StatusNotFound, `no run of study "sharing gpt2" is recorded`},
		"/api/studies?per=luck":                 {http.StatusBadRequest, "allowed: rounds, completions"},
		"/api/studies?study=pay&per=tokens":     {http.StatusBadRequest, "study pay is not decided by held-out pass@1"},
	} {
		w := s.get(target)
		require.Equal(t, want.code, w.Code, target)
		var answer struct{ Error string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		require.Contains(t, answer.Error, want.text)
	}
}

// A verdict is computed again when a run ends, not with each round of a running run.
func TestAVerdictFollowsFinishedRuns(t *testing.T) {
	asked := 0
	s := newSwarm(t, func(o *Options) {
		known := studies(studied("sharing", stats.MeasurePass, "", "base", "x"))
		o.Studies = func(runs []store.Run) ([]stats.CompareOptions, error) { asked++; return known(runs) }
	})
	require.Empty(t, s.json("/api/studies")["studies"], "before there is a database")
	s.open()
	s.evaluated("base", 1, 10)
	s.start("x-1", "x", 1, 9)
	s.wait("x-1", 0)
	unfinished := func() int { return len(s.json("/api/studies")["study"].(map[string]any)["unfinished"].([]any)) }
	require.Eventually(t, func() bool { return unfinished() == 1 }, patience, 5e6)
	before := asked
	s.round("x-1", 1, 0)
	s.wait("x-1", 1)
	require.Eventually(t, func() bool { return s.json("/api/runs/x-1")["status"].(map[string]any)["round"] == 1.0 }, patience, 5e6)
	require.Equal(t, 1, unfinished())
	require.Equal(t, before, asked)
	s.record("x-1", event.Event{Type: event.TypeRunEnded, State: store.RunDone})
	require.Eventually(t, func() bool { return unfinished() == 0 }, patience, 5e6)
	require.Empty(t, finished(t).json("/api/studies")["studies"], "a dashboard that knows no studies")
}
