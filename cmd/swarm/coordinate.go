package main

import (
	"context"
	"os"

	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/background"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/web"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// interactive tells whether there is a terminal to show a live view on and to take keys from.
func (g *globals) interactive() bool {
	return screen.IsTerminal(g.stdout) && screen.IsTerminal(g.stdin) && terminal.Capable(os.Environ())
}

// coordinate prepares a run of this process.
func (g *globals) coordinate(ctx context.Context, o coordinator.Options, yes bool) (*coordinator.Run, error) {
	o.Host = coordinator.Host{
		Host: g.planHost(), Version: version, Stdin: g.stdin, Stdout: g.stdout,
		Interactive: g.interactive(), Background: g.console != nil, Verbose: g.verbose, Program: g.invocation(),
	}
	o.EnsureModels = func(ctx context.Context) (map[string]string, error) { return ensureModels(ctx, g, o.Planned, yes) }
	if g.began != nil {
		o.Command, o.KeepSecrets = *g.began, commandline.Secrets{}.Write
	} else {
		typed, secrets := commandline.Typed(g.args, grammar())
		o.Command, o.KeepSecrets = typed, secrets.Write
	}
	advice := g.advice()
	o.GoesOn = advice.GoesOn
	o.Baseline = func(s stats.Summary) string { return advice.Baseline(o.Planned.Config, o.Planned.Trainer.Command, s) }
	return coordinator.Prepare(ctx, o)
}

// announceRun tells whoever started the run in the background that it has begun. In the foreground there is nothing to tell.
func (g *globals) announceRun(c *coordinator.Run, experiment string, page *web.Service, admission *workers.Admission) error {
	if g.console == nil {
		return nil
	}
	a := background.Announcement{Experiment: experiment, Run: c.Name(), PID: os.Getpid(), Log: runlog.Path(c.Dir(), runlog.Coordinator)}
	if page != nil {
		a.Dashboard = page.URL()
	}
	if admission != nil {
		a.Join = admission.Invitation()
	}
	return g.console.Announce(a)
}
