package recorded

import (
	"context"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/model"
)

// Wanted selects the weights of a run and the device, as the flags name them. nil means the best node, the newest
// round and the run's device.
type Wanted struct {
	Node   *string
	Round  *int
	Device *string
}

// ofRun returns a flag that was set and applies only to runs, or "".
func (w Wanted) ofRun() string {
	switch {
	case w.Node != nil:
		return "--node"
	case w.Round != nil:
		return "--round"
	}
	return ""
}

// Find returns the model with that name: a folder, a run's node, or a model without a run. For a run's node it also
// returns how the node was chosen.
func (w Wanted) Find(ctx context.Context, h plan.Host, open OpenReader, name string) (*Subject, evaluation.Choice, error) {
	var choice evaluation.Choice
	ofRun := w.ofRun()
	if model.NamesFolder(name) {
		if ofRun != "" {
			return nil, choice, fail.Usage(fmt.Errorf("%s is a folder, but %s needs a run", name, ofRun), "the same command without "+ofRun)
		}
		s, err := w.base(ctx, h, name)
		return s, choice, err
	}
	run, runErr := open.Run(ctx, name)
	if runErr == nil {
		return w.trained(ctx, h, open, run)
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
		return nil, choice, fail.Usage(fmt.Errorf("%s is a model, but %s needs a run", name, ofRun), "the same command without "+ofRun)
	}
	s, err := w.base(ctx, h, name)
	return s, choice, err
}

// trained returns the wanted node of a run, or its best node.
func (w Wanted) trained(ctx context.Context, h plan.Host, open OpenReader, run store.Run) (*Subject, evaluation.Choice, error) {
	var choice evaluation.Choice
	if w.Node != nil && *w.Node != "" {
		choice.Node = *w.Node
	} else {
		var err error
		if choice, err = open.BestNode(ctx, h.Home, run); err != nil {
			return nil, choice, err
		}
	}
	round := -1
	if w.Round != nil {
		round = *w.Round
	}
	s, err := Checkpoint(h, run, choice.Node, round)
	if err != nil {
		return nil, choice, err
	}
	if w.Device != nil {
		s.Config.Device = *w.Device
	}
	return s, choice, configs.Validate(s.Config)
}

// base returns a model without a run, with the default tasks and sampling.
func (w Wanted) base(ctx context.Context, h plan.Host, name string) (*Subject, error) {
	var flags resolve.Flags
	for _, key := range configs.AllKeys() {
		switch k := (&resolve.KeyFlag{Key: key, Source: "--" + key.FlagName()}); key.Name {
		case "model":
			flags.Keys = append(flags.Keys, k)
		case "device":
			if w.Device != nil {
				k.Text, k.Given = *w.Device, true
			}
			flags.Keys = append(flags.Keys, k)
		}
	}
	return Base(ctx, h, &flags, name)
}
