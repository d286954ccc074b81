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

// Sources of a rate, the best first.
const (
	rateMeasured = "measured"
	rateProfile  = "profile"
	rateAssumed  = "first principles"
)

// rate is how fast nodes of one model are on a device, for work that is known, and where that is from.
type rate struct {
	source     string // one of rate*
	from       string // for a person
	work       fit.Work
	nodes      int // of the fullest GPU, or of the host
	pace       fit.Pace
	completion float64 // seconds of evaluations, per completion that each node answers; 0: as in a round
	loading    float64 // seconds before the first round; 0: not known
}

// roundWork is what a node of the configuration computes a round. Externals are as many as the others share.
func roundWork(c configs.Config, nodes int) fit.Work {
	return fit.Work{
		Own: c.NumTrainSamples, External: min(c.NumTransplantTrees, c.NumTrainSamples*(nodes-1)), Generations: c.NumGenerations,
		PromptTokens: min(fit.AssumedPrompt, c.MaxPromptLength), NewTokens: c.MaxCompletionLength, Iterations: c.NumIterations,
	}
}

// fullest is how many nodes the GPU with most of them has, or the host.
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

// rateOf is the best rate that is known for nodes of p's model; nil: none is.
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

// measuredRate is that of the newest run of the model on such a device; one that did the same work comes before others.
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
		if t.Imported() || !sameRate(c, p.Config) || !sameDevice(plan, p.Plan) { // what was imported wasn't measured here
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

// sameRate tells whether runs of b take as long as those of a for the same number of sequences. Of an adaptive run it
// isn't known how many it had: its rounds did other work than its configuration says.
func sameRate(a, b configs.Config) bool {
	of := func(c configs.Config) any {
		return [...]any{
			c.Model, c.Precision, c.MaxPromptLength, c.MaxCompletionLength, c.GradientCheckpointing, c.OptimizerOffload, c.ParamOffload,
			c.GPUsPerNode, c.Tasks.Set, c.Tasks.File, c.Tasks.SystemPrompt,
		}
	}
	return of(a) == of(b) && a.Models == "" && !a.Adaptive()
}

// sameDevice tells whether two plans are for the same kind of card, or both for the CPU. A card that isn't there is any
// of its size.
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

// rateOfRun reads a run's rate from its rounds; nil: it has too few. A round takes the median of the times between the
// ends of two, so that neither evaluations nor pauses count.
func rateOfRun(ctx context.Context, reader *store.Reader, t store.Totals, c configs.Config, plan fit.Plan) (*rate, error) {
	phases := map[string]float64{}
	var bands []store.RoundBand
	for _, metric := range []string{"update_time", "score_time", "generate_time"} {
		var err error
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
	r.pace.Generate, r.pace.Update = round*phases["generate_time"]/compute, round*phases["update_time"]/compute
	r.pace.Rest = round - r.pace.Generate - r.pace.Update
	device := "the CPU"
	if len(plan.GPUs) > 0 {
		device = plan.GPUs[0].Name
	}
	r.from = fmt.Sprintf("measured: %s of run %s (%s, %d/%d, %s, %s)", units.Plural(t.RoundsDone, "round"), t.Run.Run, units.Plural(t.Run.Nodes, "node"), c.NumTrainSamples,
		c.NumTransplantTrees, device, time.Unix(int64(t.Run.Started), 0).UTC().Format(time.DateOnly))
	each := float64(c.EvalQuestions * c.EvalGenerations)
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

// loadingOf is how long a run loaded before its first round, which with evaluations took others seconds; 0: not known.
// One that was stopped and went on may have done so in its first round: how long it lay still is not told from loading.
func loadingOf(t store.Totals, first store.RoundBand, others float64) float64 {
	if first.Round != 0 || t.Attempts > 1 {
		return 0
	}
	return max(0, first.End-t.Run.Started-others)
}

// median is that of the finite values; NaN of nothing.
func median(values []float64) float64 {
	var finite []float64
	for _, v := range values {
		if units.Finite(v) {
			finite = append(finite, v)
		}
	}
	return sample.Median(finite)
}
