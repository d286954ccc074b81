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

// inBackground tells whether this process is the background copy. If so, it redirects output and logs to the
// background console.
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

// detachUp implements up --detach. It asks every question and reports configuration errors before it starts the
// background process, which can't ask.
func detachUp(ctx context.Context, g *globals, o *upOptions) error {
	look, err := o.plan.Look(g.planHost())
	if err != nil {
		return err
	}
	p, _, err := look(ctx)
	switch {
	case errors.Is(err, coordinator.ErrFinished): // the background process reports it
	case err != nil:
		return err
	case p.Trainer.Command != "", o.plan.Hosts && o.plan.Nodes == plan.NoNodes: // the trainer brings its own model
	default:
		if _, err := ensureModels(ctx, g, p, o.yes); err != nil {
			return err
		}
	}
	return inTheBackground(g, o.output)
}

// inTheBackground starts the same command in the background and prints its announcement.
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

// startBackground starts the same command in the background. Its announcement omits secrets unless stdout is a
// terminal.
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
