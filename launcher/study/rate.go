package study

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Sources of a rate, best first.
const (
	rateMeasured = "measured"
	rateProfile  = "profile"
	rateAssumed  = "first principles"
)

// rate is the speed of nodes of one model on a device for a known amount of work, with its source.
type rate struct {
	source     string // one of the rate constants
	from       string // the source, for people
	work       fit.Work
	nodes      int // on the fullest GPU, or on the host
	pace       fit.Pace
	completion float64 // seconds of an evaluation per completion of each node; 0: as in a round
	loading    float64 // seconds before the first round; 0: unknown
}

// roundWork returns the work of a node per round. The externals are limited by what the other nodes share.
func roundWork(c configs.Config, nodes int) fit.Work {
	return fit.Work{
		Own: c.NumTrainSamples, External: min(c.NumTransplantTrees, c.NumTrainSamples*(nodes-1)), Generations: c.NumGenerations,
		PromptTokens: min(fit.AssumedPrompt, c.MaxPromptLength), NewTokens: c.MaxCompletionLength, Iterations: c.NumIterations,
	}
}

// fullest returns the number of nodes on the GPU with the most nodes, or on the host.
func fullest(p fit.Plan) int {
	most := 0
	for _, room := range p.Rooms {
		most = max(most, room.Nodes)
	}
	if most == 0 {
		return p.Nodes
	}
	return most
}

// rateOf returns the best known rate for nodes of p's model, or nil.
func rateOf(ctx context.Context, reader *store.Reader, p plan.Planned) (*rate, error) {
	if reader != nil {
		for _, find := range []func(context.Context, *store.Reader, plan.Planned) (*rate, error){measuredRate, profiledRate} {
			if r, err := find(ctx, reader, p); err != nil || r != nil {
				return r, err
			}
		}
	}
	return assumedRate(p), nil
}

// measuredRate returns the rate of the newest run of the model on the same kind of device. A run with the same work
// takes precedence.
func measuredRate(ctx context.Context, reader *store.Reader, p plan.Planned) (*rate, error) {
	runs, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return nil, err
	}
	var best *rate
	for _, t := range slices.Backward(runs) {
		c, plan := configs.Default(), fit.Plan{}
		if t.RoundsDone < 5 || t.Workers > 0 || json.Unmarshal(t.Config, &c) != nil || json.Unmarshal(t.Plan, &plan) != nil {
			continue
		}
		// an imported run was not measured here
		if t.Imported() || !sameRate(c, p.Config) || !sameDevice(plan, p.Plan) {
			continue
		}
		exact := roundWork(c, t.Run.Nodes) == roundWork(p.Config, p.Plan.Nodes) && fullest(plan) == fullest(p.Plan)
		if best != nil && !exact {
			continue
		}
		r, err := rateOfRun(ctx, reader, t, c, plan)
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		if exact {
			return r, nil
		}
		best = r
	}
	return best, nil
}

// sameRate reports whether runs of b take as long as those of a for the same number of sequences. It is false if a
// has several models, or is adaptive, because its rounds then did other work than its configuration says.
func sameRate(a, b configs.Config) bool {
	of := func(c configs.Config) any {
		return [...]any{
			c.Model, c.Precision, c.MaxPromptLength, c.MaxCompletionLength, c.GradientCheckpointing, c.OptimizerOffload, c.ParamOffload,
			c.GPUsPerNode, c.Tasks.Set, c.Tasks.File, c.Tasks.SystemPrompt, c.Tasks.Examples,
		}
	}
	return of(a) == of(b) && a.Models == "" && !a.Adaptive()
}

// sameDevice reports whether two plans are for the same kind of GPU, or both for the CPU. A hypothetical GPU in b
// matches any GPU of its size.
func sameDevice(a, b fit.Plan) bool {
	if a.Device != b.Device || len(a.GPUs) != len(b.GPUs) {
		return false
	}
	if a.Device == fit.DeviceCPU {
		return true
	}
	if len(a.GPUs) == 0 {
		return false
	}
	was, now := a.GPUs[0], b.GPUs[0]
	if now.UUID == "" {
		return math.Abs(float64(was.MemoryTotal)/float64(now.MemoryTotal)-1) < 0.1
	}
	return was.Name == now.Name
}

// rateOfRun computes a run's rate from its rounds, or returns nil if there are too few. The time of a round is the
// median of the times between the ends of consecutive rounds, which excludes evaluations and pauses.
func rateOfRun(ctx context.Context, reader *store.Reader, t store.Totals, c configs.Config, plan fit.Plan) (*rate, error) {
	phases := map[string]float64{}
	var bands []store.RoundBand
	var err error
	for _, metric := range []string{"update_time", "score_time", "generate_time"} {
		if bands, err = reader.RoundBands(ctx, t.Run.Run, metric, 0); err != nil {
			return nil, err
		}
		var means []float64
		for _, b := range bands {
			means = append(means, b.Mean)
		}
		phases[metric] = median(means)
	}
	var between, evaluating []float64
	for i := 1; i < len(bands); i++ {
		if bands[i].Round != bands[i-1].Round+1 {
			continue
		}
		took := bands[i].End - bands[i-1].End
		if c.EvalQuestions > 0 && c.EvalEvery > 0 && bands[i].Round%c.EvalEvery == 0 {
			evaluating = append(evaluating, took)
			continue
		}
		between = append(between, took)
	}
	round, compute := median(between), phases["update_time"]+phases["score_time"]+phases["generate_time"]
	if !(round > 0) || !(compute > 0) {
		return nil, nil
	}
	r := &rate{source: rateMeasured, work: roundWork(c, t.Run.Nodes), nodes: fullest(plan)}
	if r.work.Flat, err = flatShare(ctx, reader, t, c); err != nil {
		return nil, err
	}
	r.pace.Generate, r.pace.Update = round*phases["generate_time"]/compute, round*phases["update_time"]/compute
	r.pace.Rest = round - r.pace.Generate - r.pace.Update
	device := "the CPU"
	if len(plan.GPUs) > 0 {
		device = plan.GPUs[0].Name
	}
	r.from = fmt.Sprintf("measured: %s of run %s (%s, %d/%d, %s, %s)", units.Plural(t.RoundsDone, "round"), t.Run.Run, units.Plural(t.Run.Nodes, "node"), c.NumTrainSamples,
		c.NumTransplantTrees, device, time.Unix(int64(t.Run.Started), 0).UTC().Format(time.DateOnly))
	each := float64(evaluationCompletions(c))
	if took := median(evaluating) - round; took > 0 {
		r.completion = took / each
	}
	evaluation := r.completion * each
	if r.completion == 0 && c.EvalQuestions > 0 {
		evaluation = r.pace.Evaluation(r.work, int(each))
	}
	r.loading = loadingOf(t, bands[0], round+evaluation)
	return r, nil
}

// flatShare returns the mean share of a run's own groups that its updates skip, because their rewards are all equal. It
// is 0 with a KL penalty, which computes every group, and if it is not recorded.
func flatShare(ctx context.Context, reader *store.Reader, t store.Totals, c configs.Config) (float64, error) {
	bands, err := reader.RoundBands(ctx, t.Run.Run, "frac_reward_zero_std", 0)
	if err != nil || c.Beta > 0 {
		return 0, err
	}
	var shares []float64
	for _, b := range bands {
		shares = append(shares, b.Mean)
	}
	if share := sample.Mean(shares); share > 0 && share < 1 {
		return share, nil
	}
	return 0, nil
}

// loadingOf returns the seconds that a run loaded before its first round, or 0 if unknown. others are the seconds
// of the first round and its evaluation. A run with several attempts may have been interrupted in its first round.
// Its pause would count as loading, so loadingOf returns 0.
func loadingOf(t store.Totals, first store.RoundBand, others float64) float64 {
	if first.Round != 0 || t.Attempts > 1 {
		return 0
	}
	return max(0, first.End-t.Run.Started-others)
}

// median returns the median of the finite values, or NaN if there are none.
func median(values []float64) float64 {
	var finite []float64
	for _, v := range values {
		if units.Finite(v) {
			finite = append(finite, v)
		}
	}
	return sample.Median(finite)
}
