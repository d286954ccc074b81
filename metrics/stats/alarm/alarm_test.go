package alarm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// stretch is so many rounds of one value.
type stretch struct {
	rounds int
	value  float64
}

// norms is a series of stretches.
func norms(parts ...stretch) (list []float64) {
	for _, p := range parts {
		list = append(list, slices.Repeat([]float64{p.value}, p.rounds)...)
	}
	return list
}

// gradients are those of one node that trains on the same number of groups in every round.
func gradients(norms []float64) (series [][]event.Gradient) {
	for _, norm := range norms {
		series = append(series, []event.Gradient{{Norm: norm, Flat: 0.5, Own: 4, External: 4}})
	}
	return series
}

// raisedAt are the rounds in which the alarm with a factor is raised.
func raisedAt(series [][]event.Gradient, factor float64) (rounds []int) {
	return roundsOf(Raised(series, Rule{Factor: factor}))
}

func roundsOf(growths []Growth) (rounds []int) {
	for _, g := range growths {
		rounds = append(rounds, g.Round)
	}
	return rounds
}

func TestAlarmOfSeries(t *testing.T) {
	t.Parallel()
	noisy := rand.New(rand.NewPCG(1, 2))
	noise := make([]float64, 2000)
	for i := range noise {
		noise[i] = 0.3 * (0.5 + noisy.Float64()) // its windows' means stay within a third of 0.3
	}
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		series []float64
		want   []int
	}{
		"nothing":                {nil, nil},
		"flat":                   {norms(stretch{500, 0.3}), nil},
		"noisy":                  {noise, nil},
		"short, though grown":    {norms(stretch{60, 0.3}, stretch{19, 3}), nil},
		"grown when first asked": {norms(stretch{60, 0.3}, stretch{20, 3}), []int{79}},
		// 13 of 20 rounds at twice the reference make 1.65 times.
		"a step":                 {norms(stretch{100, 1}, stretch{200, 2}), []int{112}},
		"a step below the bound": {norms(stretch{100, 1}, stretch{200, 1.59}), nil},
		"early, before round 20": {norms(stretch{20, 9}, stretch{200, 1}), nil},
		"again after 20 rounds":  {norms(stretch{100, 1}, stretch{50, 2}, stretch{50, 1}, stretch{50, 2}), []int{112, 212}},
		"not again before":       {norms(stretch{100, 1}, stretch{50, 2}, stretch{10, 1}, stretch{50, 2}), []int{112}},
		"no gradients":           {norms(stretch{200, 0}), nil},
		"none at first":          {norms(stretch{100, 0}, stretch{200, 2}), nil},
		"never finite":           {norms(stretch{300, nan}), nil},
		"early ones missing":     {norms(stretch{20, 1}, stretch{21, nan}, stretch{59, 1}, stretch{100, 2}), nil},
		"some missing":           {norms(stretch{20, 1}, stretch{20, nan}, stretch{60, 1}, stretch{100, 2}), []int{112}},
		"newest mostly missing":  {norms(stretch{100, 1}, stretch{11, inf}, stretch{9, 5}, stretch{11, nan}), nil},
	} {
		require.Equal(t, c.want, raisedAt(gradients(c.series), WarnFactor), name)
	}
	require.Empty(t, raisedAt(gradients(norms(stretch{100, 1}, stretch{200, 2})), StopFactor))
	require.Equal(t, []int{108}, raisedAt(gradients(norms(stretch{100, 1}, stretch{200, 4})), StopFactor), "9 of 20 rounds at four times make 2.35 times")
	g := Raised(gradients(norms(stretch{100, 1}, stretch{200, 2})), Rule{})[0]
	require.Equal(t, 112, g.Round)
	require.InDelta(t, 1.65, g.Recent, 1e-12)
	require.InDelta(t, 1, g.Reference, 1e-12)

	growing := make([]float64, 300)
	for i := range growing {
		growing[i] = 0.3 * math.Pow(1.01, float64(i))
	}
	grown := Raised(gradients(growing), Rule{})
	require.Len(t, grown, 1)
	ratio := grown[0].Recent / grown[0].Reference
	require.True(t, 1.6 < ratio && ratio <= 1.6*1.01, "at the first round at which it holds: %v", ratio)
}

// A norm that grows with the share of groups that have an advantage is no sign of a collapse.
func TestTheAlarmExpectsGrowthFromMoreActiveGroups(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	grown := norms(stretch{100, 1}, stretch{200, 6})
	// active has the shares of own groups with an advantage by round, of nodes without external ones.
	active := func(parts ...stretch) (series [][]event.Gradient) {
		for i, share := range norms(parts...) {
			series = append(series, []event.Gradient{{Norm: grown[i], Flat: 1 - share, Own: 8}})
		}
		return series
	}
	// external replaces the numbers of groups, before and from round 100 on.
	external := func(series [][]event.Gradient, own, early, late float64) [][]event.Gradient {
		for i := range series {
			series[i][0].Own, series[i][0].External = own, early
			if i >= 100 {
				series[i][0].External = late
			}
		}
		return series
	}
	for name, c := range map[string]struct {
		series [][]event.Gradient
		rule   Rule
		want   []int
	}{
		"as many":         {active(stretch{300, 0.4}), Rule{}, []int{102}},
		"six times":       {active(stretch{100, 0.1}, stretch{200, 0.6}), Rule{}, nil},
		"three times":     {active(stretch{100, 0.1}, stretch{200, 0.3}), Rule{}, []int{106}}, // 7 rounds: 2.75 times the norm, 1.7 times the share
		"then a collapse": {active(stretch{80, 0.1}, stretch{220, 0.2}), Rule{}, []int{108}},  // 9 rounds: 3.25 times the norm, twice the share
		"fewer":           {active(stretch{100, 0.6}, stretch{200, 0.1}), Rule{}, []int{102}}, // the bound does not become lower
		"with KL":         {active(stretch{100, 0.1}, stretch{200, 0.6}), Rule{AllActive: true}, []int{102}},

		// The update divides by all groups of its training set, so their number does not matter.
		"others join":       {external(active(stretch{300, 0.6}), 4, 0, 4), Rule{}, []int{102}},
		"others have one":   {external(active(stretch{100, 0.1}, stretch{200, 0.6}), 4, 4, 4), Rule{}, []int{102}}, // 0.55 is not rare
		"others unfiltered": {external(active(stretch{100, 0.1}, stretch{200, 0.6}), 4, 4, 4), Rule{Unfiltered: true}, nil},

		"a trainer without numbers": {external(active(stretch{100, 0.1}, stretch{200, 0.6}), 0, 0, 0), Rule{}, nil},
		"a trainer without shares":  {external(active(stretch{300, nan}), 0, 0, 0), Rule{}, []int{102}},
		"shares that end":           {active(stretch{100, 0.1}, stretch{60, 0.6}, stretch{140, nan}), Rule{}, nil},
		"shares that begin":         {active(stretch{70, nan}, stretch{230, 0.6}), Rule{}, nil},
		"none at first":             {active(stretch{100, 0}, stretch{200, 0.6}), Rule{}, nil},
		"none ever":                 {active(stretch{300, 0}), Rule{}, []int{102}},
	} {
		require.Equal(t, c.want, roundsOf(Raised(c.series, c.rule)), name)
	}
}

// What the alarm says does not depend on the order in which nodes report, nor on anything but the values.
func TestAlarmIsAFunctionOfTheValues(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(3, 4))
	var one, other Collapse
	raised := 0
	for round := range 400 {
		nodes := make([]event.Gradient, 8)
		for i := range nodes {
			nodes[i] = event.Gradient{Norm: (0.5 + draw.Float64()) * (1 + float64(round)/100), Flat: draw.Float64(), Own: 4}
		}
		g, now := one.Add(nodes...)
		slices.Reverse(nodes)
		h, also := other.Add(nodes...)
		require.Equal(t, fmt.Sprint(g, now), fmt.Sprint(h, also), "every digit")
		if now {
			raised++
		}
	}
	require.Equal(t, 1, raised)
	require.Equal(t, 400, one.Rounds())
}

// The recorded studies, on which the rule rests: docs/RESULTS.md, "The alarm", has these rounds. The superseded runs
// are not among those by which the factors were chosen.
func TestAlarmOfTheRecordedStudies(t *testing.T) {
	t.Parallel()
	studies := map[string]map[string][2][]int{
		"paper": recordedAlarms, "corrected": recordedAlarms, "sparse": recordedAlarms, "control": recordedAlarms, "adaptive": recordedAlarms,
		"alternatives": recordedAlarms, "teacher": recordedAlarms, "corrections": recordedAlarms, "specialists": recordedAlarms, "sparse-tags": recordedAlarms,
		"collapse":                        recordedAlarms,
		"superseded/paper-before-00fc0d9": supersededAlarms,
		"single/collapse-900":             longAlarms,
	}
	exports, err := filepath.Glob("../../../docs/study/*.db.gz")
	require.NoError(t, err)
	require.NotEmpty(t, exports)
	for _, path := range exports {
		require.Contains(t, studies, strings.TrimSuffix(filepath.Base(path), ".db.gz"))
	}
	for study, alarms := range studies {
		reader, runs := recordedStudy(t, study)
		for _, r := range runs {
			series := recordedGradients(t, reader, r.Run.Run)
			got := [2][]int{raisedAt(series, WarnFactor), raisedAt(series, StopFactor)}
			require.Equal(t, alarms[r.Run.Run], got, "%s of %s", r.Run.Run, study)
		}
	}
}

// recordedGradients returns the gradients of a run's nodes, by round. Every round has some.
func recordedGradients(t *testing.T, reader *store.Reader, run string) [][]event.Gradient {
	t.Helper()
	byWorker, err := reader.Gradients(t.Context(), run)
	require.NoError(t, err)
	series := byWorker[""]
	require.NotEmpty(t, series)
	for _, gradients := range series {
		require.NotEmpty(t, gradients)
	}
	return series
}

// Without the expected growth all runs of sparse-tags that do not share raise both alarms, because their norms grow
// when learning begins. With it one warns. docs/RESULTS.md, "The alarm", has these figures.
func TestAlarmWhereRightAnswersAreRare(t *testing.T) {
	t.Parallel()
	reader, runs := recordedStudy(t, "sparse-tags")
	var growths, ratios, early [3][]float64 // the highest of each run: without others' rollouts, with a correction, with none
	for _, r := range runs {
		series := recordedGradients(t, reader, r.Run.Run)
		shares := 0
		switch r.Run.Experiment {
		case "sparse-tags-4loc4ext", "sparse-tags-4loc4ext-tapered":
			shares = 1
		case "sparse-tags-4loc4ext-uncorrected":
			shares = 2
		default:
			for _, factor := range []float64{WarnFactor, StopFactor} {
				require.NotEmpty(t, Raised(series, Rule{Factor: factor, AllActive: true}), r.Run.Run)
			}
		}
		var a Collapse
		growth, ratio := 0.0, 0.0
		for _, gradients := range series {
			if g, _ := a.Add(gradients...); a.Rounds() >= First {
				growth, ratio = max(growth, g.Recent/g.Reference), max(ratio, g.Ratio())
			}
		}
		growths[shares], ratios[shares] = append(growths[shares], growth), append(ratios[shares], ratio)
		early[shares] = append(early[shares], windowMean(a.active.early))
	}
	require.Len(t, growths[0], 10)
	require.InDelta(t, 0.07, slices.Min(early[0]), 0.005)
	require.InDelta(t, 0.14, slices.Max(early[0]), 0.005)
	require.InDelta(t, 0.61, slices.Min(early[2]), 0.005)
	require.InDelta(t, 0.66, slices.Max(early[2]), 0.005)
	require.InDelta(t, 2.98, slices.Min(growths[0]), 0.005)
	require.InDelta(t, 7.13, slices.Max(growths[0]), 0.005)
	require.InDelta(t, 0.94, slices.Min(ratios[0]), 0.005)
	require.InDelta(t, 1.60, slices.Max(ratios[0]), 0.005)
	require.InDelta(t, 0.96, slices.Min(ratios[1]), 0.005)
	require.InDelta(t, 1.16, slices.Max(ratios[1]), 0.005)
	require.InDelta(t, 1.45, slices.Min(ratios[2]), 0.005)
	require.InDelta(t, 2.00, slices.Max(ratios[2]), 0.005)
}

// recordedStudy opens a study of docs/study.
func recordedStudy(t *testing.T, study string) (*store.Reader, []store.Totals) {
	t.Helper()
	reader, err := store.OpenFile(t.Context(), "../../../docs/study/"+study+".db.gz")
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	runs, err := reader.Runs(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.NotEmpty(t, runs)
	return reader, runs
}

// recordedAlarms are the rounds in which a run of docs/study raises the alarm by WarnFactor and by StopFactor; none in
// the runs that are not here.
var recordedAlarms = map[string][2][]int{
	// Without a correction, the runs that collapsed.
	"paper-4loc4ext-1": {{103}, {141}}, "paper-4loc4ext-2": {{122}, {210}}, "paper-4loc4ext-3": {{89}, {151}}, "paper-4loc4ext-4": {{133}, {230}},
	"paper-4loc4ext-5": {{124}, {176}},
	"paper-2loc6ext-1": {{84}, {121}}, "paper-2loc6ext-2": {{79}, {86}}, "paper-2loc6ext-3": {{101}, {121}},
	"adaptive-adaptive-ema-1": {{98}, {142}}, "adaptive-adaptive-ema-2": {{114}, {159}}, "adaptive-adaptive-ema-3": {{90}, {142}},
	"adaptive-adaptive-ema-fast-1": {{85}, {250}}, "adaptive-adaptive-ema-fast-2": {{79}, {136, 173, 261}}, "adaptive-adaptive-ema-fast-3": {{79}, {129}},

	// The same with fresh seeds, after rule and factors were fixed: they confirm them.
	"control-4loc4ext-uncorrected-1": {{85}, {140}}, "control-4loc4ext-uncorrected-2": {{103}, {161}}, "control-4loc4ext-uncorrected-3": {{105}, {164}},
	"control-4loc4ext-uncorrected-4": {{97}, {164}}, "control-4loc4ext-uncorrected-5": {{90}, {131}},

	// At a third of the rate, without a correction.
	"collapse-4loc4ext-third-1": {{251}, nil}, "collapse-4loc4ext-third-2": {{219}, nil}, "collapse-4loc4ext-third-3": {{291}, nil},
	"collapse-4loc4ext-third-4": {{277}, nil}, "collapse-4loc4ext-third-5": {{254}, nil},

	// Where right answers are rare: 4/0, the best of its five, so a false one; and without a correction, three of the
	// four that collapsed.
	"sparse-tags-4loc0ext-5":             {{126}, nil},
	"sparse-tags-4loc4ext-uncorrected-1": {{100}, nil}, "sparse-tags-4loc4ext-uncorrected-2": {{129}, nil}, "sparse-tags-4loc4ext-uncorrected-3": {{127}, nil},

	// Without a correction, four of seven that did not collapse, and the bandit's three.
	"paper-6loc2ext-2": {{214, 271, 299}, nil}, "paper-6loc2ext-5": {{182, 215}, nil}, "paper-6loc2ext-6": {{175}, nil}, "paper-6loc2ext-7": {{260}, nil},
	"adaptive-adaptive-1": {{109}, nil}, "adaptive-adaptive-2": {{139, 216}, nil}, "adaptive-adaptive-3": {{99, 137}, nil},
}

// longAlarms are those of the pair of 900 rounds, whose one seed decides nothing.
var longAlarms = map[string][2][]int{
	"collapse-4loc4ext-third-1": {{269}, {453, 510, 557, 583, 608}},
}

var supersededAlarms = map[string][2][]int{
	"paper-4loc4ext-1": {{103}, {162, 200}}, "paper-4loc4ext-2": {{140}, {219}}, "paper-4loc4ext-3": {{92}, {128}},
	"paper-2loc6ext-1": {{79}, {99}}, "paper-2loc6ext-2": {{82}, {109}}, "paper-2loc6ext-3": {{108}, {128}},
	"paper-6loc2ext-1": {{199, 221, 271}, nil}, "paper-6loc2ext-2": {{134, 209, 272}, nil},
}

// An adaptive split does not explain the growth of its gradients: where each recent norm is divided by the mean norm of
// rounds 20 to 60 with the same split, they have grown as much.
func TestGradientsGrowAtEqualSplits(t *testing.T) {
	t.Parallel()
	reader, runs := recordedStudy(t, "adaptive")
	adaptive := 0
	for _, r := range runs {
		if !strings.HasPrefix(r.Run.Run, "adaptive-") {
			continue
		}
		adaptive++
		gradients, err := reader.RoundValues(t.Context(), r.Run.Run, "grad_norm", 0)
		require.NoError(t, err)
		splits, err := reader.RoundValues(t.Context(), r.Run.Run, "split_external", 0)
		require.NoError(t, err)
		require.Len(t, splits, len(gradients))
		early := map[float64][]float64{} // norms by the split's J
		for i, v := range gradients {
			if From <= v.Round && v.Round < To {
				early[splits[i].Value] = append(early[splits[i].Value], v.Value)
			}
		}
		highest := 0.0
		for end := First; end <= 300; end++ {
			recent, reference, known, all := 0.0, 0.0, 0, 0
			for i, v := range gradients {
				if v.Round < end-Window || v.Round >= end {
					continue
				}
				if all++; len(early[splits[i].Value]) >= 8 {
					recent, reference, known = recent+v.Value, reference+sample.Mean(early[splits[i].Value]), known+1
				}
			}
			if 2*known >= all {
				highest = max(highest, recent/reference)
			}
		}
		require.InDelta(t, equalSplitGrowth[r.Run.Run], highest, 0.005, r.Run.Run)
		require.Greater(t, highest, WarnFactor)
	}
	require.Equal(t, 9, adaptive)
}

// equalSplitGrowth is the highest growth of a run's gradient norms at equal splits: the bandit's, and rl-swarm's rule.
var equalSplitGrowth = map[string]float64{
	"adaptive-adaptive-1": 2.19, "adaptive-adaptive-2": 2.11, "adaptive-adaptive-3": 2.28,
	"adaptive-adaptive-ema-1": 4.89, "adaptive-adaptive-ema-2": 3.48, "adaptive-adaptive-ema-3": 4.79,
	"adaptive-adaptive-ema-fast-1": 3.63, "adaptive-adaptive-ema-fast-2": 4.43, "adaptive-adaptive-ema-fast-3": 2.25,
}
