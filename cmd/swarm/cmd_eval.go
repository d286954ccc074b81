package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/recorded"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/node/model"
)

type evalOptions struct {
	config      resolve.Flags
	node        string
	round       int // -1: the newest
	questions   int // 0: the experiment's
	generations int // 0: the experiment's
	ks          string
	output      string
}

func newEvalCommand(g *globals) *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use:   "eval [EXPERIMENT, RUN or FOLDER]",
		Short: "Show or make a held-out evaluation: reward and pass@k",
		Long: "eval shows a run's held-out evaluations, of the newest run by default. Nodes make them before the\n" +
			"first round, every eval_every rounds and after the last. It prints the mean reward of a completion\n" +
			"and pass@k, the chance that at least one of k completions of a question is right.\n\n" +
			"--node evaluates a checkpoint of that node now: the newest, or that of --round, where 0 is the\n" +
			"initial model. A FOLDER (of `swarm model save`, or in Hugging Face layout) evaluates that model, on\n" +
			"the tasks and with the sampling of --config and --set. --model names the preset for tokenizer and\n" +
			"tasks if the folder does not say, and it samples with node_0's random numbers. Nothing is recorded,\n" +
			"and a running run is not disturbed: on a GPU it must leave enough memory free (exit code 3).\n\n" +
			"Only evaluations of the same set are comparable: equal tasks, prompt limits and sampling, whatever\n" +
			"the seed. Each node samples with random numbers of its own, so that nodes also differ by chance.",
		Example: "  swarm eval 4loc4ext\n  swarm eval 4loc4ext --node node_0 --generations 8 --k 1,8\n" +
			"  swarm eval ./trained --config 4loc4ext --model nano -o json",
		Args: usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd.Flags().Changed); err != nil {
				return err
			}
			name := nameIn(args)
			if o.node == "" && model.NamesFolder(name) {
				return runEvalNow(cmd.Context(), g, &o, func(ctx context.Context) (*recorded.Subject, error) { return o.folder(ctx, g, name) })
			}
			if o.node != "" {
				return runEvalNow(cmd.Context(), g, &o, func(ctx context.Context) (*recorded.Subject, error) { return o.checkpoint(ctx, g, name) })
			}
			return runEvalShow(cmd.Context(), g, &o, name)
		},
	}
	f := cmd.Flags()
	o.config.AddFlags(f)
	f.StringVar(&o.node, "node", "", "evaluate a checkpoint of this `node` now")
	f.IntVar(&o.round, "round", -1, "with --node: `rounds` that the checkpoint holds (default: the newest)")
	f.IntVar(&o.questions, "questions", 0, "held-out questions (default: eval_questions)")
	f.IntVar(&o.generations, "generations", 0, "completions of each (default: eval_generations, or the largest of --k)")
	f.StringVar(&o.ks, "k", "", "show pass@k for each of this `list`, such as 1,4 (default: powers of two)")
	addOutputFlag(f, &o.output)
	return cmd
}

// check refuses values that are invalid for every evaluation.
func (o *evalOptions) check(given func(flag string) bool) error {
	switch {
	case given("questions") && o.questions < 1 || o.questions > 10_000:
		return &configs.Error{Key: "questions", Value: strconv.Itoa(o.questions), Allowed: "a whole number from 1 to 10000"}
	case given("generations") && o.generations < 1 || o.generations > 256:
		return &configs.Error{Key: "generations", Value: strconv.Itoa(o.generations), Allowed: "a whole number from 1 to 256"}
	case given("round") && o.round < 0:
		return &configs.Error{Key: "round", Value: strconv.Itoa(o.round), Allowed: "a whole number from 0"}
	case o.round >= 0 && o.node == "":
		return fail.Usage(errors.New("--round selects a node's checkpoint and needs --node"), "--node node_0")
	}
	ks, err := o.passes()
	if err != nil {
		return err
	}
	if len(ks) > 0 && o.generations > 0 && slices.Max(ks) > o.generations {
		return &configs.Error{Key: "k", Value: o.ks, Allowed: fmt.Sprintf("whole numbers from 1 to --generations %d", o.generations)}
	}
	return checkOutput(o.output)
}

// passes returns the k values of pass@k; nil: the defaults of stats.
func (o *evalOptions) passes() ([]int, error) {
	var ks []int
	for part := range strings.SplitSeq(o.ks, ",") {
		if o.ks == "" {
			break
		}
		k, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || k < 1 || k > 256 {
			return nil, &configs.Error{Key: "k", Value: o.ks, Allowed: "whole numbers from 1 to 256, such as 1,4"}
		}
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return slices.Compact(ks), nil
}

// runEvalShow shows the recorded evaluations of a run's nodes.
func runEvalShow(ctx context.Context, g *globals, o *evalOptions, name string) error {
	if flag := o.config.Given(); flag != "" || o.questions > 0 || o.generations > 0 {
		if flag == "" {
			flag = "--questions or --generations"
		}
		return fail.Usage(fmt.Errorf("%s applies only to a new evaluation, of a node's checkpoint or a folder", flag), "--node node_0")
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return lifecycle.NotFound(err, name)
	}
	ks, err := o.passes()
	if err != nil {
		return err
	}
	evaluations, err := query.Evaluations(ctx, reader, snapshot.Run, ks...)
	if err != nil {
		return err
	}
	most := 0
	for _, row := range evaluations.Rows {
		most = max(most, row.Generations)
	}
	switch {
	case o.output == "json":
		return writeJSON(g.stdout, evaluations)
	case most == 0 && coordinator.ForeignNodes(snapshot.Run) != nil:
		return fail.Usage(fmt.Errorf("no held-out evaluation is recorded: %w", coordinator.ForeignNodes(snapshot.Run)), "swarm status "+snapshot.Run.Run)
	case most == 0:
		return fail.Hint(fmt.Errorf("run %s has no held-out evaluation yet", snapshot.Run.Run), "--node node_0, which evaluates its newest checkpoint now")
	case len(ks) > 0 && ks[0] > most:
		return fail.Usage(
			fmt.Errorf("pass@%d needs that many completions per question: run %s was evaluated with %d", ks[0], snapshot.Run.Run, most), "--node node_0")

	}
	return screen.Print(g.stdout, func(p *table.Page) { terminal.PrintEvaluations(p, evaluations, false) })
}

// runEvalNow evaluates a model and prints the result.
func runEvalNow(ctx context.Context, g *globals, o *evalOptions, open func(context.Context) (*recorded.Subject, error)) error {
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	ks, err := o.passes()
	if err != nil {
		return err
	}
	x, err := open(ctx)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	eval, err := evaluateHeldOut(ctx, g, x)
	if err != nil {
		return interrupt.Exit(ctx, plan.OutOfMemory(err))
	}
	made := store.NodeEval{Node: cmp.Or(x.Node(), x.Dir), Time: event.Now(), Eval: eval}
	evaluations := evaluation.New(x.Run, []store.NodeEval{made}, ks...)
	if o.output == "json" {
		return writeJSON(g.stdout, evaluations)
	}
	return screen.Print(g.stdout, func(p *table.Page) { terminal.PrintEvaluations(p, evaluations, x.Node() == "") })
}

func evaluateHeldOut(ctx context.Context, g *globals, x *recorded.Subject) (event.Eval, error) {
	engine, err := x.Open(ctx, g.planHost())
	if err != nil {
		return event.Eval{}, err
	}
	defer engine.Close()
	progress := screen.NewStatusLine(g.stderr, 10*time.Second)
	defer progress.End()
	return engine.HeldOut(ctx, func(done, of int) { progress.Say(fmt.Sprintf("answered %d of %d questions", done, of)) })
}

// checkpoint opens a checkpoint of a run's node.
func (o *evalOptions) checkpoint(ctx context.Context, g *globals, name string) (*recorded.Subject, error) {
	if flag := o.config.Given("device"); flag != "" {
		return nil, fail.Usage(
			fmt.Errorf("%s and --node exclude each other: a checkpoint is evaluated with its run's configuration", flag), "swarm eval FOLDER, with a folder of swarm model save")

	}
	run, err := recorded.OpenReader(g.openReader).Run(ctx, name)
	if err != nil && model.NamesFolder(name) {
		return nil, fail.Usage(fmt.Errorf("%s is a folder, but --node needs a run", name), "swarm eval "+name+", or a run's name with --node")
	}
	if err != nil {
		return nil, err
	}
	x, err := recorded.Checkpoint(g.planHost(), run, o.node, o.round)
	if err != nil {
		return nil, err
	}
	for _, k := range o.config.Keys {
		if k.Given {
			x.Config.Device = k.Text
		}
	}
	o.apply(&x.Config)
	if err := configs.Validate(x.Config); err != nil {
		return nil, err
	}
	return x, x.Place(ctx, g.planHost(), false)
}

// folder opens a model's folder, with the flags' tasks and sampling.
func (o *evalOptions) folder(ctx context.Context, g *globals, dir string) (*recorded.Subject, error) {
	x, err := recorded.Base(ctx, g.planHost(), &o.config, dir)
	if err != nil {
		return nil, err
	}
	o.apply(&x.Config)
	return x, x.Place(ctx, g.planHost(), false)
}

// apply overrides the configuration with the command's own flags.
func (o *evalOptions) apply(c *configs.Config) {
	ks, _ := o.passes() // check has reported errors
	if o.questions > 0 {
		c.EvalQuestions = o.questions
	}
	if c.EvalQuestions == 0 {
		c.EvalQuestions = configs.Default().EvalQuestions // the run itself doesn't evaluate
	}
	switch {
	case o.generations > 0:
		c.EvalGenerations = o.generations
	case len(ks) > 0:
		c.EvalGenerations = max(c.EvalGenerations, slices.Max(ks))
	}
}
