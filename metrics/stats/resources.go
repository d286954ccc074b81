package stats

import (
	"math"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// energyGap is the longest time between two samples of a GPU's power, in seconds, over which it counts: beyond that
// nobody looked.
const energyGap = 60

// Resources are what a run took of its machine.
type Resources struct {
	ActiveSeconds float64  `json:"active_seconds"` // at work: see Elapsed
	GPUs          int      `json:"gpus"`           // that were sampled
	GPUHours      *float64 `json:"gpu_hours"`      // active hours times GPUs; null: none was sampled
	Cost          *float64 `json:"cost"`           // null: no price
	PriceCurrency string   `json:"price_currency"` // as given: $, EUR
	EnergyJoules  *float64 `json:"energy_joules"`  // of the GPUs; null: their power isn't known
}

// NewResources adds up what a run took from its start until a time, in Unix seconds (+Inf: all), in which it was at
// work for so many seconds.
func NewResources(run store.Run, elapsed float64, devices []store.DeviceSample, until float64) Resources {
	out := Resources{ActiveSeconds: elapsed}
	seen := map[string]bool{}
	for _, d := range devices {
		seen[d.UUID] = true
	}
	if out.GPUs = len(seen); out.GPUs > 0 {
		out.GPUHours = optional(out.ActiveSeconds / 3600 * float64(out.GPUs))
	}
	if out.Cost = cost(out.ActiveSeconds, run.PricePerHour); out.Cost != nil {
		out.PriceCurrency = run.PriceCurrency
	}
	out.EnergyJoules = optional(Energy(devices, until))
	return out
}

// Energy returns the joules that GPUs took until a time, in Unix seconds: the integral of each one's power over its
// samples, in the order of time, by the trapezoidal rule. Between samples a minute or more apart nothing is counted. It
// is NaN where no two samples say a power.
func Energy(samples []store.DeviceSample, until float64) float64 {
	last := map[string]store.DeviceSample{}
	sum, known := 0.0, false
	for _, s := range samples {
		if s.Time > until {
			continue
		}
		before, ok := last[s.UUID]
		last[s.UUID] = s
		seconds := s.Time - before.Time
		if !ok || !isPower(before.PowerWatts) || !isPower(s.PowerWatts) || !(seconds > 0 && seconds < energyGap) {
			continue
		}
		sum += seconds * (before.PowerWatts + s.PowerWatts) / 2
		known = true
	}
	if !known {
		return math.NaN()
	}
	return sum
}

func isPower(watts float64) bool { return watts >= 0 && units.Finite(watts) }
