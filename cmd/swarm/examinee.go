package main

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
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// examinee is a model that is to be asked, and where.
type examinee struct {
	run       store.Run // whose it is; of a folder or a preset its name and settings alone
	node      string    // empty of a folder or a preset
	dir       string    // the node's
	round     int       // of its checkpoint; -1: the newest, or of a folder
	config    configs.Config
	model     configs.Model
	modelDir  string // first weights, or the folder
	tokenizer string
	tokenDir  string // folder where the tokenizer is looked for
	threads   int    // of the CPU that the run trains on; 0: the plan's
	plan      fit.Plan

	tasks  *task.Set           // of openText
	tokens tokenizer.Tokenizer // of openText
}

// checkpointOf is a run's node's checkpoint of that round, -1 the newest, on the device, and on a CPU with the threads, that the run has: what
// it gives is then what the node itself would have given. It is not placed yet.
func (g *globals) checkpointOf(run store.Run, node string, round int) (*examinee, error) {
	if err := coordinator.ForeignNodes(run); err != nil {
		return nil, err
	}
	x := &examinee{run: run, round: round, config: configs.Default()} // of keys that its swarm did not have yet
	var plan fit.Plan
	if err := errors.Join(json.Unmarshal(run.Config, &x.config), json.Unmarshal(run.Plan, &plan)); err != nil {
		return nil, fmt.Errorf("what the database has of run %s: %w", run.Run, err)
	}
	var err error
	if x.node, err = g.nodeOf(run, node); err != nil {
		return nil, err
	}
	x.dir = g.home.Path("runs", run.Run, x.node)
	x.config = x.config.OfNode(fit.NodeIndex(x.node))
	if x.model, err = model.Find(x.config.Model); err != nil {
		return nil, err
	}
	if x.modelDir, err = model.Resolve(x.model, string(g.home)); err != nil {
		return nil, err
	}
	x.tokenizer, x.tokenDir = x.model.Tokenizer, x.modelDir
	if x.config.Device = plan.Device; plan.Device == fit.DeviceCPU {
		x.threads = plan.Threads // sums come out a little different with another number
	}
	return x, nil
}

// baseModel is a model that no run has: a folder's, a preset's, or one of the hub's that is cached, with the tasks and sampling of flags, which have
// all keys. It is not placed yet.
func (g *globals) baseModel(ctx context.Context, flags *resolve.Flags, name string) (*examinee, error) {
	folder := isModelFolder(name)
	if folder {
		var err error
		if name, err = filepath.Abs(name); err != nil {
			return nil, fmt.Errorf("folder %s: %w", name, err)
		}
		if _, err := model.Inspect(name); err != nil {
			return nil, fail.Usage(err, "a folder with the config.json and model.safetensors of a gpt2 or qwen2, such as swarm model save writes")
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
	c, like, warnings, err := configSources(os.Environ(), host.Device == gpu.CUDA).Config(flags)
	if err != nil {
		return nil, err
	}
	g.tellEnvironment(flags)
	for _, w := range warnings {
		fmt.Fprintln(g.stderr, "Warning:", w)
	}
	x := &examinee{
		run: store.Run{
			Run: name, Experiment: c.Experiment, Model: c.Model, Seed: c.Seed, NumTrainSamples: c.NumTrainSamples,
			NumTransplantTrees: c.NumTransplantTrees, NumGenerations: c.NumGenerations,
		},
		round: -1, config: c, model: like, modelDir: name, tokenizer: like.Tokenizer, tokenDir: name,
	}
	if !folder {
		x.modelDir, err = model.Resolve(like, string(g.home))
		x.tokenDir = x.modelDir
	} else if _, missing := os.Stat(filepath.Join(name, tokenizer.File)); missing != nil && like.Tokenizer == tokenizer.NameHuggingFace {
		x.tokenDir, err = model.Resolve(like, string(g.home))
	}
	return x, err
}

// place plans for one engine in what memory the host has free now: the error wraps fit.ErrDoesNotFit where there is too little.
func (x *examinee) place(ctx context.Context, g *globals) error {
	host, err := gpu.Detect(ctx)
	if err != nil {
		return err
	}
	table, err := configs.GPUTable()
	if err != nil {
		return err
	}
	request := plan.Describe(host, fit.Request{
		Device: x.config.Device, Shm: plan.SharedMemory(), Model: x.model, Settings: plan.FitSettings(x.config), Table: table, Nodes: "1", Share: "auto",
		SwarmSize: 1, GPUsPerNode: 1,
	})
	if request.Measured, err = plan.Measured(ctx, g.planHost(), plan.Planned{Config: x.config, Model: x.model, Host: host}); err != nil {
		return err
	}
	x.plan, err = fit.New(request)
	switch {
	case errors.Is(err, fit.ErrDoesNotFit) && x.config.Device != fit.DeviceCPU:
		what, _ := fail.SplitRemedy(fail.OneLine(err.Error())) // its remedy is for training
		return fail.Hint(fit.NoRoom(errors.New(what)), "--device cpu")
	case err == nil && x.plan.Device == fit.DeviceCPU && x.threads > 0:
		x.plan.Threads = x.threads
	}
	return err
}

// openText opens the tasks and the tokenizer, once.
func (x *examinee) openText() (err error) {
	if x.tasks != nil {
		return nil
	}
	if x.tokens, err = tokenizer.Open(x.tokenizer, x.tokenDir); err != nil {
		return err
	}
	x.tasks, err = task.Open(x.config.Tasks)
	return err
}

// opened is a model in an engine of its own.
type opened struct {
	*policy.Engine
	context int // tokens
	rounds  int // that its weights hold
	batch   int // most completions at a time; 0: as the call says
}

// open starts an engine and loads the model, with its checkpoint. The caller closes the engine.
func (x *examinee) open(ctx context.Context, g *globals) (_ *opened, err error) {
	if x.plan.Device == fit.DeviceCUDA {
		python, err := g.python.Find(ctx)
		if err != nil {
			return nil, err
		}
		if !python.CUDA {
			return nil, plan.NoCUDA(python, "the model is to be on a GPU")
		}
	}
	if err := x.openText(); err != nil {
		return nil, err
	}
	o := &opened{batch: x.plan.GenerateBatch}
	if o.Engine, err = startEngine(ctx, g, x.plan.Threads, x.plan.Environment(0)...); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			o.Close()
		}
	}()
	fmt.Fprintf(g.stderr, "Loading %s on %s.\n", x.config.Model, x.plan.Device)
	loaded, err := o.Load(ctx, x.loadParams())
	if err != nil {
		return nil, fmt.Errorf("load the model: %w", err)
	}
	if x.tokens.VocabSize() > loaded.VocabSize {
		err := fmt.Errorf("tokenizer %s has %d tokens, the model only %d", x.tokens.Name(), x.tokens.VocabSize(), loaded.VocabSize)
		return nil, fail.Usage(err, "the tokenizer files of the model that this one was made of, in its folder")
	}
	o.context = loaded.ContextLength
	if o.rounds, err = x.restore(ctx, g, o.Engine); err != nil {
		return nil, err
	}
	return o, nil
}

// Generate is the engine's, with as many completions at a time as the plan has memory for.
func (o *opened) Generate(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	if o.batch > 0 {
		p.MicroBatch = min(p.MicroBatch, o.batch)
	}
	return o.Engine.Generate(ctx, p)
}

func (x *examinee) loadParams() policy.LoadParams {
	c, cuda := x.config, x.plan.Device == fit.DeviceCUDA
	p := policy.LoadParams{
		ModelDir: x.modelDir, Device: plan.EngineDevice(x.plan), Precision: c.ResolvedPrecision(cuda), Threads: x.plan.Threads, Seed: c.Seed,
		AdamBeta1: c.AdamBeta1, AdamBeta2: c.AdamBeta2, AdamEpsilon: c.AdamEpsilon, WeightDecay: c.WeightDecay,
		OptimizerOffload: cuda, // moments that come with a checkpoint are of no use here
		CUDAGraphs:       c.CUDAGraphs,
	}
	if cuda {
		// No more than it needs: what else is free may be another run's in a moment.
		needed := x.plan.PerNode
		needed.Budget = min(needed.Budget, needed.Resident+needed.Generate)
		p.MemoryCapBytes = needed.Cap()
	}
	return p
}

// restore brings the checkpoint into the engine and returns the rounds that its weights hold, 0 for a folder's.
func (x *examinee) restore(ctx context.Context, g *globals, engine *policy.Engine) (int, error) {
	switch {
	case x.node == "" || x.round == 0:
		return 0, nil
	case x.round > 0:
		return x.round, node.RestoreRound(ctx, x.dir, x.round, engine, g.logger)
	}
	rounds, err := node.RestoreNewest(ctx, x.dir, engine, g.logger)
	if err == nil && rounds == 0 {
		err = fail.Hint(
			fmt.Errorf("%s of run %s has no checkpoint yet", x.node, x.run.Run),
			"again when it has trained for checkpoint_every rounds, or --round 0 for the model as it was first")

	}
	return rounds, err
}
