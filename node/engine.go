package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/mpsclient"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// launched is an engine with its model loaded.
type launched struct {
	engine engine
	hello  policy.HelloResult
	loaded policy.LoadResult
}

// launchEngine returns a function that starts an engine for an assignment and loads its model. trouble receives a
// message after the client has fixed a problem of an engine that continues.
func launchEngine(
	start protocol.Start, environ []string, stderr io.Writer, trouble func(string), host supervisor, logger *slog.Logger,
) func(context.Context, policy.LoadParams) (launched, error) {
	threads := strconv.Itoa(max(1, start.Threads))
	environ = mpsclient.Apart(environ)
	options := policy.Options{
		Host:   policy.InheritHost(environ),
		Python: start.Python, Dir: start.EngineDir, Stderr: stderr,
		Env: slices.Concat(environ, []string{"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads}), OnTrouble: trouble,
		BeforeKill: mpsclient.BeforeKill(environ, trouble),
	}
	return func(ctx context.Context, params policy.LoadParams) (launched, error) {
		late := fmt.Errorf("%w: the model is not loaded after %s", policy.ErrEngineStalled, loadDeadline)
		ctx, cancel := context.WithTimeoutCause(ctx, loadDeadline, late)
		defer cancel()
		e, err := policy.Start(ctx, options)
		var refused *policy.Error
		failed := errors.As(err, &refused) && refused.Kind != policy.KindBadRequest
		if failed || errors.Is(err, policy.ErrEngineGone) || errors.Is(err, policy.ErrEngineStalled) {
			// The coordinator has seen this interpreter import torch, so the engine was killed, ran short of something,
			// or met an error of CUDA: a retry may succeed.
			return launched{}, err
		}
		if err != nil {
			return launched{}, &Failure{event.CausePython, err}
		}
		host.Emit(event.Event{Type: event.TypeEngine, PID: e.PID()})
		logger.Debug("engine started", "pid", e.PID(), "directly", e.Direct)
		loaded, err := e.Load(ctx, params)
		if err != nil {
			e.Close()
			return launched{}, fmt.Errorf("load the model: %w", err)
		}
		return launched{e, e.Hello, loaded}, nil
	}
}

// loadParams combines the assignment's settings with the memory settings learned since.
func (g *governed) loadParams() policy.LoadParams {
	return policy.LoadParams{
		ModelDir: g.start.ModelDir, Device: g.start.Device, Precision: g.config.ResolvedPrecision(g.start.Device != "cpu"), Threads: g.start.Threads, Ranks: g.start.Ranks,
		Seed:      g.config.Seed,
		AdamBeta1: g.config.AdamBeta1, AdamBeta2: g.config.AdamBeta2, AdamEpsilon: g.config.AdamEpsilon, WeightDecay: g.config.WeightDecay,
		GradientCheckpointing: g.checkpointing(), OptimizerOffload: g.offloading(), ParamOffload: g.config.ParamOffload,
		CUDAGraphs: g.config.CUDAGraphs, MemoryCapBytes: g.start.BudgetBytes, SelfTest: true,
	}
}

// load starts an engine with the initial weights.
func (g *governed) load(ctx context.Context) error {
	running, err := g.launch(ctx, g.loadParams())
	if short := outOfMemory(err, g.meter.device); short != nil {
		return (&climb{governed: g, phase: phaseLoad}).exhausted(*short, err)
	}
	if err != nil {
		return err
	}
	g.running = running
	g.meter.fresh(running.hello, running.loaded.Memory)
	return nil
}

// reload replaces the engine with a fresh one that has the initial weights.
func (g *governed) reload(ctx context.Context) error {
	g.Close()
	g.running.engine = nil
	return g.load(ctx)
}

// Close ends the engine.
func (g *governed) Close() {
	if g.running.engine != nil {
		g.running.engine.Close()
	}
}

// saveState writes weights and optimizer state to the file that restart reads.
func (g *governed) saveState(ctx context.Context) (policy.RestoreParams, error) {
	path := g.stateFile()
	saved, err := g.running.engine.Save(ctx, policy.SaveParams{Path: path, Format: "checkpoint"})
	if err != nil {
		return policy.RestoreParams{}, fmt.Errorf("save the state to restart the engine: %w", err)
	}
	return policy.RestoreParams{Path: path, SHA256: saved.SHA256}, nil
}

// restart replaces the engine with a fresh one and restores the saved state.
func (g *governed) restart(ctx context.Context, saved policy.RestoreParams) error {
	defer os.Remove(saved.Path)
	g.running.engine.Close()
	if err := g.load(ctx); err != nil {
		return fmt.Errorf("restart the engine: %w", err)
	}
	_, err := g.running.engine.Restore(ctx, saved)
	if short := outOfMemory(err, g.meter.device); short != nil {
		return (&climb{governed: g, phase: phaseLoad}).exhausted(*short, err)
	}
	if err != nil {
		return fmt.Errorf("restore the state in the restarted engine: %w", err)
	}
	g.announce(resumed{first: g.round})
	return nil
}

// stateFile is the path of the state that one engine hands to the next.
func (g *governed) stateFile() string { return filepath.Join(g.start.Dir, "restart.safetensors") }

// announce reports to the launcher that an engine is ready, and with back how its state was restored.
func (g *governed) announce(back resumed) {
	loaded, hello := g.running.loaded, g.running.hello
	g.host.Emit(event.Event{Type: event.TypeLoaded, Loaded: &event.Loaded{
		Model: g.config.Model, Parameters: loaded.Parameters, ContextLength: loaded.ContextLength,
		Torch: hello.Torch, Device: g.start.Device, Seconds: loaded.Seconds,
		SelfTestMaxAbsDiff: loaded.SelfTestMaxAbsDiff, EnginePID: hello.PID,
		StartRound: back.first, ReplayedRounds: back.replayed, ReplaySeconds: back.seconds,
	}})
}
