package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node"
)

// checkpoint is a run's node's.
func (o *evalOptions) checkpoint(ctx context.Context, g *globals, name string) (*examinee, error) {
	if flag := o.config.Given("device"); flag != "" {
		return nil, fail.Usage(
			fmt.Errorf("%s does not go with --node: a checkpoint is evaluated with its run's configuration", flag), "swarm eval FOLDER, of swarm model save")

	}
	run, err := g.findRun(ctx, name)
	if err != nil && isModelFolder(name) {
		return nil, fail.Usage(fmt.Errorf("%s is a folder, and --node is a run's", name), "swarm eval "+name+", or --node with a run's name")
	}
	if err != nil {
		return nil, err
	}
	x, err := g.checkpointOf(run, o.node, o.round)
	if err != nil {
		return nil, err
	}
	for _, k := range o.config.Keys {
		if k.Given {
			x.config.Device = k.Text
		}
	}
	o.apply(&x.config)
	if err := configs.Validate(x.config); err != nil {
		return nil, err
	}
	return x, x.place(ctx, g)
}

// folder is a model's folder, with the tasks and sampling of the flags.
func (o *evalOptions) folder(ctx context.Context, g *globals, dir string) (*examinee, error) {
	x, err := g.baseModel(ctx, &o.config, dir)
	if err != nil {
		return nil, err
	}
	o.apply(&x.config)
	return x, x.place(ctx, g)
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

// evaluate has the model answer the held-out questions in an engine of its own.
func (x *examinee) evaluate(ctx context.Context, g *globals) ([]store.NodeEval, error) {
	o, err := x.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	questions, err := node.OpenHeldOut(x.config, x.tasks, x.tokens, o.context)
	if err != nil {
		return nil, err
	}
	if questions.Len() == 0 {
		err := errors.New("the tasks have no held-out question that fits the model's context")
		return nil, fail.Hint(err, "a larger --max-prompt-length, or other tasks")
	}
	progress := screen.NewStatusLine(g.stderr, 10*time.Second)
	defer progress.End()
	eval, err := questions.Evaluate(ctx, o.rounds, o.Generate, func(done int) {
		progress.Say(fmt.Sprintf("answered %d of %d questions", done, questions.Len()))
	})
	if err != nil {
		return nil, err
	}
	return []store.NodeEval{{Node: cmp.Or(x.node, x.modelDir), Time: event.Now(), Eval: eval}}, nil
}
