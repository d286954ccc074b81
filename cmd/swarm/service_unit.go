package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/systemd"
	"github.com/sapo-swarm/swarm/launcher/workers"
)

// newUnit checks the arguments and makes the unit that runs swarm up or swarm join with them. left are environment
// variables that the unit does not keep.
func newUnit(ctx context.Context, g *globals, system bool, name string, up []string) (u systemd.Unit, left []string, err error) {
	c := systemd.Command{Home: string(g.home), Python: g.python.Path, Verbose: g.verbose, Verb: "up", Args: up}
	secrets := systemd.Secrets{Home: g.home, Unit: name}
	if len(up) > 0 && up[0] == "join" {
		c.Verb = up[0]
		c.Args, err = checkJoinService(g, up[1:])
	} else {
		var onGPU bool
		if onGPU, err = checkUp(ctx, g, up); onGPU && !names(up, "device") {
			// Without an explicit device, a late driver at boot would look like a machine without a GPU.
			c.Device = fit.DeviceCUDA
		}
		if err == nil {
			c.Args, err = takeSecrets(g, up, &secrets)
		}
	}
	if err != nil {
		return u, nil, err
	}
	c.Args = append([]string{"--" + commandline.ServiceFlag}, c.Args...)
	u, left, err = systemd.NewUnit(name, system, c)
	u.Secrets = secrets
	return u, left, err
}

// addServiceFlag adds the flag of a unit's command. It is no flag for users.
func addServiceFlag(f *pflag.FlagSet, into *bool) {
	f.BoolVar(into, commandline.ServiceFlag, false, "this is a service")
	f.Lookup(commandline.ServiceFlag).Hidden = true
}

// tellDeclined prints why a service does not continue a run, and how to continue it.
func (g *globals) tellDeclined(run string, d *coordinator.DeclinedError) error {
	fmt.Fprintf(g.stderr, "%s: %s To continue it: %s resume %s\n", run, d.Why, g.invocation(), run)
	return fail.Exit(d.Code)
}

// takeSecrets returns the arguments of swarm up with secrets replaced by the files that hold them.
func takeSecrets(g *globals, args []string, secrets *systemd.Secrets) ([]string, error) {
	up := newUpCommand(g)
	if err := up.ParseFlags(args); err != nil {
		return nil, fail.Usage(usage.FlagError(up, err), "swarm up --help")
	}
	var more []string
	secrets.Values = map[string]string{}
	for _, flag := range []string{"webhook", "on-complete"} {
		if value := up.Flags().Lookup(flag).Value.String(); value != "" {
			secrets.Values[flag] = value
			more = append(more, "--"+flag+"-file", secrets.Path(flag))
		}
	}
	if more == nil {
		return args, nil
	}
	words := grammar().Without(append([]string{"up"}, args...), "webhook", "on-complete")
	return append(words[1:], more...), nil
}

// names tells whether args contain a flag with that name.
func names(args []string, flag string) bool {
	for _, arg := range args {
		if arg == "--"+flag || strings.HasPrefix(arg, "--"+flag+"=") {
			return true
		}
	}
	return false
}

// checkJoinService checks the arguments of a swarm join service and returns them with absolute paths. It doesn't
// contact the coordinator, which may start later.
func checkJoinService(g *globals, args []string) ([]string, error) {
	join := newJoinCommand(g)
	if err := join.ParseFlags(args); err != nil {
		return nil, fail.Usage(usage.FlagError(join, err), "swarm join --help")
	}
	if join.Flags().NArg() > 0 {
		return nil, fail.Usage(errors.New("an invitation is a secret, and every user can read a systemd unit"), "write the invitation to a file, and use join --url-file FILE")
	}
	var o workers.JoinOptions
	for name, into := range map[string]*string{"url-file": &o.URLFile, "shared": &o.Shared, "experiment": &o.Experiment} {
		*into = join.Flags().Lookup(name).Value.String()
	}
	o.SharedTyped = join.Flags().Changed("shared")
	o.IgnoreRLSwarm = join.Flags().Changed(resolve.IgnoreRLSwarmFlag)
	o.ReadRLSwarm(join.Flags().Changed, os.Getenv)
	for name, why := range map[string]string{"detach": "a service already runs in the background", "fresh": "a service with --fresh would begin a new run at each start"} {
		if join.Flags().Changed(name) {
			return nil, fail.Usage(errors.New(why), "without --"+name)
		}
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Shared != "" {
		return append(slices.Clone(args), "--shared", o.Shared, "--experiment", o.Experiment), nil
	}
	if o.URLFile == "" {
		return nil, fail.Usage(errors.New("a systemd unit keeps no secrets: the invitation must come from a file"), "write the invitation to a file, and use join --url-file FILE")
	}
	if _, err := o.Invitation(); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(o.URLFile)
	if err != nil {
		return nil, fmt.Errorf("--url-file: %w", err)
	}
	return append(slices.Clone(args), "--url-file", path), nil
}

// checkUp checks the arguments of a swarm up service, and tells whether it would train on a GPU. It only warns of
// temporary problems, such as a full GPU.
func checkUp(ctx context.Context, g *globals, args []string) (onGPU bool, err error) {
	up := newUpCommand(g)
	if err := up.ParseFlags(args); err != nil {
		return false, fail.Usage(usage.FlagError(up, err), "swarm up --help")
	}
	if detach := up.Flags().Lookup("detach"); detach != nil && detach.Changed {
		return false, fail.Usage(errors.New("a service already runs in the background"), "the same command without --detach")
	}
	if fresh := up.Flags().Lookup("fresh"); fresh != nil && fresh.Value.String() == "true" {
		return false, fail.Usage(
			errors.New("a service with --fresh would begin a new run at each start"),
			"swarm up --fresh --detach once, then the service without it")

	}
	if strings.Contains(up.Flags().Lookup("nats").Value.String(), "@") {
		return false, fail.Usage(
			errors.New("--nats has a password, and every user can read a systemd unit"),
			"write the URLs to a file of mode 0600 and use --nats-file FILE, or use --nats-creds FILE")

	}
	var p plan.Options
	known := pflag.NewFlagSet("up", pflag.ContinueOnError)
	addPlanFlags(known, &p)
	known.Var(&p.GPULimit, "gpu-memory", "")
	if err := copyFlags(up.Flags(), known); err != nil {
		return false, fail.Usage(err, "swarm up --help")
	}
	if err := p.Config.TakeArgs(up.Flags().Args()); err != nil {
		return false, err
	}
	p.Wait.Limit = 0 // the service waits instead
	look, err := p.Look(g.planHost())
	if err != nil {
		return false, err
	}
	planned, request, err := look(ctx)
	if err != nil {
		return false, err
	}
	yes, err := up.Flags().GetBool("yes")
	if err != nil {
		return false, err
	}
	return planned.Later(request, g.logger, func() error {
		if yes {
			return nil
		}
		_, err := ensureModels(ctx, g, planned, false)
		return err
	})
}

// copyFlags sets each flag that was given in from also in to, if to has it.
func copyFlags(from, to *pflag.FlagSet) (err error) {
	from.Visit(func(f *pflag.Flag) {
		same := to.Lookup(f.Name)
		if same == nil || err != nil {
			return
		}
		many, ok := f.Value.(pflag.SliceValue)
		if ok {
			err = same.Value.(pflag.SliceValue).Replace(many.GetSlice())
			return
		}
		err = same.Value.Set(f.Value.String())
	})
	return err
}
