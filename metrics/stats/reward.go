// Package stats is the only package that computes statistics. Commands, live view, reports and dashboards all take
// their numbers from here. Its inputs are rows of metrics/store and plain slices. It returns values and the documents
// of `-o json`. It is pure: no I/O, no clocks, no goroutines. It imports only metrics/store, metrics/event,
// metrics/stats/heldout, metrics/stats/sample, internal/units and internal/shell of this module.
//
// A reward is a node's reward in one round: the mean over the node's own completions of that round. Means leave out
// rewards that are not finite, and sums count them as 0. docs/METRICS.md has every formula.
package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// NodeReward is one node's contribution to the cumulative reward.
type NodeReward struct {
	Node             string  `json:"node"`
	Rounds           int     `json:"rounds"`
	CumulativeReward float64 `json:"cumulative_reward"`
}

// PerNode returns the cumulative reward of each node, with node_2 before node_10.
func PerNode(rows []store.RoundReward) []NodeReward {
	byNode := map[string]*NodeReward{}
	for _, r := range rows {
		n := byNode[r.Node]
		if n == nil {
			n = &NodeReward{Node: r.Node}
			byNode[r.Node] = n
		}
		n.Rounds++
		if units.Finite(r.Reward) {
			n.CumulativeReward += r.Reward
		}
	}
	out := make([]NodeReward, 0, len(byNode))
	for _, n := range byNode {
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b NodeReward) int {
		return cmp.Or(cmp.Compare(len(a.Node), len(b.Node)), cmp.Compare(a.Node, b.Node))
	})
	return out
}

// SwarmRound is one round over all nodes that did it.
type SwarmRound struct {
	Round    int     // from 0
	Nodes    int     // number of nodes that did it
	Reward   float64 // mean over nodes, the paper's agent-averaged reward; NaN: no finite value
	Min      float64 // lowest node: the lower edge of the paper's band
	Max      float64
	FirstEnd float64 // when the first node ended the round, Unix seconds
	End      float64 // when the last node ended it
}

// SwarmRounds groups rows, in any order, by round.
func SwarmRounds(rows []store.RoundReward) []SwarmRound {
	byRound := map[int][]store.RoundReward{}
	for _, r := range rows {
		byRound[r.Round] = append(byRound[r.Round], r)
	}
	out := make([]SwarmRound, 0, len(byRound))
	for round, rs := range byRound {
		s := SwarmRound{Round: round, Nodes: len(rs), Min: math.NaN(), Max: math.NaN(), FirstEnd: rs[0].Time}
		rewards := make([]float64, len(rs))
		for i, r := range rs {
			rewards[i] = r.Reward
			s.FirstEnd, s.End = min(s.FirstEnd, r.Time), max(s.End, r.Time)
			if !units.Finite(r.Reward) {
				continue
			}
			if !units.Finite(s.Min) {
				s.Min, s.Max = r.Reward, r.Reward
			}
			s.Min, s.Max = min(s.Min, r.Reward), max(s.Max, r.Reward)
		}
		s.Reward = sample.Mean(rewards)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b SwarmRound) int { return cmp.Compare(a.Round, b.Round) })
	return out
}

// Improvement returns (value - baseline) / baseline: +0.94 is the paper's +94 %. It is NaN unless baseline is above 0.
func Improvement(value, baseline float64) float64 {
	if !(baseline > 0) {
		return math.NaN()
	}
	return (value - baseline) / baseline
}

// Optional returns nil, JSON's null, for a non-finite value.
func Optional(v float64) *float64 {
	if !units.Finite(v) {
		return nil
	}
	return &v
}
