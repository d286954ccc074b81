package study

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/profile"
)

// profiledRate returns the rate from a swarm profile. The profile is of one node alone, with sequences of maximum
// length, so nodes on the same GPU are assumed to take turns.
func profiledRate(ctx context.Context, reader *store.Reader, p plan.Planned) (*rate, error) {
	if p.Plan.Device == fit.DeviceCUDA && len(p.Host.GPUs) == 0 {
		return nil, nil // a hypothetical GPU
	}
	key := plan.FootprintKey(p)
	found, err := reader.Footprints(ctx, key.Model, key.GPU)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		var points []profile.Point
		if f.Settings != key.Settings || json.Unmarshal(f.Points, &points) != nil {
			continue
		}
		largest := map[string]profile.Point{}
		for _, x := range points {
			if x.Fits && x.Seconds > 0 && x.Sequences > largest[x.Phase].Sequences {
				largest[x.Phase] = x
			}
		}
		generate, update := largest[profile.Generate], largest[profile.Update]
		if generate.Sequences == 0 || update.Sequences == 0 {
			continue
		}
		w := roundWork(p.Config, p.Plan.Nodes)
		n := float64(fullest(p.Plan))
		return &rate{
			source: rateProfile, work: w, nodes: fullest(p.Plan),
			from: fmt.Sprintf("predicted from swarm profile of %s on %s, a single node with prompts and completions of maximum length, every group trains, "+
				"not measured in a swarm", time.Unix(int64(f.Profiled), 0).UTC().Format(time.DateOnly), f.GPU),
			pace: fit.Pace{
				Generate: n * generate.Seconds * float64(w.Own*w.Generations) / float64(generate.Sequences),
				Update: n * update.Seconds * float64((w.Own+w.External)*w.Generations*max(1, w.Iterations)) /
					float64(update.Sequences*max(1, p.Config.NumIterations)),
			},
		}, nil
	}
	return nil, nil
}

// assumedLoading is the assumed time to load a node on a GPU, in seconds: torch, a CUDA context, weights. Nodes
// load one after another.
const assumedLoading = 15

// assumedRate returns the rate of a GPU with known peaks, from the operations and bytes that the work needs. It
// returns nil on a CPU and for other GPUs.
func assumedRate(p plan.Planned) *rate {
	if p.Plan.Device != fit.DeviceCUDA || len(p.Plan.GPUs) == 0 {
		return nil
	}
	gpu := p.Plan.GPUs[0]
	card, ok := fit.CardNamed(gpu.Name)
	if gpu.UUID == "" {
		card, ok = fit.CardOfSize(gpu.MemoryTotal)
	}
	if !ok {
		return nil
	}
	precision := p.Config.ResolvedPrecision(true)
	w := roundWork(p.Config, p.Plan.Nodes)
	return &rate{
		source: rateAssumed, work: w, nodes: fullest(p.Plan), loading: assumedLoading * float64(p.Plan.Nodes),
		from: fmt.Sprintf("predicted from first principles, not measured: %s; prompts of %d tokens and completions of %d, the maximum; every group trains; no time for "+
			"scoring and sharing; %d s to load a node", card.Describe(precision), w.PromptTokens, w.NewTokens, assumedLoading),
		pace: fit.FirstPrinciples(p.Model.Shape, precision, card, w, fullest(p.Plan), p.Plan.GenerateBatch),
	}
}
