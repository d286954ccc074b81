// Package rates judges short runs at several learning rates (`swarm tune --workload sapo`). It is pure.
package rates

import (
	"cmp"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/alarm"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// Values of Pilot.Outcome.
const (
	Advised    = "advised"
	Possible   = "possible"     // no alarm and no lower reward, but not the advised rate
	Lower      = "lower_reward" // its reward is below that of the best by more than the noise between rounds
	Alarm      = "alarm"        // the collapse alarm was raised
	Unknown    = "unknown"      // too few of its rounds have a gradient norm, or the norm was 0
	Unfinished = "unfinished"
)

// Pilot is a short run at one learning rate. Judge sets the fields from Reward on. Null: not known.
type Pilot struct {
	LearningRate float64  `json:"learning_rate"`
	Experiment   string   `json:"experiment"`
	Run          string   `json:"run,omitempty"`
	Done         bool     `json:"done"`
	Pass         *float64 `json:"pass"` // held-out pass@1 of the newest evaluation

	Reward     *float64 `json:"reward"`           // own, mean of the newest alarm.Window rounds
	Behind     *float64 `json:"behind"`           // the best pilot's reward minus this one's; null: it was not compared
	BehindLow  *float64 `json:"behind_ci_low"`    // 95 % interval over rounds, see Judge
	BehindHigh *float64 `json:"behind_ci_high"`   //
	Growth     *float64 `json:"grad_norm_growth"` // alarm.Growth's Ratio in the newest round
	AlarmRound *int     `json:"alarm_round"`      // first round in which the alarm was raised; null: none
	Outcome    string   `json:"outcome"`

	Rule      alarm.Rule         `json:"-"`
	Gradients [][]event.Gradient `json:"-"` // of the nodes, by round
	Rewards   []float64          `json:"-"` // mean own reward over nodes by round; NaN: none
}

// Advice is the learning rate that the pilots recommend, and the reasons.
type Advice struct {
	LearningRate *float64 `json:"learning_rate"` // null: none is advised
	Pilots       []Pilot  `json:"pilots"`        // by rate, ascending
}

// Judge advises the highest learning rate whose pilot raised no alarm and whose reward is not below the best by more
// than noise. The best is the pilot with the highest reward of those that are done and raised no alarm. It advises none
// while a pilot is unfinished, except one that raised the alarm.
//
// The noise is that of the newest alarm.Window rounds: the 95 % interval of the mean difference to the best, round
// by round, because pilots of one seed draw the same questions. Another seed may differ by more.
func Judge(pilots []Pilot) Advice {
	out := Advice{Pilots: slices.SortedFunc(slices.Values(pilots), func(a, b Pilot) int { return cmp.Compare(a.LearningRate, b.LearningRate) })}
	var best *Pilot
	whole := true
	for i := range out.Pilots {
		p := &out.Pilots[i]
		p.judge()
		whole = whole && p.Outcome != Unfinished
		if p.Outcome == Possible && (best == nil || *p.Reward > *best.Reward) {
			best = p
		}
	}
	var advised *Pilot
	for i := range out.Pilots {
		p := &out.Pilots[i]
		if p.Outcome != Possible {
			continue
		}
		if p != best && p.behind(best) {
			p.Outcome = Lower
			continue
		}
		advised = p // the last is the highest
	}
	if whole && advised != nil {
		advised.Outcome, out.LearningRate = Advised, &advised.LearningRate
	}
	return out
}

// judge sets the fields that depend on this pilot alone.
func (p *Pilot) judge() {
	watch := alarm.Collapse{Rule: p.Rule}
	var growth alarm.Growth
	for _, gradients := range p.Gradients {
		var raised bool
		if growth, raised = watch.Add(gradients...); raised && p.AlarmRound == nil {
			round := growth.Round
			p.AlarmRound = &round
		}
	}
	if watch.Rounds() >= alarm.First && growth.Reference > 0 {
		p.Growth = stats.Optional(growth.Ratio())
	}
	p.Reward = stats.Optional(sample.Mean(newest(p.Rewards)))
	switch {
	case p.AlarmRound != nil:
		p.Outcome = Alarm
	case !p.Done:
		p.Outcome = Unfinished
	case p.Growth == nil || p.Reward == nil:
		p.Outcome = Unknown
	default:
		p.Outcome = Possible
	}
}

// behind compares the pilot's reward with the best one's, and reports whether it is lower by more than noise.
func (p *Pilot) behind(best *Pilot) bool {
	var differences []float64
	ours, theirs := newest(p.Rewards), newest(best.Rewards)
	for i := range min(len(ours), len(theirs)) {
		if d := theirs[i] - ours[i]; units.Finite(d) {
			differences = append(differences, d)
		}
	}
	mean, low, high := sample.MeanInterval(differences)
	p.Behind, p.BehindLow, p.BehindHigh = stats.Optional(mean), stats.Optional(low), stats.Optional(high)
	return low > 0
}

// newest returns the values of the newest alarm.Window rounds.
func newest(values []float64) []float64 { return values[max(0, len(values)-alarm.Window):] }
