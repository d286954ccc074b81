package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/workers"
)

// joinOptions are the flags of join.
type joinOptions struct {
	workers.JoinOptions
	plan   plan.Options
	price  plan.PriceFlag
	page   pageFlag
	fresh  bool
	detach bool
	yes    bool
	output string

	service bool // systemd runs the command
}

// hostKeys are the configuration keys that a worker sets itself: its model, and how it uses its host. The coordinator
// sets all others, because they belong to the experiment.
var hostKeys = []string{
	"model", "device", "precision", "micro_batch", "gradient_checkpointing", "gradient_accumulation_steps", "auto_batch_size", "optimizer_offload",
	"param_offload", "clear_cache_every_n_rounds", "cuda_graphs", "share", "gpus_per_node", "cpu_fallback", "max_restarts", "checkpoint_every",
	"tasks.file", "tasks.words",
}

func newJoinCommand(g *globals) *cobra.Command {
	var o joinOptions
	cmd := &cobra.Command{
		Use:   "join [INVITATION]",
		Short: "Train this host's nodes in a swarm that another host coordinates",
		Long: "join reads the invitation that `swarm up --listen` prints, finds this host's GPU (or uses the CPU),\n" +
			"decides how many nodes fit, and trains them in that swarm from its current round on. The coordinator\n" +
			"decides what is trained. The model may differ here. Rounds, memory and rewards are reported to the\n" +
			"coordinator, and wait on this disk through an outage. The same command continues where an earlier\n" +
			"one was stopped or killed. `swarm status`, `attach`, `logs` and `down` work here as for any run.\n\n" +
			"The invitation is a secret. In a script give it as $SWARM_JOIN or --url-file instead of an argument.\n\n" +
			"--shared uses a folder that Google Drive or the like keeps in sync. rl-swarm's EXPERIMENT_NAME,\n" +
			"NODE_ID and, with NODE_ROLE=worker, GDRIVE_PATH are understood.",
		Example: `  swarm join 'tls://203.0.113.7:4222?fp=…#token'
  swarm join --url-file invitation.txt --nodes 2 --model gpt2 --name anna
  swarm join --shared /content/drive/MyDrive/swarm --experiment 4loc4ext --node-id node_1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fail.Usage(fmt.Errorf("one invitation, not %d", len(args)), "put it in quotes, because # begins a comment in a shell")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.URL = args[0]
			}
			o.SharedTyped = cmd.Flags().Changed("shared")
			o.WaitTyped = cmd.Flags().Changed("wait")
			o.IgnoreRLSwarm = o.plan.Config.IgnoreRLSwarm
			o.ReadRLSwarm(cmd.Flags().Changed, os.Getenv)
			if o.NodeID != "" && !cmd.Flags().Changed("nodes") {
				o.plan.Nodes = "1" // as in the predecessor
			}
			return runJoin(cmd.Context(), g, &o)
		},
	}
	f := cmd.Flags()
	addJoinFlags(f, &o.plan)
	o.price.Add(f)
	o.page.add(f)
	f.StringVar(&o.URLFile, "url-file", "", "`file` with the invitation ($"+resolve.InvitationVariable+")")
	f.StringVar(&o.Name, "name", "", "this worker's `name` in the swarm (default: the host's name, with a number if taken)")
	f.StringVar(&o.CAFile, "ca-file", "", "`file` of the authority that signed the coordinator's own certificate (default: the system's)")
	f.StringVar(&o.Credentials, "nats-creds", "", "credentials `file` for a swarm on a NATS cluster")
	f.StringVar(&o.Shared, "shared", "", "the synced `folder` of a swarm that up --shared coordinates (with NODE_ROLE=worker: GDRIVE_PATH)")
	f.StringVar(&o.Experiment, "experiment", "", "with --shared: `name` of the experiment (EXPERIMENT_NAME)")
	f.StringVar(&o.NodeID, "node-id", "", "`name` of this host's node in the swarm (NODE_ID), or the prefix for several nodes; one node unless --nodes is given")
	f.BoolVar(&o.Compat, "compat", false, "with --shared: also write the files that rl-swarm's nodes read")
	f.BoolVar(&o.GenerateOnly, "generate-only", false, "share rollouts but do not train, for a host that can run the model but not its optimizer")
	f.DurationVar(&o.Wait, "wait", workers.DefaultWait, "wait for the coordinator at most this `time`, with --shared "+workers.FolderWait.String()+" by default; 0: no limit")
	f.BoolVar(&o.fresh, "fresh", false, "start over on this host, even if it has already joined the run")
	f.BoolVar(&o.detach, "detach", false, "return once the nodes have started; they continue in the background")
	f.BoolVarP(&o.yes, "yes", "y", false, "download missing model weights without asking")
	addServiceFlag(f, &o.service)
	addLinesFlag(f, &o.output, "one event")
	return cmd
}

// tellRLSwarm lists rl-swarm's variables that took effect.
func (o *joinOptions) tellRLSwarm(g *globals) {
	names := o.FromRLSwarm
	if o.Shared == "" { // the invitation sets the experiment
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "EXPERIMENT_NAME" })
	}
	g.tellEnvironment(&resolve.Flags{Keys: []*resolve.KeyFlag{}, IgnoreRLSwarm: o.plan.Config.IgnoreRLSwarm}, names...)
}

// addJoinFlags defines the flags of hostKeys and of planning.
func addJoinFlags(f *pflag.FlagSet, o *plan.Options) {
	o.Config.AddIgnoreRLSwarm(f)
	for _, key := range configs.AllKeys() {
		if slices.Contains(hostKeys, key.Name) {
			o.Config.AddKey(f, key, key.FlagName(), key.Usage())
		}
	}
	addHostFlags(f, o)
	f.Var(&o.GPULimit, "gpu-memory", "use at most this `size` of each GPU's memory, such as 15 or 15GB")
}

func runJoin(ctx context.Context, g *globals, o *joinOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	price, err := o.price.Price(os.Getenv)
	if err != nil {
		return err
	}
	if err := o.CheckWait(); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	if o.Shared == "" {
		if _, err := o.Invitation(); err != nil {
			return err
		}
	} else if o.Predecessor {
		workers.TellFolder(g.logger, o.Shared, workers.RoleWorker)
	}
	o.tellRLSwarm(g)
	if o.detach && !inBackground(g) {
		return inTheBackground(g, o.output)
	}
	if !o.detach {
		g.neverWait(o.output == "json")
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, coordinator.StopEarly)
	defer interrupts.Close()
	j, err := o.Connect(ctx, g.home, version, g.stderr, g.logger)
	if err != nil {
		return interrupt.Exit(ctx, workers.Refused(err))
	}
	defer j.Close()
	r := &coordinator.Resume{Home: g.home, Logger: g.logger, Fresh: o.fresh, Service: o.service}
	o.plan.Resume = r
	o.plan.Base, o.plan.OnlyGenerate = func() (resolve.Layer, error) {
		c, err := j.Config()
		return workers.JoinedBase(c, j.LocalName()), err
	}, o.GenerateOnly
	if err := errors.Join(j.NeedsFiles(&o.plan.Config), j.TellLocalModel(&o.plan.Config, g.logger)); err != nil {
		return err
	}
	p, err := g.resolve(ctx, &o.plan)
	var declined *coordinator.DeclinedError
	if errors.As(err, &declined) {
		return g.tellDeclined(r.Run.Run, declined)
	}
	finished := errors.Is(err, coordinator.ErrFinished)
	if err != nil && !finished {
		return interrupt.Exit(ctx, err)
	}
	if finished {
		if err := j.DeliverRest(ctx, workers.Run{Dir: r.Dir(), Logger: g.logger}); err != nil {
			return interrupt.Exit(ctx, err)
		}
		return g.viewer().Done(ctx, *r.Run, p, o.output == "json")
	}
	page, err := o.page.listen(ctx, g)
	if err != nil {
		return err
	}
	c, err := g.coordinate(ctx, coordinator.Options{Planned: p, Resume: r, PricePerHour: price.PerHour, PriceCurrency: price.Currency, Worker: j}, o.yes)
	if err != nil {
		page.Close()
		return interrupt.Exit(ctx, workers.Refused(err))
	}
	defer c.Close()
	if page != nil {
		c.Serve(page)
	}
	if err := j.SameFiles(c.Inputs()); err != nil {
		page.Close()
		return err
	}
	for _, line := range j.Differences(c.Shared(), p.Model.Name) {
		g.logger.Info(line)
	}
	if err := g.announceRun(c, p.Config.Experiment, page, nil); err != nil {
		return err
	}
	return c.Train(ctx, interrupts, o.output == "json" && g.console == nil)
}
