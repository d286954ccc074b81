package stats

import (
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// SweepPending is the state of a sweep's run that has not started.
const SweepPending = "pending"

// SweepRow is one run of a sweep. If it has not started, State is SweepPending and it has no measurements.
type SweepRow struct {
	Experiment       string   `json:"experiment"`
	Config           string   `json:"config"` // preset or file, as passed to the sweep; runs of one config are assumed to take equally long
	Seed             int64    `json:"seed"`
	Run              string   `json:"run,omitempty"`
	State            string   `json:"state"`  // pending, or as in Status
	Round            int      `json:"round"`  // finished
	Rounds           int      `json:"rounds"` // planned
	SecondsPerRound  *float64 `json:"seconds_per_round"`
	ActiveSeconds    float64  `json:"active_seconds"` // Status's elapsed_seconds
	CumulativeReward float64  `json:"cumulative_reward"`
	ETASeconds       *float64 `json:"eta_seconds"` // from the status of a running run, else set by NewSweepStatus; null: unknown yet; 0: the run has ended
	Cost             *float64 `json:"cost"`        // set by NewSweepStatus; null: no price

	StoppedByAlarm bool `json:"stopped_by_alarm,omitempty"` // and the sweep leaves it so
}

// SweepStatus summarizes a sweep.
type SweepStatus struct {
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

	Rows []SweepRow `json:"rows"`
}

// NewSweepStatus sums up a sweep whose runs follow one another on one machine, at a price per hour (0: none). The
// remaining time of a started run uses its own pace. A run that has not started uses the pace of other runs with its
// configuration, loading included, else that of all runs. rows is not modified.
func NewSweepStatus(rows []SweepRow, pricePerHour float64, currency string) SweepStatus {
	out := SweepStatus{Runs: len(rows), Rows: make([]SweepRow, len(rows))}
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
		r.ETASeconds = sweepETA(r, rows)
		r.Cost = cost(r.ActiveSeconds, pricePerHour)
		if r.ETASeconds == nil {
			known = false
		} else {
			eta += *r.ETASeconds
		}
		out.ActiveSeconds += max(0, r.ActiveSeconds)
		out.Rows[i] = r
	}
	if known {
		out.ETASeconds = Optional(eta)
	}
	if out.Cost = cost(out.ActiveSeconds, pricePerHour); out.Cost != nil {
		out.PricePerHour, out.PriceCurrency = &pricePerHour, currency
		if known {
			out.ProjectedCost = cost(out.ActiveSeconds+eta, pricePerHour)
		}
	}
	return out
}

// sweepETA returns the remaining seconds of a run once it is running; nil: unknown.
func sweepETA(r SweepRow, rows []SweepRow) *float64 {
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
		return Optional(float64(left) * max(0, *r.SecondsPerRound))
	}
	pace := meanPace(rows, func(other SweepRow) bool { return other.Config == r.Config })
	if !units.Finite(pace) {
		pace = meanPace(rows, func(SweepRow) bool { return true })
	}
	return Optional(float64(left) * pace)
}

// meanPace returns the mean seconds per round over the chosen rows; NaN: no chosen row has a pace.
func meanPace(rows []SweepRow, chosen func(SweepRow) bool) float64 {
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
