package event

import (
	"math"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Alarm says that a run's gradients have grown as they did before recorded collapses (docs/METRICS.md, "The alarm").
// Its event's Message says what to try.
type Alarm struct {
	Round     int     `json:"round"`     // from 0: the newest of the rounds that were judged
	Recent    float64 `json:"recent"`    // gradient norm, mean over nodes and the newest rounds
	Reference float64 `json:"reference"` // the same of the early rounds that Recent is compared with
	Action    string  `json:"action"`    // what follows: one of Alarm*

	// ExpectedGrowth is the growth in the share of groups with an advantage, at least 1. The bound is a factor times
	// ExpectedGrowth times Reference. 0: an older program recorded the alarm, whose bound was the factor times
	// Reference.
	ExpectedGrowth float64 `json:"expected_growth,omitempty"`

	LowerFrom int `json:"lower_from,omitempty"` // with AlarmLower: the first round with a lower learning rate
}

// Actions of an Alarm.
const (
	AlarmWarn  = "warn"       // nothing
	AlarmStop  = "stop"       // the run stops cleanly
	AlarmLower = "lower-rate" // the learning rate becomes lower
)

// Gradient is what the alarm judges of one node's round. NaN: not known.
type Gradient struct {
	Norm          float64 // grad_norm
	Flat          float64 // frac_reward_zero_std: share of own groups whose rewards are all equal
	Own, External float64 // groups in the training set; both 0: a --node-command did not report them
}

// Gradient returns the round's gradient, or false if the node did not train or its norm is not finite.
func (r *Round) Gradient() (Gradient, bool) {
	if _, notFinite := r.NonFinite["grad_norm"]; notFinite || r.GenerateOnly || !units.Finite(r.GradNorm) {
		return Gradient{}, false
	}
	g := Gradient{r.GradNorm, r.FracRewardZeroStd, float64(r.TrainedOwn), float64(r.TrainedExternal)}
	if _, notFinite := r.NonFinite["frac_reward_zero_std"]; notFinite {
		g.Flat = math.NaN()
	}
	return g, true
}
