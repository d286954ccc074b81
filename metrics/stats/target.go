package stats

import (
	"math"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Reach is whether and when a run reached a reward.
type Reach struct {
	Reached   bool
	Rounds    int       // until it did; else all that it has done
	Resources Resources // until then
}

// NewReach looks for the first round at which the trailing moving average of the agent-averaged reward, over a whole
// window of rounds, is at least target. A window that isn't whole yet doesn't count: one lucky first round is no reward
// reached.
func NewReach(run store.Run, bands []store.RoundBand, attempts []store.Attempt, devices []store.DeviceSample, target float64, window int) Reach {
	rewards := make([]float64, len(bands))
	for i, b := range bands {
		rewards[i] = b.Mean
	}
	end := 0.0
	for i, average := range MovingAverage(rewards, window) {
		end = max(end, bands[i].End)
		if i+1 >= window && average >= target {
			return Reach{Reached: true, Rounds: bands[i].Round + 1, Resources: NewResources(run, Elapsed(attempts, end), devices, end)}
		}
	}
	out := Reach{Resources: NewResources(run, Elapsed(attempts, math.Inf(1)), devices, math.Inf(1))}
	if n := len(bands); n > 0 {
		out.Rounds = bands[n-1].Round + 1
	}
	return out
}

// TargetRow is what an experiment's runs took to reach a reward. Figures are medians over all its runs, those that
// haven't reached it taken for later than any that has: null where the median is such a run, or where a run that
// reached it lacks the figure.
type TargetRow struct {
	Reward        float64  `json:"reward"`
	Window        int      `json:"window"` // rounds of the moving average
	Runs          int      `json:"runs"`
	Reached       int      `json:"reached"`
	Rounds        *float64 `json:"rounds"`
	ActiveSeconds *float64 `json:"active_seconds"`
	GPUHours      *float64 `json:"gpu_hours"`
	Cost          *float64 `json:"cost"`
	PriceCurrency string   `json:"price_currency"`
	EnergyJoules  *float64 `json:"energy_joules"`
}

func newTargetRow(g group, reaches map[string]Reach, o CompareOptions) *TargetRow {
	row := &TargetRow{Reward: o.Target, Window: o.window(), Runs: len(g.runs)}
	var list []Reach
	for _, r := range g.runs {
		x := reaches[r.Run.Run]
		list = append(list, x)
		if x.Reached {
			row.Reached++
		}
	}
	row.Rounds = medianReach(list, func(x Reach) *float64 { rounds := float64(x.Rounds); return &rounds })
	row.ActiveSeconds = medianReach(list, func(x Reach) *float64 { return &x.Resources.ActiveSeconds })
	row.GPUHours = medianReach(list, func(x Reach) *float64 { return x.Resources.GPUHours })
	row.EnergyJoules = medianReach(list, func(x Reach) *float64 { return x.Resources.EnergyJoules })
	if currency, ok := oneCurrency(list); ok {
		row.PriceCurrency = currency
		row.Cost = medianReach(list, func(x Reach) *float64 { return x.Resources.Cost })
	}
	return row
}

// oneCurrency returns the currency of all runs that reached the target and have a price; ok is false where they have
// several.
func oneCurrency(list []Reach) (currency string, ok bool) {
	found := map[string]bool{}
	for _, x := range list {
		if x.Reached && x.Resources.Cost != nil {
			currency = x.Resources.PriceCurrency
			found[currency] = true
		}
	}
	return currency, len(found) < 2
}

func medianReach(list []Reach, figure func(Reach) *float64) *float64 {
	values := make([]float64, len(list))
	for i, x := range list {
		values[i] = math.Inf(1)
		if x.Reached {
			v := figure(x)
			if v == nil {
				return nil
			}
			values[i] = *v
		}
	}
	return optional(sample.Median(values))
}
