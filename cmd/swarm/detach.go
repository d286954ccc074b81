package main

import (
	"context"
	"errors"

	"github.com/sapo-swarm/swarm/internal/plainlog"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/background"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/plan"
)

// inBackground tells whether this process is the copy that goes to the background, and has it print and log to its
// console.
func inBackground(g *globals) bool {
	if g.console != nil {
		return true
	}
	if g.console = background.Enter(); g.console == nil {
		return false
	}
	g.stdout, g.stderr = g.console.Streams(g.stdout, g.stderr)
	g.logger = plainlog.New(g.stderr, g.logLevel())
	return true
}

// detachUp implements up --detach. What would need an answer is asked here, since nobody can be asked in the
// background, and what is wrong with the configuration is told before anything is started.
func detachUp(ctx context.Context, g *globals, o *upOptions) error {
	look, err := o.plan.Look(g.planHost())
	if err != nil {
		return err
	}
	p, _, err := look(ctx)
	switch {
	case errors.Is(err, coordinator.ErrFinished): // the other process says so
	case err != nil:
		return err
	case p.Trainer.Command != "", o.plan.Hosts && o.plan.Nodes == plan.NoNodes: // no model of this program's is trained here
	default:
		if _, err := ensureModels(ctx, g, p, o.yes); err != nil {
			return err
		}
	}
	return inTheBackground(g, o.output)
}

// inTheBackground does the same command again there, and says what it announces.
func inTheBackground(g *globals, output string) error {
	a, err := startBackground(g)
	if a == nil || err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(g.stdout, a)
	}
	return a.Write(g.stdout, g.invocation())
}

// startBackground does the same command again in the background. What it announces is without secrets unless stdout is
// a terminal.
func startBackground(g *globals) (*background.Announcement, error) {
	args, secrets, err := commandline.Mask(g.args, grammar())
	if err != nil {
		return nil, err
	}
	var environ []string
	if secrets != "" {
		environ = append(environ, secrets)
	}
	a, err := background.Start(args, environ...)
	if a != nil && !screen.IsTerminal(g.stdout) {
		public := a.Public()
		a = &public
	}
	return a, err
}
