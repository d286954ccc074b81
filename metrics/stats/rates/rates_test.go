package rates

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
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
		series = append(series, []event.Gradient{{Norm: norm, Flat: 0.75, Own: 4}})
	}
	return series
}

// pilot is one of 80 rounds at a rate. Its reward is that of all rounds, with noise that all pilots share and noise of
// its own.
func pilot(rate, reward, noise float64, norms []float64) Pilot {
	shared, own := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, math.Float64bits(rate)))
	p := Pilot{LearningRate: rate, Done: true, Gradients: gradients(norms)}
	for range norms {
		p.Rewards = append(p.Rewards, reward+0.2*(shared.Float64()-0.5)+noise*(own.Float64()-0.5))
	}
	return p
}

func TestTheAdviceIsTheHighestRateThatHolds(t *testing.T) {
	t.Parallel()
	flat, grown, near := norms(stretch{80, 1}), norms(stretch{60, 1}, stretch{20, 1.61}), norms(stretch{60, 1}, stretch{20, 1.59})
	nan := math.NaN()
	unfinished := pilot(3, 0.3, 0.01, norms(stretch{79, 1}))
	unfinished.Done = false
	stopped := pilot(3, 0.3, 0.01, grown)
	stopped.Done = false
	const none = 0.0
	for name, c := range map[string]struct {
		pilots   []Pilot
		rate     float64
		outcomes []string // by rate
	}{
		"the highest of equal ones": {[]Pilot{pilot(3, 0.3, 0.01, flat), pilot(1, 0.3, 0.01, near), pilot(0.3, 0.3, 0.01, flat)}, 3,
			[]string{Possible, Possible, Advised}},
		"a norm that grows is out, however good the reward": {[]Pilot{pilot(0.3, 0.1, 0.01, flat), pilot(1, 0.3, 0.01, flat), pilot(3, 0.9, 0.01, grown)}, 1,
			[]string{Lower, Advised, Alarm}},
		"a higher rate with a lower reward": {[]Pilot{pilot(1, 0.3, 0.01, flat), pilot(3, 0.2, 0.01, flat)}, 1, []string{Advised, Lower}},
		"a lower reward within noise":       {[]Pilot{pilot(1, 0.3, 0.3, flat), pilot(3, 0.28, 0.3, flat)}, 3, []string{Possible, Advised}},
		"one below, the others level": {[]Pilot{pilot(0.3, 0.2, 0.01, flat), pilot(1, 0.3, 0.01, flat), pilot(3, 0.3, 0.01, flat)}, 3,
			[]string{Lower, Possible, Advised}},
		"all grow":                     {[]Pilot{pilot(1, 0.3, 0.01, grown), pilot(3, 0.3, 0.01, grown)}, none, []string{Alarm, Alarm}},
		"one is not done":              {[]Pilot{pilot(1, 0.3, 0.01, flat), unfinished}, none, []string{Possible, Unfinished}},
		"one was stopped by its alarm": {[]Pilot{pilot(1, 0.3, 0.01, flat), stopped}, 1, []string{Advised, Alarm}},
		"no gradients":                 {[]Pilot{pilot(1, 0.3, 0.01, flat), pilot(3, 0.9, 0.01, norms(stretch{80, 0}))}, 1, []string{Advised, Unknown}},
		"a norm that is not finite": {[]Pilot{pilot(1, 0.3, 0.01, flat), pilot(3, 0.9, 0.01, norms(stretch{60, 1}, stretch{20, nan}))}, 1,
			[]string{Advised, Unknown}},
		"too short": {[]Pilot{pilot(1, 0.3, 0.01, norms(stretch{79, 1}))}, none, []string{Unknown}},
		"nothing":   {[]Pilot{{LearningRate: 1}}, none, []string{Unfinished}},
	} {
		advice := Judge(c.pilots)
		var got []string
		for _, p := range advice.Pilots {
			got = append(got, p.Outcome)
		}
		require.Equal(t, c.outcomes, got, name)
		if c.rate == none {
			require.Nil(t, advice.LearningRate, name)
			continue
		}
		require.NotNil(t, advice.LearningRate, name)
		require.Equal(t, c.rate, *advice.LearningRate, name)
	}
}

// The figures beside the advice.
func TestWhatAPilotShows(t *testing.T) {
	t.Parallel()
	// An alarm in round 112 that has passed: the newest rounds are as the early ones.
	passed := Pilot{LearningRate: 3, Done: true, Gradients: gradients(norms(stretch{100, 1}, stretch{40, 2}, stretch{40, 1}))}
	passed.Rewards = norms(stretch{160, 0.5}, stretch{20, 0.25})
	other := Pilot{LearningRate: 1, Done: true, Gradients: gradients(norms(stretch{180, 2})), Rewards: norms(stretch{160, 0}, stretch{20, 0.5})}
	third := other
	third.LearningRate, third.Rewards = 2, norms(stretch{160, 0}, stretch{10, 0.3}, stretch{10, 0.4})
	for _, round := range passed.Gradients[150:] {
		round[0].Flat = 0.5
	}
	advice := Judge([]Pilot{passed, other, third})
	require.Equal(t, []float64{1, 2, 3}, []float64{advice.Pilots[0].LearningRate, advice.Pilots[1].LearningRate, advice.Pilots[2].LearningRate})
	a, b, c := advice.Pilots[0], advice.Pilots[1], advice.Pilots[2]
	require.Equal(t, 112, *c.AlarmRound)
	require.InDelta(t, 0.5, *c.Growth, 1e-12, "the norm is as at first, with twice the share of groups")
	require.InDelta(t, 0.25, *c.Reward, 1e-12)
	require.Nil(t, c.Behind)
	require.Nil(t, a.AlarmRound)
	require.Nil(t, a.Behind, "it is the best")
	require.InDelta(t, 0.15, *b.Behind, 1e-12)
	// Ten differences of 0.2 and ten of 0.1: standard deviation 0.0513, 19 degrees of freedom, quantile 2.093.
	require.InDelta(t, 0.15-2.093*0.0513/math.Sqrt(20), *b.BehindLow, 1e-4)
	require.InDelta(t, 0.15+2.093*0.0513/math.Sqrt(20), *b.BehindHigh, 1e-4)
	require.Equal(t, []string{Advised, Lower, Alarm}, []string{a.Outcome, b.Outcome, c.Outcome})
}

// How many recorded runs a pilot of so many rounds would have found: docs/TUNE.md, "Try learning rates".
func TestWhatPilotsWouldHaveFound(t *testing.T) {
	t.Parallel()
	alarms := map[string]map[int]int{} // by experiment: in 80 and in 140 rounds; 0: its runs
	for _, study := range []string{"paper", "corrected", "sparse", "control"} {
		reader, err := store.OpenFile(t.Context(), "../../../docs/study/"+study+".db.gz")
		require.NoError(t, err)
		defer reader.Close()
		runs, err := reader.Runs(t.Context(), store.Filter{})
		require.NoError(t, err)
		for _, r := range runs {
			if study != "paper" && r.Experiment == "paper-8loc0ext" {
				continue // counted already
			}
			gradients, err := reader.Gradients(t.Context(), r.Run.Run)
			require.NoError(t, err)
			found := alarms[r.Experiment]
			if found == nil {
				found = map[int]int{}
				alarms[r.Experiment] = found
			}
			found[0]++
			for _, rounds := range []int{80, 140} {
				p := Pilot{Done: true, Gradients: gradients[""][:rounds], Rewards: slices.Repeat([]float64{1}, rounds)}
				if Judge([]Pilot{p}).Pilots[0].Outcome == Alarm {
					found[rounds]++
				}
			}
		}
	}
	collapsed, others := map[int]int{}, map[int]int{}
	for experiment, found := range alarms {
		into := others
		switch experiment {
		case "paper-4loc4ext", "paper-2loc6ext", "control-4loc4ext-uncorrected":
			into = collapsed
		case "paper-6loc2ext": // it is not known whether its alarms, all later, are false
			require.Zero(t, found[140])
			continue
		}
		for rounds, n := range found {
			into[rounds] += n
		}
	}
	require.Equal(t, map[int]int{0: 13, 80: 1, 140: 13}, collapsed)
	require.Equal(t, map[int]int{0: 47}, others)
}
