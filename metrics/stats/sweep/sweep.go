// Package sweep sums up the runs of a sweep: states, remaining time and cost. It is pure.
package sweep

import (
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Pending is the state of a sweep's run that has not started.
const Pending = "pending"

// Row is one run of a sweep. If it has not started, State is Pending and it has no measurements.
type Row struct {
	Experiment       string   `json:"experiment"`
	Config           string   `json:"config"` // preset or file, as passed to the sweep; runs of one config are assumed to take equally long
	Seed             int64    `json:"seed"`
	Run              string   `json:"run,omitempty"`
	State            string   `json:"state"`  // pending, or as in stats.Status
	Round            int      `json:"round"`  // finished
	Rounds           int      `json:"rounds"` // planned
	SecondsPerRound  *float64 `json:"seconds_per_round"`
	ActiveSeconds    float64  `json:"active_seconds"` // Status's elapsed_seconds
	CumulativeReward float64  `json:"cumulative_reward"`
	ETASeconds       *float64 `json:"eta_seconds"` // from the status of a running run, else set by New; null: unknown yet; 0: the run has ended
	Cost             *float64 `json:"cost"`        // set by New; null: no price

	StoppedByAlarm bool `json:"stopped_by_alarm,omitempty"` // and the sweep leaves it so
}

// Status summarizes a sweep.
type Status struct {
	Runs           int      `json:"runs"`
	Done           int      `json:"done"`
	Failed         int      `json:"failed"`                // failed or lost runs: some of their nodes gave up
	Left           int      `json:"left"`                  // all other runs
	StoppedByAlarm int      `json:"runs_stopped_by_alarm"` // they count in no mean, and the sweep does not continue them
	ActiveSeconds  float64  `json:"active_seconds"`
	ETASeconds     *float64 `json:"eta_seconds"` // until the last run is done; null: unknown yet

	PricePerHour  *float64 `json:"price_per_hour"`
	PriceCurrency string   `json:"price_currency"`
	Cost          *float64 `json:"cost"`           // so far; null: no price
	ProjectedCost *float64 `json:"projected_cost"` // total at the end; null: no price, or no ETA

	Rows []Row `json:"rows"`
}

// New sums up a sweep whose runs follow one another on one machine, at a price per hour (0: none). The
// remaining time of a started run uses its own pace. A run that has not started uses the pace of other runs with its
// configuration, loading included, else that of all runs. rows is not modified.
func New(rows []Row, pricePerHour float64, currency string) Status {
	out := Status{Runs: len(rows), Rows: make([]Row, len(rows))}
	eta, known := 0.0, true
	for i, r := range rows {
		switch {
		case r.StoppedByAlarm:
			out.StoppedByAlarm++
		case r.State == store.RunDone:
			out.Done++
		case r.State == store.RunFailed || r.State == store.RunLost:
			out.Failed++
		default:
			out.Left++
		}
		r.ETASeconds = remaining(r, rows)
		r.Cost = stats.Cost(r.ActiveSeconds, pricePerHour)
		if r.ETASeconds == nil {
			known = false
		} else {
			eta += *r.ETASeconds
		}
		out.ActiveSeconds += max(0, r.ActiveSeconds)
		out.Rows[i] = r
	}
	if known {
		out.ETASeconds = stats.Optional(eta)
	}
	if out.Cost = stats.Cost(out.ActiveSeconds, pricePerHour); out.Cost != nil {
		out.PricePerHour, out.PriceCurrency = &pricePerHour, currency
		if known {
			out.ProjectedCost = stats.Cost(out.ActiveSeconds+eta, pricePerHour)
		}
	}
	return out
}

// remaining returns the remaining seconds of a run once it is running; nil: unknown.
func remaining(r Row, rows []Row) *float64 {
	zero := 0.0
	left := max(0, r.Rounds-r.Round)
	switch r.State {
	case store.RunDone, store.RunFailed, store.RunLost:
		return &zero
	}
	if left == 0 || r.StoppedByAlarm {
		return &zero
	}
	if r.State == store.RunRunning && r.ETASeconds != nil {
		return r.ETASeconds
	}
	if r.SecondsPerRound != nil {
		return stats.Optional(float64(left) * max(0, *r.SecondsPerRound))
	}
	pace := meanPace(rows, func(other Row) bool { return other.Config == r.Config })
	if !units.Finite(pace) {
		pace = meanPace(rows, func(Row) bool { return true })
	}
	return stats.Optional(float64(left) * pace)
}

// meanPace returns the mean seconds per round over the chosen rows; NaN: no chosen row has a pace.
func meanPace(rows []Row, chosen func(Row) bool) float64 {
	var paces []float64
	for _, r := range rows {
		switch {
		case !chosen(r):
		case r.State == store.RunDone && r.Round > 0 && r.ActiveSeconds > 0:
			paces = append(paces, r.ActiveSeconds/float64(r.Round)) // includes loading
		case r.SecondsPerRound != nil:
			paces = append(paces, max(0, *r.SecondsPerRound))
		}
	}
	return sample.Mean(paces)
}
