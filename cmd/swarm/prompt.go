package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/recorded"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/node/evaluate"
)

type promptOptions struct {
	node, task, device string
	output             *string
	round              int // -1: the newest
	completions        int
	seed, index        int64
	maxNew, topK       int
	temperature, topP  float64
	given              func(flag string) bool
}

func newModelPromptCommand(g *globals, output *string) *cobra.Command {
	o := promptOptions{output: output}
	cmd := &cobra.Command{
		Use:   "prompt NAME [QUESTION]",
		Short: "Ask a trained node or a model a question and score its answers",
		Long: "prompt samples completions of a question. NAME is a run or an experiment, whose newest run counts,\n" +
			"else a model: a folder, a preset, or a cached name of the hub. In a run the node with the best\n" +
			"held-out reward answers, or --node, with its newest checkpoint. The model gets the question as in\n" +
			"training: with the run's system prompt, and in the chat template if its tokenizer has one.\n\n" +
			"Without a QUESTION the task draws one and scores the answers. --task NAME, --seed and --index name\n" +
			"the question as `swarm task sample` does, with the run's parameters of the task. Without --task it\n" +
			"is a held-out question of the run's tasks. QUESTION - reads stdin. Nothing is recorded or\n" +
			"downloaded. The same command gives the same completions. A running run is not disturbed: if the GPU\n" +
			"has too little memory free, the CPU answers.",
		Example: "  swarm model prompt 4loc4ext\n  swarm model prompt 4loc4ext --task bf --seed 1 -n 8\n" +
			"  swarm model prompt ./trained \"What is 17 + 25?\" --temperature 0 -n 1\n  echo \"What is 17 + 25?\" | swarm model prompt nano - -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fail.Usage(fmt.Errorf("%s takes a run or a model, and at most one question, not %d arguments", cmd.CommandPath(), len(args)),
					cmd.CommandPath()+" --help")

			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = cmd.Flags().Changed
			return runModelPrompt(cmd.Context(), g, &o, args[0], args[1:])
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.completions, "completions", "n", 4, "completions to sample")
	f.StringVar(&o.task, "task", "", "draw a question of this `task` and score the answers")
	f.Int64Var(&o.seed, "seed", 42, "seed for drawing the question and for sampling")
	f.Int64Var(&o.index, "index", 0, "index of the question to draw with that seed")
	f.StringVar(&o.node, "node", "", "`node` of the run that answers (default: the node with the best held-out reward, else the best recent reward)")
	f.IntVar(&o.round, "round", -1, "use its checkpoint after this many `rounds`; 0 is the model before training (default: the newest)")
	f.IntVar(&o.maxNew, "max-completion-length", 0, "maximum `tokens` of a completion (default: as in training)")
	f.Float64Var(&o.temperature, "temperature", 0, "sampling temperature; 0 takes the most probable token (default: as in training)")
	f.Float64Var(&o.topP, "top-p", 0, "sample from the most probable tokens with this total probability (default: as in training)")
	f.IntVar(&o.topK, "top-k", 0, "sample from this many of the most probable tokens; 0 is off (default: as in training)")
	f.StringVar(&o.device, "device", "", "auto, cpu, cuda or cuda:N (default: the run's device, or the CPU if that has too little free memory)")
	return cmd
}

// check refuses values that are invalid for every model.
func (o *promptOptions) check(question []string) error {
	whole := func(flag string, value, low, high int64) error {
		if !o.given(flag) || low <= value && value <= high {
			return nil
		}
		return &configs.Error{Key: flag, Value: strconv.FormatInt(value, 10), Allowed: fmt.Sprintf("a whole number from %d to %d", low, high)}
	}
	err := errors.Join(whole("completions", int64(o.completions), 1, 256), whole("seed", o.seed, 0, configs.MaxSeed),
		whole("index", o.index, 0, 1<<40), whole("round", int64(o.round), 0, 10_000_000),
		whole("max-completion-length", int64(o.maxNew), 1, 1<<20), whole("top-k", int64(o.topK), 0, 1_000_000))
	switch {
	case err != nil:
		return err
	case o.given("temperature") && !(o.temperature >= 0 && o.temperature <= 100):
		return &configs.Error{Key: "temperature", Value: fmt.Sprint(o.temperature), Allowed: "a number from 0 to 100"}
	case o.given("top-p") && !(o.topP > 0 && o.topP <= 1):
		return &configs.Error{Key: "top-p", Value: fmt.Sprint(o.topP), Allowed: "a number above 0, at most 1"}
	case len(question) > 0 && o.given("task"):
		return fail.Usage(errors.New("--task draws a question, so it excludes a QUESTION argument"), "the same command without the question, or without --task")
	case len(question) > 0 && o.given("index"):
		return fail.Usage(errors.New("--index selects a question to draw, so it excludes a QUESTION argument"), "the same command without the question, or without --index")
	}
	return checkOutput(*o.output)
}

// sampling returns the flags that override the sampling of the model's training.
func (o *promptOptions) sampling() evaluate.Sampling {
	return evaluate.Sampling{
		MaxCompletionLength: ifGiven(o, "max-completion-length", &o.maxNew), TopK: ifGiven(o, "top-k", &o.topK),
		Temperature: ifGiven(o, "temperature", &o.temperature), TopP: ifGiven(o, "top-p", &o.topP),
	}
}

// ifGiven returns a flag's value, nil if the flag was not given.
func ifGiven[T any](o *promptOptions, flag string, value *T) *T {
	if !o.given(flag) {
		return nil
	}
	return value
}

func runModelPrompt(ctx context.Context, g *globals, o *promptOptions, name string, question []string) error {
	if err := o.check(question); err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	wanted := recorded.Wanted{Node: ifGiven(o, "node", &o.node), Round: ifGiven(o, "round", &o.round), Device: ifGiven(o, "device", &o.device)}
	x, choice, err := wanted.Find(ctx, g.planHost(), g.openReader, name)
	if err != nil {
		return err
	}
	if err := x.OpenText(); err != nil {
		return err
	}
	var q evaluate.Question
	if len(question) > 0 {
		q, err = evaluate.ReadQuestion(g.stdin, question[0])
	} else {
		q, err = x.Draw(o.task, o.seed, o.index)
	}
	if err != nil {
		return err
	}
	answers, err := o.ask(ctx, g, x, q)
	if err != nil {
		return interrupt.Exit(ctx, plan.OutOfMemory(err))
	}
	if x.Node() != "" {
		answers.Run, answers.Node, answers.Choice, answers.Because = x.Run.Run, x.Node(), choice.By, terminal.ChosenBecause(choice)
	}
	if *o.output == "json" {
		return writeJSON(g.stdout, answers)
	}
	return answers.Print(g.stdout)
}

// ask plans for the question, opens the model and samples answers.
func (o *promptOptions) ask(ctx context.Context, g *globals, x *recorded.Subject, q evaluate.Question) (*evaluate.Answers, error) {
	prompt, err := x.Prepare(q, o.sampling(), o.completions, g.stderr)
	if err != nil {
		return nil, err
	}
	if err := x.Place(ctx, g.planHost(), !o.given("device")); err != nil {
		return nil, err
	}
	engine, err := x.Open(ctx, g.planHost())
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	return engine.Ask(ctx, q, prompt, o.completions, o.seed, o.index, g.stderr)
}
