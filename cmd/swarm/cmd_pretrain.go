package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/recorded"
	"github.com/sapo-swarm/swarm/node/pretrain"
)

type pretrainOptions struct {
	model, set, out, output string
	recipe                  configs.Recipe // values of flags; the preset's for the others
	weights                 map[string]string
	given                   func(flag string) bool
	curveItems, evalItems   int
	seed                    int64
	threads                 int
}

func newPretrainCommand(g *globals) *cobra.Command {
	var o pretrainOptions
	cmd := &cobra.Command{
		Use:   "pretrain --out DIR",
		Short: "Train a small base model from scratch",
		Long: "pretrain trains a model of a preset's shape, from random weights, on new questions with their\n" +
			"answers in mixed phrasings, of which --tag-share use the <answer> tags. It writes a Hugging Face\n" +
			"folder (config.json and model.safetensors, float16) for --model. The tables use held-out questions,\n" +
			"which are never trained on. Missing flags come from the preset's recipe. On one machine the same\n" +
			"command makes the same file.",
		Example: "  swarm pretrain --model nano --out ./nano\n" +
			"  swarm pretrain --model micro --steps 500 --weights bf=3,arc_1d=2 --out ./micro",
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = cmd.Flags().Changed
			return runPretrain(cmd.Context(), g, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "nano", "model preset whose shape, tokenizer and recipe to use")
	f.StringVar(&o.set, "tasks", "", "task set to learn (default: the preset's)")
	f.StringVar(&o.out, "out", "", "folder to write, new or empty (required)")
	f.IntVar(&o.recipe.Steps, "steps", 0, "optimizer steps (default: the preset's recipe)")
	f.IntVar(&o.recipe.Batch, "batch", 0, "questions a step")
	f.Float64Var(&o.recipe.LearningRate, "learning-rate", 0, "peak learning rate")
	f.Float64Var(&o.recipe.TagShare, "tag-share", 0, "share of answers in <answer> tags, for every task, 0-1")
	f.StringToStringVar(&o.weights, "weights", nil, "weights of tasks, 1 for those not named: `bf=3,arc_1d=2`")
	f.Int64Var(&o.seed, "seed", 1, "seed of weights and questions")
	f.IntVar(&o.threads, "threads", 1, "CPU threads; the bundled weights used 1, and another number changes the last bits")
	f.IntVar(&o.curveItems, "curve-items", 108, "held-out questions after each tenth of the steps; 0: none")
	f.IntVar(&o.evalItems, "eval-items", 900, "maximum held-out questions of the final table")
	addOutputFlag(f, &o.output)
	return cmd
}

// validate checks the flags and completes the recipe with the preset's values.
func (o *pretrainOptions) validate(model configs.Model) error {
	switch {
	case o.out == "":
		return fail.Usage(errors.New("--out is missing: name a folder for the model"), "swarm pretrain --out ./nano")
	case o.threads < 1 || o.curveItems < 0 || o.evalItems < 0:
		return fail.Usage(errors.New("--threads must be at least 1, --curve-items and --eval-items at least 0"), "swarm pretrain --help")
	}
	if err := checkOutput(o.output); err != nil {
		return err
	}
	flags, recipe := o.recipe, configs.DefaultRecipe()
	if model.Pretrain != nil {
		recipe = *model.Pretrain
	}
	o.recipe = recipe
	for flag, take := range map[string]func(){
		"steps":         func() { o.recipe.Steps = flags.Steps },
		"batch":         func() { o.recipe.Batch = flags.Batch },
		"learning-rate": func() { o.recipe.LearningRate = flags.LearningRate },
		"tag-share":     func() { o.recipe.TagShare, o.recipe.TagShares = flags.TagShare, nil },
	} {
		if o.given(flag) {
			take()
		}
	}
	if o.given("weights") {
		o.recipe.Weights = map[string]float64{}
		for name, text := range o.weights {
			weight, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return &configs.Error{Key: "weights." + name, Value: text, Allowed: "a number above 0"}
			}
			o.recipe.Weights[name] = weight
		}
	}
	return o.recipe.Validate()
}

func runPretrain(ctx context.Context, g *globals, o pretrainOptions) error {
	model, err := configs.LoadModel(o.model)
	if err != nil {
		return err
	}
	if err := o.validate(model); err != nil {
		return err
	}
	out, err := recorded.EmptyFolder(o.out)
	if err != nil {
		return err
	}
	opts, err := pretrain.Request{
		Model: model, Set: o.set, Recipe: o.recipe, Seed: o.seed, Threads: o.threads, CurveItems: o.curveItems, EvalItems: o.evalItems, Out: out,
	}.Options()
	if err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	engine, err := g.python.Start(ctx, g.stderr, o.threads)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	defer engine.Close()
	result, err := pretrain.Run(ctx, engine, opts, func(p pretrain.Progress) { p.Print(g.stderr) })
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if o.output == "json" {
		return writeJSON(g.stdout, result)
	}
	result.Print(g.stdout, o.out)
	return nil
}
