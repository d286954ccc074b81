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

	// How many times Reference the norm may be, because so many times as many groups have an advantage. At least 1; 0:
	// an older program recorded the alarm.
	ExpectedGrowth float64 `json:"expected_growth,omitempty"`

	LowerFrom int `json:"lower_from,omitempty"` // with AlarmLower: the first round with a lower learning rate
}

// Actions of an Alarm.
const (
	AlarmWarn  = "warn"       // nothing
	AlarmStop  = "stop"       // the run stops cleanly
	AlarmLower = "lower-rate" // the learning rate becomes lower
)

// Gradient is what the alarm judges of one node's round.
type Gradient struct {
	Norm   float64 // grad_norm
	Groups float64 // groups of the training set that have an advantage; NaN: not known
}

// GradientOf returns the gradient of a round with these metrics. Own groups have no advantage if their rewards are all
// equal. Others' groups without one are filtered out before training. A --node-command need not report numbers of
// groups: then the share of its groups stands for them.
func GradientOf(gradNorm, fracRewardZeroStd, trainedOwn, trainedExternal float64) Gradient {
	return Gradient{Norm: gradNorm, Groups: max(1, trainedOwn)*(1-fracRewardZeroStd) + trainedExternal}
}

// Gradient returns the round's gradient, or false if the node did not train or its norm is not finite.
func (r *Round) Gradient() (Gradient, bool) {
	if _, notFinite := r.NonFinite["grad_norm"]; notFinite || r.GenerateOnly || !units.Finite(r.GradNorm) {
		return Gradient{}, false
	}
	zero := r.FracRewardZeroStd
	if _, notFinite := r.NonFinite["frac_reward_zero_std"]; notFinite {
		zero = math.NaN()
	}
	return GradientOf(r.GradNorm, zero, float64(r.TrainedOwn), float64(r.TrainedExternal)), true
}
