package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/evaluate"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// Subject is a model to evaluate or prompt, and its placement.
type Subject struct {
	evaluate.Model
	Run store.Run // the model's run; for a folder or a preset only the name and settings

	threads int // CPU threads that the run trains with; 0: the plan's
	plan    fit.Plan
}

// Node returns the run's node, or "" for a folder or a preset.
func (s *Subject) Node() string { return s.Checkpoint.Node }

// Checkpoint returns the checkpoint of a run's node after that round; -1: the newest. It uses the run's device, and
// on a CPU the run's threads, so that the results equal those of the node itself. Call Place before Open.
func Checkpoint(h plan.Host, run store.Run, node string, round int) (*Subject, error) {
	if err := coordinator.ForeignNodes(run); err != nil {
		return nil, err
	}
	// defaults for keys that the run's version did not have
	s := &Subject{Run: run, Model: evaluate.Model{Config: configs.Default()}}
	c := &s.Config
	var plan fit.Plan
	if err := errors.Join(json.Unmarshal(run.Config, c), json.Unmarshal(run.Plan, &plan)); err != nil {
		return nil, fmt.Errorf("read the recorded configuration of run %s: %w", run.Run, err)
	}
	name, err := NodeName(h.Home, run, node)
	if err != nil {
		return nil, err
	}
	s.Model.Checkpoint = evaluate.Checkpoint{Run: run.Run, Node: name, Dir: h.Home.Path("runs", run.Run, name), Round: round}
	*c = c.OfNode(configs.NodeIndex(name))
	if s.Preset, err = model.Find(c.Model); err != nil {
		return nil, err
	}
	if s.Dir, err = model.Resolve(s.Preset, string(h.Home)); err != nil {
		return nil, err
	}
	s.Tokenizer, s.TokenizerDir = s.Preset.Tokenizer, s.Dir
	if c.Device = plan.Device; plan.Device == fit.DeviceCPU {
		s.threads = plan.Threads // another number of threads changes the rounding of sums
	}
	return s, nil
}

// Base returns a model without a run: a folder, a preset, or a cached model of the hub. Tasks and sampling come
// from flags, which must include all keys. Call Place before Open.
func Base(ctx context.Context, h plan.Host, flags *resolve.Flags, name string) (*Subject, error) {
	folder := model.NamesFolder(name)
	if folder {
		var err error
		if name, err = filepath.Abs(name); err != nil {
			return nil, fmt.Errorf("folder %s: %w", name, err)
		}
		if _, err := model.Inspect(name); err != nil {
			return nil, fail.Usage(err, "a folder with the config.json and model.safetensors of a gpt2, llama, qwen2 or qwen3, such as one of swarm model save")
		}
	}
	host, err := gpu.Detect(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range flags.Keys {
		if k.Key.Name == "model" && !k.Given {
			k.Text, k.Given = name, true
		}
	}
	c, like, warnings, err := h.Sources(os.Environ(), host.Device == gpu.CUDA).Config(flags)
	if err != nil {
		return nil, err
	}
	h.Note(flags)
	for _, w := range warnings {
		fmt.Fprintln(h.Stderr, "Warning:", w)
	}
	s := &Subject{
		Run: store.Run{
			Run: name, Experiment: c.Experiment, Model: c.Model, Seed: c.Seed, NumTrainSamples: c.NumTrainSamples,
			NumTransplantTrees: c.NumTransplantTrees, NumGenerations: c.NumGenerations,
		},
		Model: evaluate.Model{Config: c, Preset: like, Dir: name, Tokenizer: like.Tokenizer, TokenizerDir: name},
	}
	if !folder {
		s.Dir, err = model.Resolve(like, string(h.Home))
		s.TokenizerDir = s.Dir
	} else if _, missing := os.Stat(filepath.Join(name, tokenizer.File)); missing != nil && like.Tokenizer == tokenizer.NameHuggingFace {
		s.TokenizerDir, err = model.Resolve(like, string(h.Home))
	}
	return s, err
}

// Place plans for one engine in the host's free memory. The error wraps fit.ErrDoesNotFit if there is too little.
// With cpu, a model that does not fit on the GPU goes to the CPU, with a warning.
func (s *Subject) Place(ctx context.Context, h plan.Host, cpu bool) error {
	err := s.place(ctx, h)
	if errors.Is(err, fit.ErrDoesNotFit) && cpu && s.Config.Device != fit.DeviceCPU {
		fmt.Fprintf(h.Stderr, "Warning: %s. Using the CPU.\n", err)
		s.Config.Device = fit.DeviceCPU
		err = s.place(ctx, h)
	}
	return err
}

func (s *Subject) place(ctx context.Context, h plan.Host) error {
	host, err := gpu.Detect(ctx)
	if err != nil {
		return err
	}
	table, err := configs.GPUTable()
	if err != nil {
		return err
	}
	request := plan.Describe(host, fit.Request{
		Device: s.Config.Device, Shm: plan.SharedMemory(), Model: s.Preset, Settings: plan.FitSettings(s.Config), Table: table, Nodes: "1", Share: "auto",
		SwarmSize: 1, GPUsPerNode: 1,
	})
	if request.Measured, err = plan.Measured(ctx, h, plan.Planned{Config: s.Config, Model: s.Preset, Host: host}); err != nil {
		return err
	}
	s.plan, err = fit.New(request)
	switch {
	case errors.Is(err, fit.ErrDoesNotFit) && s.Config.Device != fit.DeviceCPU:
		what, _ := fail.SplitRemedy(fail.OneLine(err.Error())) // its remedy applies to training only
		return fail.Hint(fit.NoRoom(errors.New(what)), "--device cpu")
	case err == nil && s.plan.Device == fit.DeviceCPU && s.threads > 0:
		s.plan.Threads = s.threads
	}
	return err
}

// Open starts an engine where Place has put the model, and loads the model. The caller closes the engine.
func (s *Subject) Open(ctx context.Context, h plan.Host) (*evaluate.Engine, error) {
	where := evaluate.Placement{
		Device: s.plan.Device, OnGPU: s.plan.Device == fit.DeviceCUDA, EngineDevice: plan.EngineDevice(s.plan), Threads: s.plan.Threads,
		GenerateBatch: s.plan.GenerateBatch, Environment: s.plan.Environment(0),
	}
	if where.OnGPU {
		python, err := h.Python.Find(ctx)
		if err != nil {
			return nil, err
		}
		if !python.CUDA {
			return nil, plan.NoCUDA(python, "the requested device is a GPU")
		}
		// Cap the memory at what the engine needs: another run may soon need the rest.
		needed := s.plan.PerNode
		needed.Budget = min(needed.Budget, needed.Resident+needed.Generate)
		where.MemoryCapBytes = needed.Cap()
	}
	return s.Model.Open(ctx, evaluate.Host{Python: h.Python, Stderr: h.Stderr, Logger: h.Logger}, where)
}
