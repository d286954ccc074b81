package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/model"
)

// find is the model that a name means: a folder, a run's node, or a model that no run has. The choice is that of the run's node.
func (o *promptOptions) find(ctx context.Context, g *globals, name string) (*examinee, stats.Choice, error) {
	var choice stats.Choice
	ofRun := ""
	switch {
	case o.given("node"):
		ofRun = "--node"
	case o.given("round"):
		ofRun = "--round"
	}
	if isModelFolder(name) {
		if ofRun != "" {
			return nil, choice, fail.Usage(fmt.Errorf("%s is a folder, and %s is a run's", name, ofRun), "the same without "+ofRun)
		}
		x, err := o.base(ctx, g, name)
		return x, choice, err
	}
	run, runErr := g.findRun(ctx, name)
	if runErr == nil {
		x, choice, err := o.trained(ctx, g, run)
		return x, choice, err
	}
	if _, err := model.Find(name); err != nil {
		var unknown *fail.UsageError
		var nothing *fail.HintError
		if errors.As(runErr, &unknown) || errors.As(runErr, &nothing) {
			runErr = fail.Usage(fmt.Errorf("no run, experiment or model %q is known here", name), "swarm ls, or swarm model list")
		}
		return nil, choice, runErr
	}
	if ofRun != "" {
		return nil, choice, fail.Usage(fmt.Errorf("%s is a model, and %s is a run's", name, ofRun), "the same without "+ofRun)
	}
	x, err := o.base(ctx, g, name)
	return x, choice, err
}

// trained is the node of the flags, or the best.
func (o *promptOptions) trained(ctx context.Context, g *globals, run store.Run) (*examinee, stats.Choice, error) {
	choice := stats.Choice{Node: o.node}
	if o.node == "" {
		var err error
		if choice, err = g.bestNode(ctx, run); err != nil {
			return nil, choice, err
		}
	}
	x, err := g.checkpointOf(run, choice.Node, o.round)
	if err != nil {
		return nil, choice, err
	}
	if o.given("device") {
		x.config.Device = o.device
	}
	return x, choice, configs.Validate(x.config)
}

// base is a model as it is, with the tasks and sampling of its defaults.
func (o *promptOptions) base(ctx context.Context, g *globals, name string) (*examinee, error) {
	var flags resolve.Flags
	for _, key := range configs.AllKeys() {
		switch k := (&resolve.KeyFlag{Key: key, Source: "--" + key.FlagName()}); key.Name {
		case "model":
			flags.Keys = append(flags.Keys, k)
		case "device":
			k.Text, k.Given = o.device, o.given("device")
			flags.Keys = append(flags.Keys, k)
		}
	}
	return g.baseModel(ctx, &flags, name)
}

// bestNode chooses one of a run's nodes that have a folder here.
func (g *globals) bestNode(ctx context.Context, run store.Run) (stats.Choice, error) {
	if err := coordinator.ForeignNodes(run); err != nil {
		return stats.Choice{}, err
	}
	known, err := g.nodeFolders(run)
	if err != nil {
		return stats.Choice{}, err
	}
	if len(known) == 0 {
		return stats.Choice{}, fail.Hint(fmt.Errorf("run %s has no node here", run.Run), "swarm status "+run.Run)
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return stats.Choice{}, err
	}
	defer reader.Close()
	evals, err := reader.Evals(ctx, run.Run)
	if err != nil {
		return stats.Choice{}, err
	}
	snapshot, err := reader.Snapshot(ctx, run.Run)
	if err != nil {
		return stats.Choice{}, err
	}
	return stats.BestNode(known, evals, snapshot.Recent), nil
}
