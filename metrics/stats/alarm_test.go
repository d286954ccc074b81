package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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
		for range p.rounds {
			list = append(list, p.value)
		}
	}
	return list
}

// raisedAt are the rounds in which the alarm is raised.
func raisedAt(series []float64) (rounds []int) {
	for _, g := range Alarms(series) {
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
		require.Equal(t, c.want, raisedAt(c.series), name)
	}
	g := Alarms(norms(stretch{100, 1}, stretch{200, 2}))[0]
	require.Equal(t, 112, g.Round)
	require.InDelta(t, 1.65, g.Recent, 1e-12)
	require.InDelta(t, 1, g.Reference, 1e-12)

	growing := make([]float64, 300)
	for i := range growing {
		growing[i] = 0.3 * math.Pow(1.01, float64(i))
	}
	grown := Alarms(growing)
	require.Len(t, grown, 1)
	ratio := grown[0].Recent / grown[0].Reference
	require.True(t, 1.6 < ratio && ratio <= 1.6*1.01, "at the first round at which it holds: %v", ratio)
}

// What the alarm says does not depend on the order in which nodes report, nor on anything but the values.
func TestAlarmIsAFunctionOfTheValues(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(3, 4))
	var one, other CollapseAlarm
	raised := 0
	for round := range 400 {
		nodes := make([]float64, 8)
		for i := range nodes {
			nodes[i] = (0.5 + draw.Float64()) * (1 + float64(round)/100)
		}
		g, now := one.Add(nodes...)
		slices.Reverse(nodes)
		h, also := other.Add(nodes...)
		require.Equal(t, []any{g.Round, g.Recent, now}, []any{h.Round, h.Recent, also})
		if now {
			raised++
		}
	}
	require.Equal(t, 1, raised)
	require.Equal(t, 400, one.Rounds())
}

// The recorded studies, on which the rule rests: docs/RESULTS.md, "The alarm", has these rounds.
func TestAlarmOfTheRecordedStudies(t *testing.T) {
	t.Parallel()
	for _, study := range []string{"paper", "corrected", "sparse", "control", "adaptive"} {
		reader, err := store.OpenFile(t.Context(), "../../docs/study/"+study+".db.gz")
		require.NoError(t, err)
		defer reader.Close()
		runs, err := reader.Runs(t.Context(), store.Filter{})
		require.NoError(t, err)
		require.NotEmpty(t, runs)
		for _, r := range runs {
			bands, err := reader.RoundBands(t.Context(), r.Run.Run, "grad_norm", 0)
			require.NoError(t, err)
			var series []float64
			for _, b := range bands {
				require.Equal(t, len(series), b.Round)
				series = append(series, b.Mean)
			}
			want := recordedAlarms[r.Run.Run]
			require.Equal(t, want, raisedAt(series), "%s of %s", r.Run.Run, study)
		}
	}
}

// recordedAlarms are the rounds in which the alarm is raised in a run of docs/study; none in the runs that are not
// here.
var recordedAlarms = map[string][]int{
	// Without a correction, the runs that collapsed.
	"paper-4loc4ext-1": {103}, "paper-4loc4ext-2": {122}, "paper-4loc4ext-3": {89}, "paper-4loc4ext-4": {133}, "paper-4loc4ext-5": {124},
	"paper-2loc6ext-1": {84}, "paper-2loc6ext-2": {79}, "paper-2loc6ext-3": {101},
	// Without a correction, four of seven that did not collapse.
	"paper-6loc2ext-2": {214, 271, 299}, "paper-6loc2ext-5": {182, 215}, "paper-6loc2ext-6": {175}, "paper-6loc2ext-7": {260},

	// Without a correction, and with a split that changes: the bandit's runs did not collapse.
	"adaptive-adaptive-1": {109}, "adaptive-adaptive-2": {139, 216}, "adaptive-adaptive-3": {99, 137},
	"adaptive-adaptive-ema-1": {98}, "adaptive-adaptive-ema-2": {114}, "adaptive-adaptive-ema-3": {90},
	"adaptive-adaptive-ema-fast-1": {85}, "adaptive-adaptive-ema-fast-2": {79}, "adaptive-adaptive-ema-fast-3": {79},
}
