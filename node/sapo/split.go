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

// splitOf is the split of a budget with that J, or the nearest there is: a node always has a question of its own, or it
// would have no reward to tell and nothing to share.
func splitOf(budget, external int) Split {
	external = max(0, min(external, budget-1))
	return Split{budget - external, external}
}

// SplitEMA is rl-swarm's rule (its adaptive_ij.py): J rises while a round's reward is above its moving average, and
// falls while it is below.
type SplitEMA struct {
	External float64 `json:"external"` // J, continuous, 0 to the budget
	Average  float64 `json:"average"`  // of the rewards
	Rounds   int     `json:"rounds"`   // observed
}

// Observe takes a round's reward: first into the average, which begins with the first one, then into J += alpha (reward
// - average).
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

// What the bandit takes for granted.
const (
	banditDiscount = 0.95 // weight of a credit after one more: about the last twenty count, for gains fade as training saturates
	banditPrior    = 1    // credits that the mean of all stands for, in each arm
)

// SplitArm is one split that a bandit may choose, and its credits: discounted, their number and their sum.
type SplitArm struct {
	External int     `json:"external"`
	Weight   float64 `json:"weight"`
	Sum      float64 `json:"sum"`
	Tried    bool    `json:"tried"`
}

// SplitBandit is discounted Gaussian Thompson sampling over splits of a budget. An arm's credit is what it gained for
// what it cost, in whatever unit: choices don't change when all credits are scaled.
//
// An arm a with discounted number w_a and mean x_a of credits is thought to be worth N(u_a, s² / (w_a + k)), u_a = (w_a
// x_a + k m) / (w_a + k), with m the mean of all credits, s² the mean square of their distances from their arms' u_a,
// discounted alike, and k = banditPrior: an arm that is not tried for long falls back to m, as uncertain as at first.
// One value is drawn of each arm; the arm with the highest is next.
type SplitBandit struct {
	Arms    []SplitArm `json:"arms"`    // in the order in which they are first tried
	Squares float64    `json:"squares"` // discounted sum of all credits' squares
	Arm     int        `json:"arm"`     // that is being tried
}

// NewSplitBandit has the arms J = 0, 1/4, 1/2 and 3/4 of the budget, and first's. It tries first's first, then each
// other once, in an order of the seed's: nodes of different seeds begin with different arms.
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

// Next is the arm that is being tried.
func (b SplitBandit) Next(budget int) Split { return splitOf(budget, b.Arms[b.Arm].External) }

// Credit judges the arm that is being tried, by gain for cost; cost is positive. What isn't finite is no credit.
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

// Choose turns to the next arm: the first that has not been tried, or the one that a draw of the seed's prefers.
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
		if i == 0 || value > best || value == best && luck > luckiest { // equal where all credits are
			b.Arm, best, luckiest = i, value, luck
		}
	}
}

// beliefs are what each arm is thought to be worth, and the deviation of credits from that.
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
		squares -= w * (2*a.Sum - w*a.Weight) // of the arm's credits' distances from w
	}
	return worth, math.Sqrt(max(0, squares) / max(weight, 1))
}
