package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/plainlog"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/background"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/notify"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/web"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
)

// invocation returns the program's name and its --home as this user would type them.
func (g *globals) invocation() string {
	program := os.Args[0]
	if !strings.Contains(program, "/") {
		program = "swarm"
	}
	if def, err := filepath.Abs(layout.Default(os.Getenv)); err != nil || def != string(g.home) {
		program += " --home " + string(g.home)
	}
	return program
}

// grammar describes how the program parses arguments.
func grammar() commandline.Grammar {
	return commandline.Grammar{Flags: commandFlags, Name: commandName}
}

// advice suggests commands to type next.
func (g *globals) advice() commandline.Advice {
	return commandline.Advice{Program: g.invocation(), Grammar: grammar(), Sources: configSources}
}

// commandFlags returns the flags of the command in args.
func commandFlags(args []string) *pflag.FlagSet {
	root := newRootCommand(&globals{})
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	if cmd, _, err := root.Find(args); err == nil {
		flags.AddFlagSet(cmd.Flags())
	}
	flags.AddFlagSet(root.PersistentFlags())
	return flags
}

// commandName returns the command in args, such as up; empty if there is none.
func commandName(args []string) string {
	cmd, _, err := newRootCommand(&globals{}).Find(args)
	if err != nil || !cmd.HasParent() {
		return ""
	}
	return cmd.Name()
}

// openReader opens the database for reading: the home's, or the file of --database.
func (g *globals) openReader(ctx context.Context) (*store.Reader, error) {
	if g.databaseFile != "" {
		return openDatabaseFile(ctx, g.databaseFile)
	}
	return lifecycle.OpenReader(ctx, g.home)
}

// nameIn returns the argument, empty if there is none.
func nameIn(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// tellEnvironment prints once which of rl-swarm's variables took effect.
func (g *globals) tellEnvironment(f *resolve.Flags, more ...string) {
	if g.environmentTold {
		return
	}
	g.environmentTold = true
	if note := f.EnvironmentNote(os.Environ(), more...); note != "" {
		io.WriteString(g.stderr, note+"\n")
	}
}

// configSources returns a configuration's sources besides its flags.
func configSources(environ []string, hasCUDA bool) resolve.Sources {
	return resolve.Sources{
		Environ: environ, HasCUDA: hasCUDA, FindModel: model.Find,
		Known: []string{"SWARM_HOME", "SWARM_PYTHON", resolve.PriceVariable, resolve.InvitationVariable, resolve.DashboardTokenVariable, gpu.LibraryVariable, policy.HostVariable},
	}
}

// neverWait keeps this process from waiting for readers of its output, such as a terminal after Ctrl-S: nodes that
// stand still cost as much as nodes that train. With asJSON stdout has one event a line. run flushes the output.
func (g *globals) neverWait(asJSON bool) {
	dropped := func(lines int) string { return units.Plural(lines, "line") + " dropped: the reader is too slow" }
	asText := func(lines int) string { return "Warning: " + dropped(lines) + "\n" }
	notice := asText
	if asJSON {
		notice = func(lines int) string {
			var line strings.Builder
			_ = event.NewWriter(&line).Write(event.Event{Type: event.TypeWarning, Time: event.Now(), Message: dropped(lines)})
			return line.String()
		}
	}
	together := screen.Same(g.stdout, g.stderr)
	g.stdout, g.stderr = screen.NewOutput(g.stdout, notice), screen.NewOutput(g.stderr, asText)
	if together {
		g.stderr = g.stdout // keeps the order of the lines
	}
	g.logger = plainlog.New(g.stderr, g.logLevel())
}

// planHost returns what planning needs of this process.
func (g *globals) planHost() plan.Host {
	return plan.Host{
		Home: g.home, Logger: g.logger, Stderr: g.stderr, Python: &g.python, Sources: configSources,
		Note: func(f *resolve.Flags) { g.tellEnvironment(f) },
	}
}

// hookProcess returns what hooks need of this process.
func (g *globals) hookProcess() notify.Process {
	return notify.Process{Stderr: g.stderr, Logger: g.logger, Logged: g.console != nil, Agent: "swarm/" + version}
}

// interactive tells whether a terminal can show a live view and read keys.
func (g *globals) interactive() bool {
	return screen.IsTerminal(g.stdout) && screen.IsTerminal(g.stdin) && terminal.Capable(os.Environ())
}

// coordinate prepares a run in this process.
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

// resolve plans a run on this host, after it has ended the leftovers of dead coordinators, which hold memory.
func (g *globals) resolve(ctx context.Context, o *plan.Options) (plan.Planned, error) {
	err := coordinator.Sweep(ctx, g.home, g.logger)
	if err != nil && ctx.Err() == nil && !errors.Is(err, syscall.ENOTDIR) { // a home that cannot be one is refused below
		g.logger.Warn("a leftover may hold memory", "error", err)
	}
	return o.Resolve(ctx, g.planHost())
}

// announceRun tells the process that started the run in the background that it is running. It does nothing in the
// foreground.
func (g *globals) announceRun(c *coordinator.Run, experiment string, page *web.Service, admission *workers.Admission) error {
	if g.console == nil {
		return nil
	}
	a := background.Announcement{Experiment: experiment, Run: c.Name(), PID: os.Getpid(), Log: runlog.Path(c.Dir(), runlog.Coordinator)}
	if page != nil {
		a.Dashboard, a.DashboardTokenFile = page.Link(), page.TokenFile()
	}
	if admission != nil {
		a.Join, a.JoinFile = admission.Invitation(), admission.InvitationFile()
	}
	return g.console.Announce(a)
}
