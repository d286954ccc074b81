package sapo

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Split is a round's I and J.
type Split struct {
	Own      int `json:"own"`
	External int `json:"external"`
}

// splitOf returns the split of a budget with that J, or the nearest possible one. A node always keeps one own
// question, because it needs a reward to report and a rollout to share.
func splitOf(budget, external int) Split {
	external = max(0, min(external, budget-1))
	return Split{budget - external, external}
}

// SplitEMA is rl-swarm's rule (its adaptive_ij.py): J rises after a reward above the moving average, and falls
// after one below.
type SplitEMA struct {
	External float64 `json:"external"` // J, continuous, 0 to the budget
	Average  float64 `json:"average"`  // moving average of the rewards
	Rounds   int     `json:"rounds"`   // rounds observed
}

// Observe updates the average with a round's reward, then J += alpha (reward - average). The first reward
// initializes the average.
func (s *SplitEMA) Observe(reward, alpha, decay float64, budget int) {
	if s.Rounds == 0 {
		s.Average = reward
	} else {
		s.Average = decay*s.Average + (1-decay)*reward
	}
	s.Rounds++
	s.External = max(0, min(s.External+alpha*(reward-s.Average), float64(budget)))
}

// Next is the next round's split: J rounded, halves to the even number.
func (s SplitEMA) Next(budget int) Split { return splitOf(budget, int(math.RoundToEven(s.External))) }

// Constants of the bandit.
const (
	banditDiscount = 0.95 // weight of a credit after one more: about the last twenty count, because gains fade
	banditPrior    = 1    // weight of the mean of all credits in each arm, in credits
)

// SplitArm is one split that a bandit may choose, with the discounted number and sum of its credits.
type SplitArm struct {
	External int     `json:"external"`
	Weight   float64 `json:"weight"`
	Sum      float64 `json:"sum"`
	Tried    bool    `json:"tried"`
}

// SplitBandit is discounted Gaussian Thompson sampling over splits of a budget. An arm's credit is its gain divided
// by its cost, in any unit: scaling all credits does not change the choices.
//
// The belief about an arm a with discounted number w_a and mean x_a of credits is N(u_a, s² / (w_a + k)), u_a =
// (w_a x_a + k m) / (w_a + k). Here m is the mean of all credits, s² is the discounted mean square of their
// distances from their arms' u_a, and k = banditPrior. An arm that is not tried for long falls back to m, with its
// initial uncertainty. Each choice draws one value per arm and takes the arm with the highest value.
type SplitBandit struct {
	Arms    []SplitArm `json:"arms"`    // in the order of the first tries
	Squares float64    `json:"squares"` // discounted sum of all credits' squares
	Arm     int        `json:"arm"`     // current arm
}

// NewSplitBandit returns a bandit with the arms J = 0, 1/4, 1/2 and 3/4 of the budget, and first's J. It tries first,
// then every other arm once, in an order that depends on the seed. Nodes with different seeds begin with different
// arms.
func NewSplitBandit(first Split, seed uint64) SplitBandit {
	budget := first.Own + first.External
	others := []int{0, budget / 4, budget / 2, 3 * budget / 4}
	slices.Sort(others)
	others = slices.DeleteFunc(slices.Compact(others), func(j int) bool { return j == first.External })
	shuffle(others, len(others), rand.New(rand.NewPCG(seed, 0x5357_4152_4d04)))
	b := SplitBandit{Arms: []SplitArm{{External: first.External}}}
	for _, j := range others {
		b.Arms = append(b.Arms, SplitArm{External: j})
	}
	return b
}

// Next is the split of the current arm.
func (b SplitBandit) Next(budget int) Split { return splitOf(budget, b.Arms[b.Arm].External) }

// Credit credits the current arm with gain / cost. cost is positive. A result that is not finite gives no credit.
func (b *SplitBandit) Credit(gain, cost float64) {
	x := gain / cost
	if !units.Finite(x) {
		return
	}
	b.Squares = b.Squares*banditDiscount + x*x
	for i := range b.Arms {
		b.Arms[i].Weight *= banditDiscount
		b.Arms[i].Sum *= banditDiscount
	}
	arm := &b.Arms[b.Arm]
	arm.Weight, arm.Sum = arm.Weight+1, arm.Sum+x
}

// Choose selects the next arm: the first untried one, or the one with the highest random draw.
func (b *SplitBandit) Choose(seed uint64) {
	b.Arms[b.Arm].Tried = true
	if at := slices.IndexFunc(b.Arms, func(a SplitArm) bool { return !a.Tried }); at >= 0 {
		b.Arm = at
		return
	}
	worth, deviation := b.beliefs()
	rng := rand.New(rand.NewPCG(seed, 0x5357_4152_4d05))
	var best, luckiest float64
	for i, a := range b.Arms {
		luck := rng.NormFloat64()
		value := worth[i] + luck*deviation/math.Sqrt(a.Weight+banditPrior)
		if i == 0 || value > best || value == best && luck > luckiest { // values are equal if all credits are
			b.Arm, best, luckiest = i, value, luck
		}
	}
}

// beliefs returns the expected credit of each arm, and the deviation of credits from it.
func (b SplitBandit) beliefs() (worth []float64, deviation float64) {
	var weight, sum float64
	for _, a := range b.Arms {
		weight, sum = weight+a.Weight, sum+a.Sum
	}
	mean := sum / max(weight, math.SmallestNonzeroFloat64)
	squares := b.Squares
	for _, a := range b.Arms {
		w := (a.Sum + banditPrior*mean) / (a.Weight + banditPrior)
		worth = append(worth, w)
		squares -= w * (2*a.Sum - w*a.Weight) // subtracts the squared distances of the arm's credits from w
	}
	return worth, math.Sqrt(max(0, squares) / max(weight, 1))
}
