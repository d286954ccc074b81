package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/notify"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

type upOptions struct {
	plan      plan.Options
	price     plan.PriceFlag
	hooks     notify.Hooks
	page      pageFlag
	admission workers.Options
	typed     func(flag string) bool
	fresh     bool
	onlyRun   string // from swarm resume: the only run that may be resumed
	service   bool   // systemd runs the command
	detach    bool
	yes       bool
	output    string
}

func newUpCommand(g *globals) *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up [CONFIG]",
		Short: "Train a swarm on this host until its rounds are done",
		Long: "up finds the GPU (or uses the CPU), decides how many nodes fit, starts them one model load at a\n" +
			"time, supervises them and records every round. Ctrl-C stops after a checkpoint, a second Ctrl-C at\n" +
			"once. On a terminal it shows a live view, elsewhere a line a round. -o json prints one event a line,\n" +
			"the last of type summary.\n\n" +
			"The same command continues a run that was stopped, crashed or lost its machine: the newest run of\n" +
			"the experiment with the same seed, with its nodes. It refuses settings that would make it another\n" +
			"experiment. --fresh begins a new run and keeps the old one. A higher --rounds extends a finished\n" +
			"run." +
			"\n\nCONFIG is the same as --config CONFIG: a preset (" + strings.Join(configs.Experiments(), ", ") + "),\nor a YAML file.",
		Example: `  swarm up 4loc4ext
  swarm up 8loc0ext --rounds 40 --device cpu --model nano
  swarm up mine.yaml --seed 7 --name mine-7`,
		Args: func(cmd *cobra.Command, args []string) error { return o.plan.Config.TakeArgs(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return runUp(cmd.Context(), g, &o)
		},
	}
	addPlanFlags(cmd.Flags(), &o.plan)
	o.price.Add(cmd.Flags())
	addHookFlags(cmd.Flags(), &o.hooks)
	addTrainerFlags(cmd.Flags(), &o.plan.Trainer)
	o.page.add(cmd.Flags())
	addAdmissionFlags(cmd.Flags(), &o.admission)
	o.typed = cmd.Flags().Changed
	cmd.Flags().Var(&o.plan.GPULimit, "gpu-memory", "use at most this `size` of each GPU's memory, such as 15 or 15GB")
	cmd.Flags().BoolVar(&o.detach, "detach", false, "return once the run has begun; it continues in the background (swarm attach, logs, down)")
	cmd.Flags().BoolVar(&o.fresh, "fresh", false, "begin a new run, even if a run of this experiment and seed could continue")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "download missing model weights without asking")
	cmd.Flags().StringVar(&o.onlyRun, commandline.OnlyRunFlag, "", "continue this `run` and no other")
	cmd.Flags().Lookup(commandline.OnlyRunFlag).Hidden = true // only swarm resume passes it
	addServiceFlag(cmd.Flags(), &o.service)
	addLinesFlag(cmd.Flags(), &o.output, "one event")
	return cmd
}

func runUp(ctx context.Context, g *globals, o *upOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	price, err := o.price.Price(os.Getenv)
	if err != nil {
		return err
	}
	if err := o.hooks.Check(); err != nil {
		return err
	}
	admission, err := o.admission.Admission(o.typed)
	if err != nil {
		return err
	}
	o.plan.Hosts = admission != nil
	if !o.detach {
		g.neverWait(o.output == "json")
	}
	r := &coordinator.Resume{Home: g.home, Logger: g.logger, Fresh: o.fresh, Only: o.onlyRun, Service: o.service}
	o.plan.Resume = r
	if o.detach && !inBackground(g) {
		return detachUp(ctx, g, o)
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, coordinator.StopEarly)
	defer interrupts.Close()
	p, err := g.resolve(ctx, &o.plan)
	if errors.Is(err, coordinator.ErrFinished) {
		if err := r.SameDone(ctx, p); err != nil {
			return interrupt.Exit(ctx, err)
		}
		if err := g.viewer().Done(ctx, *r.Run, p, o.output == "json"); err != nil {
			return err
		}
		interrupts.Close()
		return o.finishDue(context.WithoutCancel(ctx), g, *r.Run)
	}
	var declined *coordinator.DeclinedError
	if errors.As(err, &declined) {
		told := g.tellDeclined(r.Run.Run, declined)
		interrupts.Close()
		return cmp.Or(o.finishDue(context.WithoutCancel(ctx), g, *r.Run), told)
	}
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	page, err := o.page.listen(ctx, g)
	if err != nil {
		return err
	}
	if o.admission.Predecessor {
		workers.TellFolder(g.logger, o.admission.Shared, workers.RoleCoordinator)
	}
	c, err := g.coordinate(ctx, coordinator.Options{Planned: p, Resume: r, PricePerHour: price.PerHour, PriceCurrency: price.Currency, Admission: admission}, o.yes)
	if err != nil {
		page.Close()
		return interrupt.Exit(ctx, err)
	}
	if page != nil {
		c.Serve(page)
	}
	if err := g.announceRun(c, p.Config.Experiment, page, admission); err != nil {
		c.Close()
		return err
	}
	if err := o.hooks.MarkDue(c.Dir()); err != nil {
		g.logger.Warn("if the host dies at the end of the run, --on-complete and --webhook do not run", "error", err)
	}
	err = c.Train(ctx, interrupts, o.output == "json" && g.console == nil)
	c.Close()
	code := fail.ExitDone
	if err != nil {
		code = exitCode(err)
	}
	// Everything is on disk: the command may shut the machine down.
	o.finish(context.WithoutCancel(ctx), g, c.Name(), p.Config.Experiment, c.Summary(), code)
	return err
}

// finish runs the hooks at the end of a run.
func (o *upOptions) finish(ctx context.Context, g *globals, run, experiment string, summary stats.Summary, code int) {
	dir := g.home.Run(run)
	o.hooks.Finish(ctx, g.hookProcess(), notify.Ending{
		Run: run, Experiment: experiment, State: summary.State, ExitCode: code, Summary: summary, Folder: dir,
		Log: runlog.Path(dir, runlog.Coordinator),
	})
}

// finishDue runs the hooks of a run that ended earlier, if the host died before they ran.
func (o *upOptions) finishDue(ctx context.Context, g *globals, run store.Run) error {
	if !notify.Due(g.home.Run(run.Run)) {
		return nil
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	summary, err := coordinator.Summary(ctx, reader, run.Run)
	if err := errors.Join(err, reader.Close()); err != nil {
		return err
	}
	code := fail.ExitFailed
	if run.State == store.RunDone {
		code = fail.ExitDone
	}
	o.finish(ctx, g, run.Run, run.Experiment, summary, code)
	return nil
}
