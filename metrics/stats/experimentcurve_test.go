package stats

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// steady returns a run of two nodes. The reward of a round is level plus a hundredth of the round's index. seconds is
// the duration of a round.
func steady(seed int64, rounds int, level, seconds float64) RunSeries {
	run := store.Run{Run: fmt.Sprintf("e-%d", seed), Experiment: "e", Seed: seed, NumTrainSamples: 4, Started: 1000, PricePerHour: 3600, PriceCurrency: "$"}
	s := RunSeries{Run: run, More: map[string][]store.RoundValue{}, Attempts: []store.Attempt{
		{Attempt: 1, Started: 1000, Seen: 1000 + 2*seconds, Ended: 1000 + 2*seconds}, {Attempt: 2, Started: 5000 + 2*seconds, Seen: 5000 + 1000*seconds}}}
	for round := range rounds {
		at := 1000 + seconds*float64(round+1)
		if round >= 2 {
			at += 4000 // a pause after two rounds
		}
		for node := range 2 {
			add := func(metric string, v float64) {
				s.More[metric] = append(s.More[metric], store.RoundValue{Round: round, Node: fmt.Sprint("node_", node), Time: at, Value: v})
			}
			add("reward", level+0.01*float64(round)+0.001*float64(2*node-1))
			add("completions", 8)
			add("completions_mean_length", 10+float64(node))
			add("generate_time", 0.5)
			add("update_time", 0.25)
		}
	}
	s.Values = s.More["reward"]
	return s
}

func TestAnExperimentsCurveIsTheMeanOverSeedsWithItsInterval(t *testing.T) {
	runs := []RunSeries{steady(1, 10, 0.1, 2), steady(2, 8, 0.2, 4), steady(3, 9, 0.3, 6), steady(4, 0, 0, 1)}
	c, err := NewExperimentCurve("e", "reward", runs, CurveOptions{Window: 1, Single: true})
	require.NoError(t, err)
	require.Equal(t, []any{"rounds", 3, []string{"e-1", "e-2", "e-3"}, "4/0"}, []any{c.Per, c.Seeds, c.Runs, c.Config})
	requireValues(t, Values{0, 1, 2, 3, 4, 5, 6, 7}, c.X, "that all have")
	mean, low, high := sample.MeanInterval([]float64{0.13, 0.23, 0.33})
	require.InDeltaSlice(t, []float64{mean, low, high}, []float64{c.Mean[3], c.Low[3], c.High[3]}, 1e-12)
	require.Len(t, c.Single, 3)
	require.Len(t, c.Single[0].X, 10, "a single run is whole")
	require.InDelta(t, 0.19, c.Single[0].Mean[9], 1e-12)

	twice := append(runs[:2:2], steady(2, 8, 0.4, 4))
	c, err = NewExperimentCurve("e", "reward", twice, CurveOptions{Window: 1})
	require.NoError(t, err)
	require.Equal(t, 2, c.Seeds)
	require.InDelta(t, (0.1+(0.2+0.4)/2)/2, c.Mean[0], 1e-12, "runs of one seed are one value")

	c, err = NewExperimentCurve("e", "reward", runs[:1], CurveOptions{Window: 1})
	require.NoError(t, err)
	require.True(t, math.IsNaN(c.Low[0]), "one seed has no interval")
	_, err = NewExperimentCurve("e", "reward", runs, CurveOptions{Per: "parsecs"})
	require.ErrorContains(t, err, "rounds, completions, tokens, engine-seconds, seconds, money")
}

func TestACurveAgainstEveryAxis(t *testing.T) {
	one := []RunSeries{steady(1, 4, 0.1, 2)}
	for name, want := range map[string]Values{
		"rounds": {0, 1, 2, 3}, "completions": {16, 32, 48, 64}, "tokens": {168, 336, 504, 672}, "engine-seconds": {1.5, 3, 4.5, 6},
		"seconds": {2, 4, 6, 8}, "money": {2, 4, 6, 8}, // a pause is not active time
	} {
		c, err := NewExperimentCurve("e", "reward", one, CurveOptions{Window: 1, Per: name})
		require.NoError(t, err)
		requireValues(t, want, c.X, name)
		requireValues(t, Values{0.1, 0.11, 0.12, 0.13}, c.Mean, name)
	}
	require.Equal(t, []string{"rounds", "completions", "tokens", "engine-seconds", "seconds", "money"}, AxisNames())

	// Both runs cover seconds 4 to 16. At 10 seconds the slow run is halfway between its rounds 1 and 2.
	c, err := NewExperimentCurve("e", "reward", []RunSeries{steady(1, 8, 0.1, 2), steady(2, 8, 0.1, 4)}, CurveOptions{Window: 1, Per: "seconds"})
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{4, 16}, []float64{c.X[0], c.X[len(c.X)-1]}, 1e-12)
	require.InDelta(t, (0.11+0.10)/2, c.Mean[0], 1e-12)
	require.InDelta(t, (0.17+0.13)/2, c.Mean[len(c.Mean)-1], 1e-12)

	other := steady(2, 4, 0.1, 2)
	other.Run.PriceCurrency = "EUR"
	c, err = NewExperimentCurve("e", "reward", append(one, other), CurveOptions{Window: 1, Per: "money"})
	require.NoError(t, err)
	require.Equal(t, []any{"$", 1}, []any{c.Currency, c.Seeds}, "of two currencies the first")
	free := steady(1, 4, 0.1, 2)
	free.Run.PricePerHour = 0
	c, err = NewExperimentCurve("e", "reward", []RunSeries{free}, CurveOptions{Per: "money"})
	require.NoError(t, err)
	require.Empty(t, c.X)
}

func TestGroupsAreTheRowsOfAComparison(t *testing.T) {
	runs := measuredRuns().Totals
	runs[0].State = store.RunRunning
	count := func(every bool) (n int) {
		for _, g := range Groups(runs, CompareOptions{}, every) {
			n += len(g.Runs)
		}
		return n
	}
	require.Equal(t, []int{14, 15}, []int{count(false), count(true)})
}

// Seconds and money are those of training: what an evaluation adds to its round does not count.
func TestEvaluationsAreNoTimeOfTraining(t *testing.T) {
	s := RunSeries{Run: store.Run{Started: 100, PricePerHour: 3600}, Evals: []store.EvalTime{{Round: 0, From: 101, To: 105}, {Round: 2, From: 120, To: 125}, {Round: 4, To: 200}}}
	for round, end := range []float64{110, 115, 127, 130} {
		s.Values = append(s.Values, store.RoundValue{Node: "node_0", Round: round, Value: 1, Time: end})
	}
	c := NewCurve(s.Run, "reward", s.Values, CurveOptions{})
	require.Equal(t, Values{6, 11, 13, 16}, secondPlaces(c, s), "4 seconds before the first round, and from 115 to 125")
	require.Equal(t, Values{6, 11, 13, 16}, moneyPlaces(c, s))
	s.Evals[0].From = 0
	require.Equal(t, Values{10, 15, 17, 20}, secondPlaces(c, s), "it is not recorded when the first one began")
	s.Attempts = []store.Attempt{{Started: 100, Ended: 120}, {Started: 122, Ended: 140}}
	require.Equal(t, Values{10, 15, 17, 20}, secondPlaces(c, s), "a pause within an evaluation counts neither as time nor twice")
}

func TestTokensAreUnknownWithoutAMeanLength(t *testing.T) {
	of := func(values ...float64) (list []store.RoundValue) {
		for round, v := range values {
			list = append(list, store.RoundValue{Node: "node_0", Round: round, Value: v})
		}
		return list
	}
	s := RunSeries{Values: of(1, 1), More: map[string][]store.RoundValue{"completions": of(8, 8), "completions_mean_length": of(10, 12)}}
	c := NewCurve(s.Run, "reward", s.Values, CurveOptions{})
	require.Equal(t, Values{80, 176}, tokenPlaces(c, s))
	for _, lengths := range [][]store.RoundValue{of(10), of(10, math.NaN())} {
		s.More["completions_mean_length"] = lengths
		require.True(t, math.IsNaN(tokenPlaces(c, s)[0]))
	}
}
