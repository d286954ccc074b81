package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func randomOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestCurve(t *testing.T) {
	run := store.Run{Run: "r", Experiment: "e", NumTrainSamples: 4, NumTransplantTrees: 4, Seed: 3, Started: 100}
	values := []store.RoundValue{
		{Round: 1, Node: "node_10", Time: 121, Value: 0.4}, {Round: 1, Node: "node_2", Time: 120, Value: 0.2},
		{Round: 0, Node: "node_10", Time: 110, Value: 0.8}, {Round: 0, Node: "node_2", Time: 112, Value: nan},
		{Round: 2, Node: "node_2", Time: 130, Value: 0.6},
	}
	c := NewCurve(run, "reward", values, CurveOptions{Window: 2})
	require.Equal(t, []any{"r", "e", "4/4", int64(3), "reward", 2, 3}, []any{c.Run, c.Experiment, c.Config, c.Seed, c.Metric, c.Window, c.Rounds})
	require.Equal(t, []int{0, 1, 2}, c.Round)
	require.Equal(t, Values{12, 21, 30}, c.Time)
	require.Equal(t, "node_2", c.Nodes[0].Node, "before node_10")
	requireValues(t, Values{nan, 0.2, 0.4}, c.Nodes[0].Values)
	requireValues(t, Values{0.8, 0.6, nan}, c.Nodes[1].Values, "nothing where it did no round, though the window reaches back")
	requireValues(t, Values{0.8, 0.4, 0.4}, c.Mean)
	requireValues(t, Values{0.8, 0.2, 0.4}, c.Low)
	requireValues(t, Values{0.8, 0.6, 0.4}, c.High)

	text, err := json.Marshal(c)
	require.NoError(t, err)
	require.Contains(t, string(text), `"values":[null,0.2,0.4`)
	var back Curve
	require.NoError(t, json.Unmarshal(text, &back))
	requireValues(t, c.Nodes[0].Values, back.Nodes[0].Values)
	require.Equal(t, c.Time, back.Time)

	text, err = json.Marshal(NewCurve(run, "reward", nil, CurveOptions{Window: 100, Points: 10}))
	require.NoError(t, err)
	require.Contains(t, string(text), `"round":[],"time":[],"mean":[],"low":[],"high":[],"nodes":[]`)
}

func requireValues(t *testing.T, want, got Values, what ...any) {
	t.Helper()
	require.Len(t, got, len(want), what...)
	for i := range want {
		if math.IsNaN(want[i]) {
			require.True(t, math.IsNaN(got[i]), what...)
		} else {
			require.InDelta(t, want[i], got[i], 1e-12, what...)
		}
	}
}

// The paper smooths each agent, then averages. For complete rounds this equals smoothing the average. The band is wider
// than the mean.
func TestSmoothingBeforeAveraging(t *testing.T) {
	random := randomOf(5)
	var values []store.RoundValue
	var means []float64
	for round := range 300 {
		sum := 0.0
		for node := range 8 {
			v := random.Float64() * float64(node)
			sum += v
			values = append(values, store.RoundValue{Round: round, Node: fmt.Sprint("node_", node), Value: v})
		}
		means = append(means, sum/8)
	}
	c := NewCurve(store.Run{}, "reward", values, CurveOptions{Window: PaperWindow})
	requireValues(t, sample.MovingAverage(means, PaperWindow), c.Mean)
	whole := NewCurve(store.Run{}, "reward", values, CurveOptions{})
	thin := NewCurve(store.Run{}, "reward", values, CurveOptions{Window: PaperWindow, Points: 60})
	require.LessOrEqual(t, len(thin.Round), 60)
	require.Equal(t, 300, thin.Rounds)
	require.Equal(t, 1, whole.Window)
	for i, round := range thin.Round {
		require.Equal(t, c.Mean[round], thin.Mean[i], "a point that stays is as smoothed over all rounds, not over those left")
	}
}

// A spike of one round in 2000 must be visible at any size of the drawing.
func TestThinningKeepsASpikeOfOneNode(t *testing.T) {
	var values []store.RoundValue
	for round := range 2000 {
		for node := range 8 {
			v := 0.5
			if round == 1234 && node == 3 {
				v = 0.9
			}
			values = append(values, store.RoundValue{Round: round, Node: fmt.Sprint("node_", node), Value: v})
		}
	}
	c := NewCurve(store.Run{}, "reward", values, CurveOptions{Points: 100})
	require.LessOrEqual(t, len(c.Round), 100)
	require.Contains(t, c.Round, 1234)
	require.InDelta(t, 0.9, slices.Max(c.High), 0)
}
