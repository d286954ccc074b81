package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// How long join waits for the coordinator where --wait does not say: what goes through a folder takes as long as that takes to be synced.
const (
	defaultJoinWait = time.Minute
	folderJoinWait  = 10 * time.Minute
)

// joinOptions are those of join.
type joinOptions struct {
	plan         plan.Options
	price        priceFlag
	page         pageFlag
	url, urlFile string
	name         string
	caFile       string
	credentials  string // file, of a NATS cluster
	shared       string
	sharedTyped  bool // --shared, though it may be empty
	predecessor  bool // shared is GDRIVE_PATH's
	experiment   string
	nodeID       string
	compat       bool
	generateOnly bool
	wait         time.Duration // for the coordinator; 0: without end
	waitTyped    bool
	fresh        bool
	detach       bool
	fromRLSwarm  []string // rl-swarm's variables that say what no flag says
	yes          bool
	output       string
}

// hostKeys are the configuration's keys that a worker decides for itself: what it trains, and what that takes of its host. All others are the
// experiment's, and so the coordinator's.
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
		Long: "join takes the line that `swarm up --listen` prints there, finds the GPU of this host (or trains on the CPU), decides how many nodes fit,\n" +
			"and trains them in that swarm, from its present round on. What is trained is the coordinator's to say; the model may be another here.\n" +
			"Rounds, memory and rewards are reported there; through an outage they wait on this disk. The same command goes on where an earlier one was stopped or\n" +
			"killed. swarm status, attach, logs and down work here as for any run.\n\n" +
			"The invitation is a secret. In a script give it as $SWARM_JOIN or --url-file rather than as an argument.\n\n" +
			"With --shared the swarm is carried by a folder that Google Drive or the like keeps in step; the predecessor's EXPERIMENT_NAME, NODE_ID and,\n" +
			"with NODE_ROLE=worker, GDRIVE_PATH are understood.",
		Example: `  swarm join 'tls://203.0.113.7:4222?fp=…#token'
  swarm join --url-file invitation.txt --nodes 2 --model gpt2 --name anna
  swarm join --shared /content/drive/MyDrive/swarm --experiment 4loc4ext --node-id node_1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fail.Usage(fmt.Errorf("one invitation, not %d", len(args)), "quotes around it: the # begins a comment in a shell")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.url = args[0]
			}
			o.sharedTyped = cmd.Flags().Changed("shared")
			o.waitTyped = cmd.Flags().Changed("wait")
			o.readRLSwarm(cmd.Flags(), os.Getenv)
			if o.nodeID != "" && !cmd.Flags().Changed("nodes") {
				o.plan.Nodes = "1" // what the predecessor's variables mean
			}
			return runJoin(cmd.Context(), g, &o)
		},
	}
	f := cmd.Flags()
	addJoinFlags(f, &o.plan)
	o.price.add(f)
	o.page.add(f)
	f.StringVar(&o.urlFile, "url-file", "", "`file` with the invitation ($"+resolve.InvitationVariable+")")
	f.StringVar(&o.name, "name", "", "this worker's `name` in the swarm (default: the host's); taken: with a number after it")
	f.StringVar(&o.caFile, "ca-file", "", "`file` of the authority of a coordinator's own certificate (default: the system's)")
	f.StringVar(&o.credentials, "nats-creds", "", "credentials `file` for a swarm on a NATS cluster")
	f.StringVar(&o.shared, "shared", "", "the synced `folder` of a swarm that up --shared coordinates (with NODE_ROLE=worker: GDRIVE_PATH)")
	f.StringVar(&o.experiment, "experiment", "", "with --shared: `name` of the experiment (EXPERIMENT_NAME)")
	f.StringVar(&o.nodeID, "node-id", "", "`name` of this host's node in the swarm (NODE_ID); of several, what their names begin with; one, if --nodes doesn't say otherwise")
	f.BoolVar(&o.compat, "compat", false, "with --shared: also write the files that the predecessor's nodes read")
	f.BoolVar(&o.generateOnly, "generate-only", false, "share rollouts and train nothing: for a host that can run the model but not its optimizer")
	f.DurationVar(&o.wait, "wait", defaultJoinWait, "wait for the coordinator at most this `time`, with --shared "+folderJoinWait.String()+" by default; 0: without end")
	f.BoolVar(&o.fresh, "fresh", false, "begin anew here, even if this host has had a part in the run")
	f.BoolVar(&o.detach, "detach", false, "return once the nodes are started: they go on in the background")
	f.BoolVarP(&o.yes, "yes", "y", false, "download the model's weights without a question where they are missing")
	addLinesFlag(f, &o.output, "one event")
	return cmd
}

// readRLSwarm takes what rl-swarm's variables say of a worker where no flag does, and keeps which of them took effect.
func (o *joinOptions) readRLSwarm(f *pflag.FlagSet, getenv func(string) string) {
	if o.plan.Config.IgnoreRLSwarm {
		return
	}
	for _, v := range []struct {
		flag, variable string
		into           *string
	}{{"experiment", "EXPERIMENT_NAME", &o.experiment}, {"node-id", "NODE_ID", &o.nodeID}} {
		if text := getenv(v.variable); text != "" && !f.Changed(v.flag) {
			*v.into = text
			o.fromRLSwarm = append(o.fromRLSwarm, v.variable)
		}
	}
}

// tellRLSwarm names those of rl-swarm's variables that took effect.
func (o *joinOptions) tellRLSwarm(g *globals) {
	names := o.fromRLSwarm
	if o.shared == "" { // an invitation names the experiment
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "EXPERIMENT_NAME" })
	}
	g.tellEnvironment(&resolve.Flags{Keys: []*resolve.KeyFlag{}, IgnoreRLSwarm: o.plan.Config.IgnoreRLSwarm}, names...)
}

// addJoinFlags defines the flags of what a worker decides for itself.
func addJoinFlags(f *pflag.FlagSet, o *plan.Options) {
	o.Config.AddIgnoreRLSwarm(f)
	for _, key := range configs.AllKeys() {
		if slices.Contains(hostKeys, key.Name) {
			o.Config.AddKey(f, key, key.FlagName(), key.Usage())
		}
	}
	addHostFlags(f, o)
	f.Var(&o.GPULimit, "gpu-memory", "use each GPU as if it were a card of this `size`, such as 15 or 15GB")
}

// check refuses what can't go together. What the predecessor's variables say counts where nothing else does.
func (o *joinOptions) check() error {
	invited := o.url != "" || o.urlFile != ""
	if !invited && !o.sharedTyped && os.Getenv(resolve.InvitationVariable) == "" && !o.plan.Config.IgnoreRLSwarm {
		o.shared = predecessorsFolder(roleWorker)
		o.predecessor = o.shared != ""
	}
	switch {
	case o.shared != "" && invited:
		return fail.Usage(errors.New("an invitation and --shared are two ways into two swarms"), "one of them")
	case o.shared == "" && o.compat:
		return fail.Usage(errors.New("--compat is for --shared"), "--shared DIR")
	case o.shared != "" && o.experiment == "":
		return fail.Usage(errors.New("--shared needs the experiment's name"), "--experiment NAME, a folder in "+o.shared)
	}
	if o.shared == "" {
		return nil
	}
	var err error
	o.shared, err = sharedFolder(o.shared, o.predecessor)
	return err
}

// invitation is what was handed out, from wherever it was given.
func (o *joinOptions) invitation() (membership.Invitation, error) {
	text, source := o.url, "the argument"
	switch {
	case text != "":
	case o.urlFile != "":
		data, err := files.ReadBounded(o.urlFile, configs.MaxDocument)
		if err != nil {
			return membership.Invitation{}, fail.Usage(fmt.Errorf("--url-file: %w", err), "the file that holds the line of swarm up --listen")
		}
		text, source = string(data), o.urlFile
	default:
		text, source = os.Getenv(resolve.InvitationVariable), "$"+resolve.InvitationVariable
	}
	text = strings.TrimSpace(text)
	if text == "" {
		try := "the line that `swarm up --listen` prints, or --shared DIR"
		if os.Getenv(resolve.FolderVariable) != "" && !o.sharedTyped && !o.plan.Config.IgnoreRLSwarm {
			try += ", or " + resolve.RoleVariable + "=" + roleWorker + ", with which " + resolve.FolderVariable + " counts"
		}
		return membership.Invitation{}, fail.Usage(errors.New("join what? There is no invitation"), try)
	}
	invitation, err := membership.ParseInvitation(text)
	if err != nil {
		return invitation, fail.Usage(fmt.Errorf("%s is no invitation: %w", source, err), "the whole line in quotes, with what comes after the #")
	}
	return invitation, nil
}

// checkWait refuses a --wait that is no time.
func (o *joinOptions) checkWait() error {
	if o.wait < 0 {
		return &configs.Error{Key: "wait", Value: o.wait.String(), Source: "--wait", Allowed: "a time such as 60s or 10m, or 0 to wait without end"}
	}
	return nil
}

// waitLimit is how long to wait for the coordinator; 0: without end.
func (o *joinOptions) waitLimit() time.Duration {
	if o.shared != "" && !o.waitTyped {
		return folderJoinWait
	}
	return o.wait
}

// connect connects to the coordinator.
func (o *joinOptions) connect(ctx context.Context, g *globals) (*workers.Worker, error) {
	to := workers.ConnectOptions{
		CAFile: o.caFile, Credentials: o.credentials, Shared: o.shared, Experiment: o.experiment, Compat: o.compat,
		Name: o.name, NodeID: o.nodeID, GenerateOnly: o.generateOnly, Wait: o.waitLimit(),
		Home: g.home, Version: version, Stderr: g.stderr, Logger: g.logger,
	}
	if o.shared == "" {
		var err error
		if to.Invitation, err = o.invitation(); err != nil {
			return nil, err
		}
	}
	return workers.Connect(ctx, to)
}

func runJoin(ctx context.Context, g *globals, o *joinOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	price, err := o.price.price(os.Getenv)
	if err != nil {
		return err
	}
	if err := o.checkWait(); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.shared == "" {
		if _, err := o.invitation(); err != nil {
			return err
		}
	} else if o.predecessor {
		tellFolder(g.logger, o.shared, roleWorker)
	}
	o.tellRLSwarm(g)
	if o.detach && !inBackground(g) {
		return inTheBackground(g, o.output)
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, coordinator.StopEarly)
	defer interrupts.Close()
	j, err := o.connect(ctx, g)
	if err != nil {
		return interrupt.Exit(ctx, workers.Refused(err))
	}
	defer j.Close()
	r := &coordinator.Resume{Home: g.home, Logger: g.logger, Fresh: o.fresh}
	o.plan.Resume = r
	o.plan.Base, o.plan.OnlyGenerate = func() (resolve.Layer, error) {
		c, err := j.Config()
		return joinedBase(c, j.LocalName()), err
	}, o.generateOnly
	if err := needsFiles(j, &o.plan.Config); err != nil {
		return err
	}
	p, err := o.plan.Resolve(ctx, g.planHost())
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

// joinedBase is the coordinator's configuration as this host begins with it.
func joinedBase(c configs.Config, name string) resolve.Layer {
	c.Experiment, c.Device, c.MicroBatch = name, "auto", 0
	c.Models, c.Members = "", nil        // a worker's nodes have one model, by default the coordinator's first
	c.Tasks.File, c.Tasks.Words = "", "" // paths of another host
	l := resolve.Layer{Values: configs.Values(c), Sources: map[string]string{}, Mixture: c.Tasks.Mixture}
	for key, value := range l.Values {
		l.Sources[key] = "the coordinator's configuration"
		if reflect.ValueOf(value).IsZero() && strings.HasPrefix(key, "tasks.") {
			delete(l.Values, key)
		}
	}
	return l
}

// needsFiles tells which copy isn't given.
func needsFiles(w *workers.Worker, flags *resolve.Flags) error {
	given, err := flags.Layer()
	if err != nil {
		return err
	}
	for _, key := range workers.QuestionFiles {
		if w.Welcome().Inputs[key] != "" && given.Values[key] == nil {
			flag := "--" + strings.ReplaceAll(key, ".", "-")
			return fail.Usage(fmt.Errorf("the swarm's questions need a file that this host has to have, too: there is no %s", flag), flag+" FILE, a copy of the coordinator's")
		}
	}
	return nil
}
