package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// costly returns two arms with four seeds and four rounds of one node: "full" generates 20 completions a round in 2
// engine seconds, "half" 10 in 1.5. The pass@1 of the seeds is 0.01 below, at and above their arm's.
func costly(host string) (Runs, *StudyDesign) {
	d := &StudyDesign{Name: "cost", Baseline: "full", Seeds: 4}
	runs := Runs{Evals: map[string]store.EvalTotal{}, HeldOut: map[string]HeldOutSeries{}}
	for _, arm := range []struct {
		name        string
		own         int
		completions float64
		seconds     float64
		pass        []float64 // after 0, 2 and 4 rounds
	}{{"full", 8, 20, 1, []float64{0.1, 0.2, 0.4}}, {"half", 4, 10, 0.75, []float64{0.1, 0.3, 0.35}}} {
		d.Arms = append(d.Arms, StudyArm{Name: arm.name, Experiment: "cost-" + arm.name})
		for seed, apart := range []float64{-0.01, 0, 0, 0.01} {
			run := store.Run{Run: fmt.Sprint(arm.name, "-", seed), Experiment: "cost-" + arm.name, Seed: int64(seed), State: store.RunDone, Rounds: 4,
				NumTrainSamples: arm.own, NumTransplantTrees: 8 - arm.own, Started: 1000, Device: "cpu", Host: host}
			s := HeldOutSeries{RunSeries: RunSeries{Run: run, More: map[string][]store.RoundValue{}}}
			for round := range 4 {
				for metric, v := range map[string]float64{"completions": arm.completions, "generate_time": arm.seconds, "update_time": arm.seconds} {
					s.More[metric] = append(s.More[metric], store.RoundValue{Round: round, Node: "node_0", Time: 1001 + float64(round), Value: v})
				}
			}
			s.Values = s.More["completions"]
			for i, pass := range arm.pass {
				s.Evals = append(s.Evals, store.EvalTotal{Run: run.Run, Set: "s", Round: 2 * i, Nodes: 1, Questions: 100, Generations: 10,
					Correct: int(math.Round(1000 * (pass + apart)))})
			}
			runs.Evals[run.Run], runs.HeldOut[run.Run] = s.Evals[2], s
			runs.Totals = append(runs.Totals, store.Totals{Run: run, NodesSeen: 1, NodeRounds: 4, RoundsDone: 4, RoundsReached: 4, CumulativeReward: 1})
		}
	}
	return runs, d
}

func perOf(t *testing.T, runs Runs, o CompareOptions) (*StudyPer, Comparison) {
	t.Helper()
	c, err := Compare(runs, o)
	require.NoError(t, err)
	_, err = json.Marshal(c)
	require.NoError(t, err)
	require.NotNil(t, c.Study.Per)
	return c.Study.Per, c
}

// known returns values with NaN for null.
func known(values []*float64) Values {
	out := unknown(len(values))
	for i, v := range values {
		if v != nil {
			out[i] = *v
		}
	}
	return out
}

func TestAStudyAtEqualCompletions(t *testing.T) {
	runs, d := costly("")
	p, c := perOf(t, runs, CompareOptions{Study: d, Per: "completions", Target: 0.3})
	require.Equal(t, []any{"completions", "number", 40.0, true}, []any{p.Axis, p.Unit, *p.Common, p.Asked})
	require.Equal(t, []float64{20, 40}, p.Horizons, "half of what all reach is where half was evaluated first; one arm alone reaches 80")
	full, half := p.Rows[0], p.Rows[1]
	require.Equal(t, []any{"full", 4, "half", 4}, []any{full.Name, full.Seeds, half.Name, half.Seeds})
	requireValues(t, Values{0.15, 0.2}, known(full.Values))
	requireValues(t, Values{0.14, 0.19}, known(full.Lows))
	requireValues(t, Values{0.3, 0.35}, known(half.Values))
	requireValues(t, Values{0.31, 0.36}, known(half.Highs))
	require.InDelta(t, 0.15, *full.Area, 1e-12, "(0.1 + 0.2) / 2")
	require.InDelta(t, (20*0.2+20*0.325)/40, *half.Area, 1e-12)
	require.InDeltaSlice(t, []float64{0.4, 0.39, 0.41}, []float64{*full.End, *full.EndLow, *full.EndHigh}, 1e-12)

	require.Equal(t, []any{"full", 4, 4, "half", 4, 4}, []any{p.CostToTarget[0].Name, p.CostToTarget[0].Seeds, p.CostToTarget[0].Reached,
		p.CostToTarget[1].Name, p.CostToTarget[1].Seeds, p.CostToTarget[1].Reached})
	require.InDelta(t, 60, *p.CostToTarget[0].Cost, 1e-9, "half way between 40 (0.2) and 80 (0.4)")
	require.InDelta(t, 20, *p.CostToTarget[1].Cost, 1e-9, "seeds reach it at 24, 20 and 19")

	require.Equal(t, []string{StudyBest, "half"}, []string{c.Study.Outcome, c.Study.Best})
	require.InDelta(t, 0.15, *c.Study.Gain, 1e-12)
	require.InDelta(t, 0.35, *c.Study.Arms[1].Value, 1e-12)
	require.Nil(t, c.Pairs[0].EvalRound)
	require.Equal(t, []StudyAxis{{"rounds", "number", "", 4, "full", p.OtherAxes[0].Value, []string{"full", "half"}, []StudyContrast{}}}, p.OtherAxes,
		"nothing is known on the other axes")
	figures := map[string][]StudyContrast{}
	for _, x := range p.Tests {
		figures[fmt.Sprint(x.Of, " ", x.Place)] = x.Comparisons
	}
	require.Len(t, figures, 4)
	for name, want := range map[string]float64{"value 20": 0.15, "value 40": 0.15, "area 40": *half.Area - *full.Area, "cost 0.3": -39.25} {
		require.Len(t, figures[name], 1, name)
		x := figures[name][0]
		require.InDelta(t, want, *x.Difference, 1e-9, name)
		require.Equal(t, []any{"half", "full", OutcomeBetter, DecidedByPermutation}, []any{x.A, x.B, x.Outcome, x.DecidedBy}, name)
		require.InDelta(t, 2/70.0, *x.PValueHolm, 1e-9, "of eight seeds four are chosen in 70 ways")
		require.NotNil(t, x.CILow)
	}
	require.Contains(t, c.Caveats, AtHorizon{"completions", "", 40, false})

	p, _ = perOf(t, runs, CompareOptions{Study: d, Per: "completions", Target: 0.37})
	require.Equal(t, []int{4, 0}, []int{p.CostToTarget[0].Reached, p.CostToTarget[1].Reached})
	require.InDelta(t, 74, *p.CostToTarget[0].Cost, 1e-9)
	require.Nil(t, p.CostToTarget[1].Cost)
	p, _ = perOf(t, runs, CompareOptions{Study: d, Per: "completions", Target: 0.355})
	require.Equal(t, 1, p.CostToTarget[1].Reached, "of four seeds")
	require.Nil(t, p.CostToTarget[1].Cost, "the median one never did")
	require.Nil(t, p.Tests[len(p.Tests)-1].Comparisons[0].Difference, "no test without the cost of a seed")

	p, c = perOf(t, runs, CompareOptions{Study: d, Per: "completions", At: []float64{10, 60, 90}})
	requireValues(t, Values{0.125, 0.3, math.NaN()}, known(p.Rows[0].Values))
	requireValues(t, Values{0.2, math.NaN(), math.NaN()}, known(p.Rows[1].Values), "it ended before")
	require.Equal(t, "half", c.Study.Best, "horizons that are shown decide nothing")
}

func TestAStudyAtEqualRoundsNamesTheAxesOnWhichItDiffers(t *testing.T) {
	runs, d := costly("")
	p, c := perOf(t, runs, CompareOptions{Study: d})
	require.Equal(t, []any{"full", StudyBest, "rounds", 4.0, false}, []any{c.Study.Best, c.Study.Outcome, p.Axis, *p.Common, p.Asked})
	require.Equal(t, []float64{2, 4}, p.Horizons)
	require.Nil(t, p.OneMachine)
	require.Len(t, p.OtherAxes, 1, "times are of no known machine; tokens and money are not recorded")
	require.Equal(t, []any{"completions", 40.0, "half"}, []any{p.OtherAxes[0].Axis, p.OtherAxes[0].Horizon, p.OtherAxes[0].Best})
	require.InDelta(t, 0.35, p.OtherAxes[0].Value, 1e-12)
	require.NotContains(t, c.Caveats, AtHorizon{"rounds", "", 4, false})

	runs, d = costly("host")
	p, _ = perOf(t, runs, CompareOptions{Study: d})
	require.True(t, *p.OneMachine)
	require.Equal(t, []string{"completions", "engine-seconds", "seconds"}, []string{p.OtherAxes[0].Axis, p.OtherAxes[1].Axis, p.OtherAxes[2].Axis})
	require.Equal(t, []any{6.0, "half"}, []any{p.OtherAxes[1].Horizon, p.OtherAxes[1].Best}, "full has 0.2 at 4 seconds and 0.4 at 8: 0.3 at 6")
	require.Equal(t, "full", p.OtherAxes[2].Best)
	runs.Totals[0].Host = "another"
	p, _ = perOf(t, runs, CompareOptions{Study: d})
	require.False(t, *p.OneMachine)
	require.Len(t, p.OtherAxes, 1)
}

func TestAStudyOnAnAxisOfWhichNothingIsKnownDecidesNothing(t *testing.T) {
	runs, d := costly("")
	p, c := perOf(t, runs, CompareOptions{Study: d, Per: "money"})
	require.Nil(t, p.Common)
	require.Empty(t, p.Rows)
	require.Empty(t, p.Horizons)
	require.Equal(t, []string{StudyUndecided, ""}, []string{c.Study.Outcome, c.Study.Best})

	c, err := Compare(runs, CompareOptions{Study: d, Measure: MeasureReward})
	require.NoError(t, err)
	require.Nil(t, c.Study.Per, "only pass@1 is held against an axis")
	_, err = Compare(runs, CompareOptions{Study: d, Per: "parsecs"})
	require.ErrorContains(t, err, "parsecs")
}

// With two seeds on a side nothing is decided on any axis.
func TestAStudyOnAnAxisNeedsSeedsOnBothSides(t *testing.T) {
	runs, d := costly("")
	runs.Totals = slices.DeleteFunc(runs.Totals, func(r store.Totals) bool { return r.Run.Run == "half-0" || r.Run.Run == "half-1" })
	p, c := perOf(t, runs, CompareOptions{Study: d, Per: "completions"})
	require.Equal(t, []any{StudyUndecided, "half", 2}, []any{c.Study.Outcome, c.Study.Best, p.Rows[1].Seeds})
}

// An evaluation's place is that of the end of its last round. If one place is unknown, there is no curve.
func TestWhereEvaluationsAreOnEveryAxis(t *testing.T) {
	s := steady(1, 4, 0.1, 2)
	var evals []store.EvalTotal
	var passes []float64
	for i, round := range []int{0, 1, 4} {
		evals = append(evals, store.EvalTotal{Round: round, Questions: 10, Generations: 4, Correct: 4 * i})
		pass, ok := Runs{}.passOf(evals[i], MeasurePass)
		require.True(t, ok)
		passes = append(passes, pass)
	}
	c := NewCurve(s.Run, "", s.Values, CurveOptions{})
	for name, want := range map[string][]float64{
		"rounds": {0, 1, 4}, "completions": {0, 16, 64}, "tokens": {0, 168, 672}, "engine-seconds": {0, 1.5, 6}, "seconds": {0, 2, 8}, "money": {0, 2, 8},
	} {
		axis, err := AxisOf(name)
		require.NoError(t, err)
		h := newHeldOut(axis, c, s, evals, passes)
		require.InDeltaSlice(t, want, h.Place, 1e-12, name)
		require.InDeltaSlice(t, []float64{0, 0.1, 0.2}, h.Pass, 1e-12, name)
	}
	late := append(evals[:2:2], store.EvalTotal{Round: 9, Questions: 10, Generations: 4})
	axis, err := AxisOf("completions")
	require.NoError(t, err)
	require.Empty(t, newHeldOut(axis, c, s, late, passes).Place, "nothing is recorded of the ninth round")
	s.Run.PricePerHour = 0
	axis, err = AxisOf("money")
	require.NoError(t, err)
	require.Empty(t, newHeldOut(axis, c, s, evals, passes).Place)
}
