package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/pretrain"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

type pretrainOptions struct {
	model, set, out, output string
	steps, batch, evalItems int
	rate, tagShare          float64
	seed                    int64
	threads                 int
}

func newPretrainCommand(g *globals) *cobra.Command {
	var o pretrainOptions
	cmd := &cobra.Command{
		Use:   "pretrain --out DIR",
		Short: "Train a small base model from scratch on a task set's questions and answers",
		Long: "pretrain trains a model of a preset's shape, from random weights, on fresh questions with their answers in mixed\n" +
			"phrasings, of which --tag-share use the <answer> tags. It writes a Hugging Face directory (config.json and\n" +
			"model.safetensors, float16) that --model takes. Held-out questions are never trained on; they make the closing table.",
		Example: "  swarm pretrain --model nano --tasks nano --out ./nano",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPretrain(cmd.Context(), g, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "nano", "model preset whose shape and tokenizer to use")
	f.StringVar(&o.set, "tasks", "nano", "task set to learn")
	f.StringVar(&o.out, "out", "", "folder to write (required)")
	f.IntVar(&o.steps, "steps", 2200, "optimizer steps")
	f.IntVar(&o.batch, "batch", 64, "questions a step")
	f.Float64Var(&o.rate, "learning-rate", 3e-3, "peak learning rate")
	f.Float64Var(&o.tagShare, "tag-share", 0.12, "share of answers in <answer> tags, 0-1")
	f.Int64Var(&o.seed, "seed", 1, "seed of weights and questions")
	f.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "CPU threads")
	f.IntVar(&o.evalItems, "eval-items", 1024, "held-out questions of the closing table")
	addOutputFlag(f, &o.output)
	return cmd
}

func (o *pretrainOptions) validate() error {
	switch {
	case o.out == "":
		return &usageError{errors.New("--out is missing: the folder to write the model to"), "swarm pretrain --out ./nano"}
	case o.steps < 1 || o.batch < 1 || o.threads < 1 || o.evalItems < 0:
		return &usageError{errors.New("--steps, --batch and --threads must be at least 1, --eval-items at least 0"), "swarm pretrain --help"}
	case !(o.rate > 0 && o.rate < 1):
		return &configs.Error{Key: "learning-rate", Value: fmt.Sprint(o.rate), Allowed: "a number between 0 and 1"}
	case !(o.tagShare >= 0 && o.tagShare <= 1):
		return &configs.Error{Key: "tag-share", Value: fmt.Sprint(o.tagShare), Allowed: "a number from 0 to 1"}
	}
	return checkOutput(o.output)
}

func runPretrain(ctx context.Context, g *globals, o pretrainOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	model, err := configs.LoadModel(o.model)
	if err != nil {
		return err
	}
	mixture, err := configs.TaskSet(o.set)
	if err != nil {
		return err
	}
	tasks, err := task.Open(configs.Tasks{Mixture: mixture})
	if err != nil {
		return err
	}
	tokens, err := tokenizer.New(model.Tokenizer)
	if err != nil {
		return err
	}
	prompt := "none"
	if tasks, ok := model.Defaults["tasks"].(map[string]any); ok {
		if name, ok := tasks["system_prompt"].(string); ok {
			prompt = name
		}
	}
	system, _ := task.SystemPrompt(prompt)

	// Relative to here: the engine, which writes it, runs in another folder.
	out, err := filepath.Abs(o.out)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}

	ctx, interrupts := watchSignals(ctx, g.stderr, "Stopping.")
	defer interrupts.close()
	engine, err := startEngine(ctx, g, o.threads)
	if err != nil {
		return stoppedBy(ctx, err)
	}
	defer engine.Close()
	result, err := pretrain.Run(ctx, engine, pretrain.Options{
		Shape: model.Shape, Tokens: tokens, Tasks: tasks, SystemPrompt: system,
		Steps: o.steps, Batch: o.batch, LearningRate: o.rate, TagShare: o.tagShare, Seed: o.seed,
		Threads: o.threads, EvalItems: o.evalItems, MaxNewTokens: 48, Out: out,
	}, func(p pretrain.Progress) {
		left := time.Duration(float64(p.Elapsed) / float64(p.Step) * float64(p.Steps-p.Step))
		fmt.Fprintf(g.stderr, "step %d/%d · loss %.4f nats a token · %.0f tokens/s · left %s\n",
			p.Step, p.Steps, p.Loss, float64(p.Tokens)/p.Elapsed.Seconds(), left.Round(time.Second))
	})
	if err != nil {
		return stoppedBy(ctx, err)
	}
	if o.output == "json" {
		return writeJSON(g.stdout, result)
	}
	fmt.Fprintf(g.stdout, "%-26s %6s %8s %8s\n", "held-out questions of", "items", "reward", "knows")
	for _, t := range result.Tasks {
		fmt.Fprintf(g.stdout, "%-26s %6d %8.3f %8.3f\n", t.Task, t.Items, t.Reward, t.Knows)
	}
	fmt.Fprintf(g.stdout, "%-26s %6d %8.3f %8.3f\n", "all", o.evalItems, result.Reward, result.Knows)
	fmt.Fprintf(g.stdout, "\n%s parameters, %.2f MB in %s, %.1f %% of completions in tags, %s\n",
		group(result.Parameters), float64(result.Bytes)/1e6, o.out, 100*result.FormatRate, time.Duration(result.Seconds*float64(time.Second)).Round(time.Second))
	fmt.Fprintf(g.stdout, "Next: swarm up --model %s --config 4loc4ext --device cpu\n", o.out)
	return nil
}

// startEngine finds Python and starts an engine outside of a node, with more in its environment.
func startEngine(ctx context.Context, g *globals, threads int, more ...string) (*policy.Engine, error) {
	python, err := g.findPython(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := policy.Extract(g.home)
	if err != nil {
		return nil, err
	}
	env := append(os.Environ(), fmt.Sprintf("OMP_NUM_THREADS=%d", threads), fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads))
	env = append(env, more...)
	return policy.Start(ctx, policy.Options{Python: python.Path, Dir: dir, Env: env, Stderr: g.stderr})
}

// group writes an integer with thousands apart.
func group(n int64) string {
	s := fmt.Sprint(n)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), " ")
}
