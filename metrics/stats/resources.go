package stats

import (
	"math"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// energyGap is the longest interval between two samples of a GPU's power, in seconds, that counts. Longer intervals
// have no measurements.
const energyGap = 60

// Resources holds the time, GPUs, money and energy that a run used.
type Resources struct {
	ActiveSeconds float64  `json:"active_seconds"` // see Elapsed
	GPUs          int      `json:"gpus"`           // number of GPUs sampled
	GPUHours      *float64 `json:"gpu_hours"`      // active hours times GPUs; null: no GPU was sampled
	Cost          *float64 `json:"cost"`           // null: no price
	PriceCurrency string   `json:"price_currency"` // as configured: $, EUR
	EnergyJoules  *float64 `json:"energy_joules"`  // of the GPUs; null: unknown
}

// NewResources sums the resources of a run from its start until a time, in Unix seconds (+Inf: all). elapsed is its
// active seconds in that period.
func NewResources(run store.Run, elapsed float64, devices []store.DeviceSample, until float64) Resources {
	out := Resources{ActiveSeconds: elapsed}
	seen := map[string]bool{}
	for _, d := range devices {
		seen[d.UUID] = true
	}
	if out.GPUs = len(seen); out.GPUs > 0 {
		out.GPUHours = Optional(out.ActiveSeconds / 3600 * float64(out.GPUs))
	}
	if out.Cost = Cost(out.ActiveSeconds, run.PricePerHour); out.Cost != nil {
		out.PriceCurrency = run.PriceCurrency
	}
	out.EnergyJoules = Optional(Energy(devices, until))
	return out
}

// Energy returns the joules that GPUs consumed until a time, in Unix seconds. It integrates each GPU's power over its
// samples, in order of time, by the trapezoidal rule. Intervals longer than energyGap count as 0. It is NaN if no two
// samples have a power.
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
