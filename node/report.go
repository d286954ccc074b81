package node

import (
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// measured holds the measurements of a round's steps. report turns them into an event.Round.
type measured struct {
	round        int
	began        time.Time
	generateOnly bool
	split        sapo.Split // zero if I and J are the configured ones

	entropy float64 // of the sampling distribution
	own     ownFigures

	peers []event.Peer // what each peer offered, and what became of it
	late  bool         // the barrier's deadline passed before every peer had shared

	trainedOwn, trainedExternal int // groups
	trainingReward              float64
	staleness                   float64 // mean age of the external groups, in rounds

	step step // zero before the update

	seconds struct{ generate, score, lease, barrier, journal float64 }
}

// ownFigures describes a node's own completions of a round.
type ownFigures struct {
	reward, rewardStd, zeroStd, formatRate float64
	completions                            int
	meanLength, clippedRatio               float64
	meanTerminatedLength                   *float64 // nil: no completion ended by itself
	tasks                                  []event.TaskReward
}

// step is the result of an update.
type step struct {
	result    policy.UpdateResult
	notFinite bool    // loss or gradient was not finite, so that no step was taken
	seconds   float64 // duration of the engine's call
	waited    float64 // wait for the lease, seconds
}

// report returns the round's event with everything measured so far. The journal stores one from before the update.
func (m *measured) report() event.Round {
	r := event.Round{
		Round: m.round, GenerateOnly: m.generateOnly,
		SplitOwn: m.split.Own, SplitExternal: m.split.External,

		Entropy: m.entropy,
		Reward:  m.own.reward, RewardStd: m.own.rewardStd, FracRewardZeroStd: m.own.zeroStd, FormatRate: m.own.formatRate,
		Completions: m.own.completions, MeanLength: m.own.meanLength, ClippedRatio: m.own.clippedRatio,
		MeanTerminatedLength: m.own.meanTerminatedLength, Tasks: m.own.tasks,

		Peers: m.peers, Late: m.late,
		TrainedOwn: m.trainedOwn, TrainedExternal: m.trainedExternal, TrainingReward: m.trainingReward, Staleness: m.staleness,

		GenerateTime: m.seconds.generate, ScoreTime: m.seconds.score, LeaseTime: m.seconds.lease,
		BarrierTime: m.seconds.barrier, JournalTime: m.seconds.journal,
	}
	m.step.addTo(&r)
	r.StepTime = time.Since(m.began).Seconds()
	return r
}

// addTo adds the results of the update to a round's report. The figures on sampling differences and on external
// tokens are set only if the update computed them.
func (s step) addTo(r *event.Round) {
	r.UpdateTime = s.seconds
	r.LeaseTime += s.waited
	if s.notFinite {
		r.NonFinite = map[string]string{"loss": "NaN", "grad_norm": "NaN"}
		return
	}
	r.Loss, r.KL, r.GradNorm = s.result.Loss, s.result.KL, s.result.GradNorm
	r.ClipLow, r.ClipHigh, r.Steps = s.result.ClipLow, s.result.ClipHigh, s.result.Steps
	if s.result.SamplingTokens > 0 {
		largest, mean := s.result.SamplingLogpDifferenceMax, s.result.SamplingLogpDifferenceMean
		r.SamplingLogpDifferenceMax, r.SamplingLogpDifferenceMean = &largest, &mean
	}
	if s.result.ExternalTokens > 0 {
		clipped, dropped, effective := s.result.ExternalClipRatio, float64(s.result.ExternalDropped), s.result.ExternalESS
		r.ExternalClipRatio, r.ExternalDropped, r.ExternalESS = &clipped, &dropped, &effective
	}
}

// describeOwn computes the figures of a node's own completions, except the mean reward, which score sets.
func describeOwn(groups []group) ownFigures {
	var own ownFigures
	byTask := map[string]int{}
	var stds []float64
	var tokens, terminated, formatted, clipped, flat int
	for _, g := range groups {
		own.completions += len(g.rewards)
		stds = append(stds, sapo.Std(g.rewards))
		if sapo.AllEqual(g.rewards) {
			flat++
		}
		name := g.item.Task()
		k, known := byTask[name]
		if !known {
			k = len(own.tasks)
			byTask[name] = k
			own.tasks = append(own.tasks, event.TaskReward{Task: name})
		}
		for i, text := range g.texts {
			own.tasks[k].Completions++
			own.tasks[k].RewardSum += g.rewards[i]
			tokens += len(g.completions[i])
			if task.ExtractAnswer(text) != nil {
				formatted++
			}
			if g.terminated[i] {
				terminated += len(g.completions[i])
			} else {
				clipped++
			}
		}
	}
	all := float64(own.completions)
	own.rewardStd = sapo.Mean(stds)
	own.zeroStd = float64(flat) / float64(len(groups))
	own.formatRate = float64(formatted) / all
	own.meanLength = float64(tokens) / all
	own.clippedRatio = float64(clipped) / all
	if ended := own.completions - clipped; ended > 0 {
		mean := float64(terminated) / float64(ended)
		own.meanTerminatedLength = &mean
	}
	return own
}
