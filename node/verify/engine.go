package verify

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// StartEngine starts an engine with the model's initial weights, like a node with this assignment. Of start it uses
// Python, EngineDir, ModelDir, Device, Threads and Ranks. If possible, host forks the engine. StartEngine also returns
// the context length in tokens.
func StartEngine(
	ctx context.Context, start protocol.Start, cfg configs.Config, environ []string, stderr io.Writer, host *policy.HostClient,
) (*policy.Engine, int, error) {
	threads := strconv.Itoa(max(1, start.Threads))
	engine, err := policy.Start(ctx, policy.Options{
		Python: start.Python, Dir: start.EngineDir, Stderr: stderr, Host: host,
		Env: slices.Concat(environ, []string{"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads}),
	})
	if err != nil {
		return nil, 0, err
	}
	loaded, err := engine.Load(ctx, loadParams(start, cfg))
	if err != nil {
		engine.Close()
		return nil, 0, fmt.Errorf("load the model: %w", err)
	}
	return engine, loaded.ContextLength, nil
}

func loadParams(start protocol.Start, cfg configs.Config) policy.LoadParams {
	return policy.LoadParams{
		ModelDir: start.ModelDir, Device: start.Device, Precision: cfg.ResolvedPrecision(start.Device != "cpu"), Threads: start.Threads,
		Ranks: start.Ranks, Seed: cfg.Seed,
		AdamBeta1: cfg.AdamBeta1, AdamBeta2: cfg.AdamBeta2, AdamEpsilon: cfg.AdamEpsilon, WeightDecay: cfg.WeightDecay,
		GradientCheckpointing: cfg.GradientCheckpointing, OptimizerOffload: cfg.OptimizerOffload, CUDAGraphs: cfg.CUDAGraphs,
	}
}
