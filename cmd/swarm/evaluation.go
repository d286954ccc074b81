package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// examinee is a model that is to be evaluated, and where.
type examinee struct {
	run       store.Run // whose it is; of a folder its name and settings alone
	node      string    // empty of a folder
	dir       string    // the node's
	round     int       // of its checkpoint; -1: the newest, or of a folder
	config    configs.Config
	modelDir  string // first weights, or the folder
	tokenizer string
	tokens    string // folder where the tokenizer is looked for
	plan      fit.Plan
}

// checkpoint is a run's node's, on the device, and on a CPU with the threads, that the run has: what it gives is then what the node itself
// would have evaluated.
func (o *evalOptions) checkpoint(ctx context.Context, g *globals, name string) (*examinee, error) {
	if flag := o.config.given("device"); flag != "" {
		return nil, &usageError{
			fmt.Errorf("%s does not go with --node: a checkpoint is evaluated with its run's configuration", flag), "swarm eval FOLDER, of swarm model save",
		}
	}
	run, err := g.findRun(ctx, name)
	if err != nil && isModelFolder(name) {
		return nil, &usageError{fmt.Errorf("%s is a folder, and --node is a run's", name), "swarm eval " + name + ", or --node with a run's name"}
	}
	if err != nil {
		return nil, err
	}
	if err := foreignNodes(run); err != nil {
		return nil, err
	}
	x := &examinee{run: run, round: o.round, config: configs.Default()} // of keys that its swarm did not have yet
	var plan fit.Plan
	if err := errors.Join(json.Unmarshal(run.Config, &x.config), json.Unmarshal(run.Plan, &plan)); err != nil {
		return nil, fmt.Errorf("what the database has of run %s: %w", run.Run, err)
	}
	if x.node, err = g.nodeOf(run, o.node); err != nil {
		return nil, err
	}
	x.dir = filepath.Join(g.home, "runs", run.Run, x.node)
	x.config = x.config.OfNode(nodeIndex(x.node))
	base, err := findModel(x.config.Model)
	if err != nil {
		return nil, err
	}
	if x.modelDir, err = model.Resolve(base, g.home); err != nil {
		return nil, err
	}
	x.tokenizer, x.tokens = base.Tokenizer, x.modelDir
	x.config.Device = plan.Device
	for _, k := range o.config.keys {
		if k.given {
			x.config.Device = k.text
		}
	}
	o.apply(&x.config)
	if err := configs.Validate(x.config); err != nil {
		return nil, err
	}
	if err := x.place(ctx, g, base); err != nil {
		return nil, err
	}
	if x.plan.Device == fit.DeviceCPU && plan.Device == fit.DeviceCPU {
		x.plan.Threads = plan.Threads // sums come out a little different with another number
	}
	return x, nil
}

// folder is a model's folder, with the tasks and sampling of the flags.
func (o *evalOptions) folder(ctx context.Context, g *globals, dir string) (*examinee, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", dir, err)
	}
	if _, err := model.Inspect(dir); err != nil {
		return nil, &usageError{err, "a folder with the config.json and model.safetensors of a gpt2 or qwen2, such as swarm model save writes"}
	}
	host, err := gpu.Detect(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range o.config.keys {
		if k.key.Name == "model" && !k.given {
			k.text, k.given = dir, true
		}
	}
	c, like, warnings, err := resolveConfig(&o.config, os.Environ(), host.Device == gpu.CUDA)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		fmt.Fprintln(g.stderr, "Warning:", w)
	}
	o.apply(&c)
	x := &examinee{
		run: store.Run{
			Run: dir, Experiment: c.Experiment, Model: c.Model, Seed: c.Seed, NumTrainSamples: c.NumTrainSamples,
			NumTransplantTrees: c.NumTransplantTrees, NumGenerations: c.NumGenerations,
		},
		round: -1, config: c, modelDir: dir, tokenizer: like.Tokenizer, tokens: dir,
	}
	if _, err := os.Stat(filepath.Join(dir, tokenizer.File)); err != nil && like.Tokenizer == tokenizer.NameHuggingFace {
		if x.tokens, err = model.Resolve(like, g.home); err != nil {
			return nil, err
		}
	}
	return x, x.place(ctx, g, like)
}

// apply puts the command's own flags above the configuration.
func (o *evalOptions) apply(c *configs.Config) {
	ks, _ := o.passes() // checked
	if o.questions > 0 {
		c.EvalQuestions = o.questions
	}
	if c.EvalQuestions == 0 {
		c.EvalQuestions = configs.Default().EvalQuestions // of a run that doesn't evaluate itself
	}
	switch {
	case o.generations > 0:
		c.EvalGenerations = o.generations
	case len(ks) > 0:
		c.EvalGenerations = max(c.EvalGenerations, slices.Max(ks))
	}
}

// place plans for one engine in what memory the host has free now: the error wraps fit.ErrDoesNotFit where there is too little.
func (x *examinee) place(ctx context.Context, g *globals, m configs.Model) error {
	host, err := gpu.Detect(ctx)
	if err != nil {
		return err
	}
	table, err := configs.GPUTable()
	if err != nil {
		return err
	}
	request := launcher.Describe(host, fit.Request{
		Device: x.config.Device, Shm: sharedMemory(), Model: m, Settings: fitSettings(x.config), Table: table, Nodes: "1", Share: "auto",
		SwarmSize: 1, GPUsPerNode: 1,
	})
	if request.Measured, err = measured(ctx, g, planned{config: x.config, model: m, host: host}); err != nil {
		return err
	}
	x.plan, err = fit.New(request)
	return err
}

// evaluate starts an engine and has the model answer the held-out questions.
func (x *examinee) evaluate(ctx context.Context, g *globals) ([]store.NodeEval, error) {
	if x.plan.Device == fit.DeviceCUDA {
		python, err := g.findPython(ctx)
		if err != nil {
			return nil, err
		}
		if !python.CUDA {
			return nil, noCUDA(python, "the evaluation is to be on a GPU")
		}
	}
	tasks, err := task.Open(x.config.Tasks)
	if err != nil {
		return nil, err
	}
	tokens, err := tokenizer.Open(x.tokenizer, x.tokens)
	if err != nil {
		return nil, err
	}
	engine, err := startEngine(ctx, g, x.plan.Threads, x.plan.Environment(0)...)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	fmt.Fprintf(g.stderr, "Loading %s on %s.\n", x.config.Model, x.plan.Device)
	loaded, err := engine.Load(ctx, x.loadParams())
	if err != nil {
		return nil, fmt.Errorf("load the model: %w", err)
	}
	if tokens.VocabSize() > loaded.VocabSize {
		err := fmt.Errorf("tokenizer %s has %d tokens, the model only %d", tokens.Name(), tokens.VocabSize(), loaded.VocabSize)
		return nil, &usageError{err, "--model with the preset that the folder's model was made of"}
	}
	rounds, err := x.restore(ctx, g, engine)
	if err != nil {
		return nil, err
	}
	questions, err := node.OpenHeldOut(x.config, tasks, tokens, loaded.ContextLength)
	if err != nil {
		return nil, err
	}
	if questions.Len() == 0 {
		err := errors.New("the tasks have no held-out question that fits the model's context")
		return nil, &hintError{err, "a larger --max-prompt-length, or other tasks"}
	}
	progress := newStatusLine(g.stderr, 10*time.Second)
	defer progress.end()
	generate := func(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
		if batch := x.plan.GenerateBatch; batch > 0 {
			p.MicroBatch = min(p.MicroBatch, batch)
		}
		return engine.Generate(ctx, p)
	}
	eval, err := questions.Evaluate(ctx, rounds, generate, func(done int) {
		progress.say(fmt.Sprintf("answered %d of %d questions", done, questions.Len()))
	})
	if err != nil {
		return nil, err
	}
	return []store.NodeEval{{Node: cmp.Or(x.node, x.modelDir), Time: event.Now(), Eval: eval}}, nil
}

func (x *examinee) loadParams() policy.LoadParams {
	c, cuda := x.config, x.plan.Device == fit.DeviceCUDA
	p := policy.LoadParams{
		ModelDir: x.modelDir, Device: engineDevice(x.plan), Precision: c.ResolvedPrecision(cuda), Threads: x.plan.Threads, Seed: c.Seed,
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
		err = &hintError{
			fmt.Errorf("%s of run %s has no checkpoint yet", x.node, x.run.Run),
			"again when it has trained for checkpoint_every rounds, or --round 0 for the model as it was first",
		}
	}
	return rounds, err
}
