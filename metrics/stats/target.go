package stats

import (
	"math"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Reach reports whether and when a run reached a reward.
type Reach struct {
	Reached   bool
	Rounds    int       // rounds until the reward was reached, else all finished rounds
	Resources Resources // used in these rounds
}

// NewReach looks for the first round at which the trailing moving average of the agent-averaged reward, over a full
// window of rounds, is at least target. Incomplete windows do not count, because a single lucky round at the start
// could reach the target.
func NewReach(run store.Run, bands []store.RoundBand, attempts []store.Attempt, devices []store.DeviceSample, target float64, window int) Reach {
	rewards := make([]float64, len(bands))
	for i, b := range bands {
		rewards[i] = b.Mean
	}
	end := 0.0
	for i, average := range sample.MovingAverage(rewards, window) {
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

// TargetRow holds the medians of the resources with which an experiment's runs reached a reward. A run that has not
// reached it counts as slower than all runs that have. A figure is null if its median is such a run, or if a run that
// reached the reward lacks the figure.
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

// oneCurrency returns the common currency of all runs that reached the target and have a price; ok is false if there
// are several.
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
	return Optional(sample.Median(values))
}
