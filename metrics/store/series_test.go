package store

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// seriesStore has 3 nodes with 5 rounds, except that node_2 lacks the last. The reward of node n in round i is n+i/10,
// except that node_1's reward in round 3 is NaN.
func seriesStore(t *testing.T) *Reader {
	s := startedStore(t, Options{MemoryInterval: 10 * time.Second})
	for i := range 5 {
		for n := range 3 {
			e := aRound(fmt.Sprint("node_", n), i, float64(200+10*i+n), float64(n)+float64(i)/10)
			switch {
			case n == 2 && i == 4:
				continue
			case n == 1 && i == 3:
				e.Round.Reward = math.Inf(1)
				e.Round.Tasks[0].RewardSum = math.NaN()
			}
			record(t, s, e)
		}
	}
	for at := 1000.0; at < 1060; at += 5 {
		for _, node := range []string{"node_10", "node_2"} {
			record(t, s, event.Event{Type: event.TypeMemory, Run: testRun, Node: node, Time: at,
				Memory: &event.Memory{RSSBytes: int64(at) - 1000, PeakRSSBytes: 7, DeviceBytes: 1060 - int64(at), DevicePeakBytes: 90}})
		}
	}
	return readerOf(t, s)
}

// The alarm of a resumed run judges what that of the first attempt judged.
func TestGradientsAreThoseOfTheEvents(t *testing.T) {
	s := startedStore(t, Options{})
	want := make([][]event.Gradient, 3)
	for i := range 3 {
		for _, node := range []string{"node_0", "node_1", "node_2"} {
			e := aRound(node, i, float64(200+i), 0.5)
			e.Round.GradNorm, e.Round.FracRewardZeroStd, e.Round.TrainedOwn, e.Round.TrainedExternal = 0.1*float64(i+1), 1.0/3, i, 2
			switch {
			case node == "node_1" && i == 1:
				e.Round.GenerateOnly = true
			case node == "node_1" && i == 2:
				e.Round.FracRewardZeroStd = math.NaN()
			case node == "node_2":
				e.Round.GradNorm = math.Inf(1)
			}
			record(t, s, e)
			if g, ok := e.Round.Gradient(); ok {
				want[i] = append(want[i], g)
			}
		}
	}
	record(t, s, event.Event{Type: event.TypeJoin, Run: testRun, Node: "anna_0", Worker: "anna", Time: 200, RoundIndex: 1})
	e := aRound("anna_0", 1, 201, 0.5)
	e.Worker, e.Round.GradNorm = "anna", 7
	record(t, s, e)
	require.Equal(t, []int{2, 1, 2}, []int{len(want[0]), len(want[1]), len(want[2])})
	all, err := readerOf(t, s).Gradients(t.Context(), testRun)
	got := all[""]
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), "every digit, NaN too")
	require.Len(t, all, 2)
	require.Empty(t, all["anna"][0])
	require.Equal(t, 7.0, all["anna"][1][0].Norm)
}

func TestRoundValuesAndBandsAgree(t *testing.T) {
	r := seriesStore(t)
	for _, metric := range event.MetricNames() {
		for from := range 6 {
			values, err := r.RoundValues(t.Context(), testRun, metric, from)
			require.NoError(t, err)
			bands, err := r.RoundBands(t.Context(), testRun, metric, from)
			require.NoError(t, err)
			require.Equal(t, bandsOf(values), bandsText(bands), "%s from %d", metric, from)
		}
	}
	values, err := r.RoundValues(t.Context(), testRun, "reward", 3)
	require.NoError(t, err)
	require.Len(t, values, 5)
	require.Equal(t, RoundValue{Round: 3, Node: "node_0", Time: 230, Value: 0.3}, values[0])
	require.True(t, math.IsNaN(values[1].Value))
	bands, err := r.RoundBands(t.Context(), testRun, "reward", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"3 n=3 end=232 1.300 0.300 2.300", "4 n=2 end=241 0.900 0.400 1.400"}, bandsText(bands))
}

// bandsOf computes bands by a simple method.
func bandsOf(values []RoundValue) []string {
	var bands []RoundBand
	for _, v := range values {
		if len(bands) == 0 || bands[len(bands)-1].Round != v.Round {
			bands = append(bands, RoundBand{Round: v.Round, Mean: math.NaN(), Min: math.NaN(), Max: math.NaN()})
		}
		b := &bands[len(bands)-1]
		b.Nodes++
		b.End = max(b.End, v.Time)
		switch {
		case math.IsNaN(v.Value):
		case math.IsNaN(b.Min):
			b.Min, b.Max = v.Value, v.Value
		default:
			b.Min, b.Max = min(b.Min, v.Value), max(b.Max, v.Value)
		}
	}
	for i := range bands {
		sum, n := 0.0, 0
		for _, v := range values {
			if v.Round == bands[i].Round && !math.IsNaN(v.Value) {
				sum, n = sum+v.Value, n+1
			}
		}
		if n > 0 {
			bands[i].Mean = sum / float64(n)
		}
	}
	return bandsText(bands)
}

func bandsText(bands []RoundBand) (text []string) {
	for _, b := range bands {
		text = append(text, fmt.Sprintf("%d n=%d end=%g %.3f %.3f %.3f", b.Round, b.Nodes, b.End, b.Mean, b.Min, b.Max))
	}
	return text
}

func TestMetricIsOneOfTheAllowed(t *testing.T) {
	r := seriesStore(t)
	for _, metric := range []string{"", "time", "round", "non_finite", "Reward", "reward, node", "reward FROM rounds; DROP TABLE runs; --", "1"} {
		_, err := r.RoundValues(t.Context(), testRun, metric, 0)
		require.ErrorIs(t, err, ErrNotFound, metric)
		_, err = r.RoundBands(t.Context(), testRun, metric, 0)
		require.ErrorIs(t, err, ErrNotFound, metric)
	}
	require.Contains(t, event.MetricNames(), "training_reward")
}

func TestTaskTotalsByStepsAddUpToTheWhole(t *testing.T) {
	r := seriesStore(t)
	whole, err := r.TaskTotals(t.Context(), testRun, 0)
	require.NoError(t, err)
	require.Equal(t, []TaskTotal{{"arc_1d", 0, 14 * 24, 14}, {"bf", 0, 14 * 8, 26}}, whole, "one of bf's sums is no number")
	for steps := 1; steps < 7; steps++ {
		parts, err := r.TaskTotals(t.Context(), testRun, steps)
		require.NoError(t, err)
		sums := map[string]TaskTotal{}
		for _, p := range parts {
			require.Zero(t, p.Round%steps)
			sums[p.Task] = TaskTotal{p.Task, 0, sums[p.Task].Completions + p.Completions, sums[p.Task].RewardSum + p.RewardSum}
		}
		require.Len(t, parts, 2*((5+steps-1)/steps))
		require.Equal(t, whole, []TaskTotal{sums["arc_1d"], sums["bf"]})
	}
}

func TestPeerTotals(t *testing.T) {
	got, err := seriesStore(t).PeerTotals(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []PeerTotal{
		{"node_0", "node_1", 20, 5, 5, 10, 5}, {"node_1", "node_1", 20, 5, 5, 10, 5}, {"node_2", "node_1", 16, 4, 4, 8, 4},
	}, got)
}

func TestMemoryBySlots(t *testing.T) {
	r := seriesStore(t)
	recorded, err := r.Memory(t.Context(), testRun, 1040, 0)
	require.NoError(t, err)
	require.Equal(t, []MemorySample{
		{"node_2", 1040, 45, 45, 20, 90, 0, 0}, {"node_10", 1040, 45, 45, 20, 90, 0, 0}, {"node_2", 1050, 55, 55, 10, 90, 0, 0}, {"node_10", 1050, 55, 55, 10, 90, 0, 0},
	}, recorded)
	slots, err := r.Memory(t.Context(), testRun, 1030, 20)
	require.NoError(t, err)
	require.Equal(t, []MemorySample{
		{"node_2", 1020, 35, 35, 40, 90, 0, 0}, {"node_10", 1020, 35, 35, 40, 90, 0, 0}, {"node_2", 1040, 55, 55, 20, 90, 0, 0}, {"node_10", 1040, 55, 55, 20, 90, 0, 0},
	}, slots, "a slot is whole, also the one that the time falls into")
}

// Queries for a run must not read the rounds of other runs. Queries from a round on must not read earlier rounds.
func TestQueriesUseTheKey(t *testing.T) {
	r := seriesStore(t)
	values, err := r.metricSQL(t.Context(), roundValuesSQL, "reward")
	require.NoError(t, err)
	bands, err := r.metricSQL(t.Context(), roundBandsSQL, "reward")
	require.NoError(t, err)
	for _, c := range []struct {
		query string
		args  []any
		want  string
		sorts bool
	}{
		{values, []any{testRun, 3}, "SEARCH rounds USING PRIMARY KEY (run=? AND round>?)", false},
		{bands, []any{testRun, 3}, "SEARCH rounds USING PRIMARY KEY (run=? AND round>?)", false},
		{taskTotalsSQL, []any{testRun, 10}, "SEARCH task_rewards USING PRIMARY KEY (run=?)", true},
		{peerTotalsSQL, []any{testRun}, "SEARCH peers USING PRIMARY KEY (run=?)", true},
		{newestEvalsSQL(true), nil, "SEARCH evals USING PRIMARY KEY (run=? AND round=?)", true},
		{newestEvalsSQL(true), nil, "SEARCH e USING PRIMARY KEY (run=?)", true},
	} {
		rows, err := r.db.Query("EXPLAIN QUERY PLAN "+c.query, c.args...)
		require.NoError(t, err)
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
			plan = append(plan, detail)
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
		require.Contains(t, plan, c.want)
		if !c.sorts {
			require.NotContains(t, strings.Join(plan, "\n"), "TEMP B-TREE")
		}
		for _, step := range plan {
			if c.query != newestEvalsSQL(true) {
				require.NotContains(t, step, "SCAN")
			}
		}
	}
}
