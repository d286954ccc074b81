package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Host has the process's settings and streams for a run. Writes to Stdout, Stderr and Logger must not wait for a reader
// (screen.Output): all nodes would wait with it.
type Host struct {
	plan.Host
	Version     string // of this program
	Stdin       io.Reader
	Stdout      io.Writer
	Interactive bool   // stdin and stdout are a terminal that can show the live view
	Background  bool   // stdout and stderr are the run's log
	Verbose     bool   // log more
	Program     string // the program's name and its home, as this user types them
}

// Options configure a run to train.
type Options struct {
	Host    Host
	Planned plan.Planned
	Resume  *Resume

	PricePerHour  float64 // 0: unknown
	PriceCurrency string

	Admission *workers.Admission // with --listen, --nats or --shared: admits other hosts' nodes
	Worker    *workers.Worker    // swarm join: this host's part in the swarm of another host

	Command      store.Command          // the command that began the run
	KeepSecrets  func(dir string) error // stores the command's secrets in the run's folder
	EnsureModels func(ctx context.Context) (map[string]string, error)

	GoesOn   func(run string, c *stats.Command) string // returns the command that continues a run
	Baseline func(stats.Summary) string                // returns the command of the run to compare with; empty: none
}

// Page is a live web page for the home's runs.
type Page interface {
	Tell(stdout, stderr io.Writer) // prints its address
	Link() string                  // its address with the token, to be shown only on a terminal
	Serve(ctx context.Context) error
}

// Run is one run, from its preparation to its summary.
type Run struct {
	o         Options
	h         Host
	p         plan.Planned
	resume    *Resume
	summary   stats.Summary // after Train
	run       string
	dir       string            // runs/<run>; empty until it is created
	begun     bool              // the run is recorded
	inputs    map[string]string // hashes of the run's inputs besides the configuration
	engine    string            // see Versions
	torch     string            // see Versions
	clock     *runClock
	python    policy.Probe
	lock      *files.Claim
	store     *store.Store
	reader    *store.Reader
	transport workers.Transport
	claims    *plan.Claims // on the run's GPUs
	mps       *mps.Host    // set if the plan's share is mps
	page      Page         // nil: none
	config    json.RawMessage
	starts    []protocol.Start
	nodeIDs   []string
}

// Name returns the run's name.
func (c *Run) Name() string { return c.run }

// Dir returns the run's folder.
func (c *Run) Dir() string { return c.dir }

// Inputs returns hashes of the run's inputs besides its configuration.
func (c *Run) Inputs() map[string]string { return c.inputs }

// Summary returns the run's summary, after Train.
func (c *Run) Summary() stats.Summary { return c.summary }

// Serve sets a page to serve during Train.
func (c *Run) Serve(page Page) { c.page = page }

// Prepare checks and opens everything that a run needs, before anything is recorded or started. The caller calls
// Close.
func Prepare(ctx context.Context, o Options) (_ *Run, err error) {
	c := &Run{o: o, h: o.Host, p: o.Planned, resume: o.Resume}
	h, p, r := c.h, c.p, c.resume
	defer func() {
		if err != nil {
			c.Close()
			if c.dir != "" && !c.begun && r.Run == nil {
				os.RemoveAll(c.dir) // a rejected run leaves no folder
			}
		}
	}()
	for _, w := range p.Warnings {
		h.Logger.Warn(w)
	}
	if err := plan.CheckTasks(p.Config.Tasks); err != nil {
		return nil, err
	}
	if err := checkAlarm(o); err != nil {
		return nil, err
	}
	if err := h.Home.Make(); err != nil {
		return nil, err
	}
	if c.lock, err = lifecycle.LockExperiment(h.Home, p.Config.Experiment); err != nil {
		return nil, err
	}
	if r.Run != nil {
		c.run, c.dir = r.Run.Run, r.Dir()
		if err := r.Fits(&c.p); err != nil {
			return nil, err
		}
	}
	if err := CheckDisk(h.Home, c.dir, c.p); err != nil {
		return nil, err
	}
	if err := Sweep(ctx, h.Home, h.Logger); err != nil {
		return nil, err
	}
	e, err := c.equip(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	if err := c.assign(ctx, e); err != nil {
		return nil, err
	}
	c.claims = plan.Claim(h.Host, c.run, p.Plan, p.Host.GPUs)
	if err := c.share(ctx); err != nil {
		return nil, err
	}
	return c, c.record()
}

// equipment has the model's weights and the engine for this program's nodes. A user's trainer needs neither.
type equipment struct {
	modelDirs map[string]string // by model key
	engineDir string
}

// equip provides the model's weights and the engine. It rejects a resumed run whose inputs have changed.
func (c *Run) equip(ctx context.Context) (e equipment, err error) {
	h, p := c.h, c.p
	if p.Trainer.Command != "" {
		c.inputs = p.Trainer.Inputs()
		return e, c.resume.same(c.inputs)
	}
	if p.Plan.Nodes == 0 { // this host trains no nodes
		c.inputs, err = plan.InputHashes(ctx, "", p.Config.Tasks)
		return e, err
	}
	if e.modelDirs, err = c.o.EnsureModels(ctx); err != nil {
		return e, err
	}
	if c.inputs, err = plan.InputsOf(ctx, p, e.modelDirs); err != nil {
		return e, err
	}
	before, err := c.resume.made()
	if err != nil {
		return e, err
	}
	kept, err := plan.Former(ctx, h.Home, p, e.modelDirs, c.inputs, before.Inputs)
	if err != nil {
		return e, err
	}
	for _, name := range kept {
		h.Logger.Info("the run continues with its original first weights, which an earlier version of the program supplied", "model", name)
	}
	if err := c.resume.same(c.inputs); err != nil {
		return e, err
	}
	if c.python, err = h.Python.Find(ctx); err != nil {
		return e, err
	}
	if plan.EngineDevice(p.Plan) != fit.DeviceCPU && !c.python.CUDA {
		return e, plan.NoCUDA(c.python, "the run is planned for a GPU")
	}
	if e.engineDir, err = policy.Extract(string(h.Home)); err != nil {
		return e, h.Home.Error(err)
	}
	if c.engine = policy.Digest(e.engineDir); c.resume.going() && before.Engine != c.engine {
		c.engine = "" // different engines made it
	}
	if c.torch = before.torchesWith(c.python.Torch); c.torch != c.python.Torch {
		h.Logger.Warn("the run continues with another PyTorch: its results differ from those that the former would give", "so_far", before.Torch, "now", c.python.Torch)
	}
	return e, nil
}

// open opens the database and the message bus, with a new run's name or that of the resumed run.
func (c *Run) open(ctx context.Context) (err error) {
	logger := c.h.Logger
	if c.store, err = store.Open(ctx, c.h.Home.Database(), store.Options{Warn: store.LogNews(logger)}); err != nil {
		return err
	}
	if c.reader, err = store.OpenReader(ctx, c.h.Home.Database()); err != nil {
		return err
	}
	if err := c.resume.still(ctx, c.reader, c.p.Config); err != nil {
		return err
	}
	var last float64
	if c.resume.Run == nil {
		last, err = c.name(ctx)
	} else {
		last, err = c.resume.last(ctx, c.reader, c.p.Config.Rounds)
	}
	if err != nil {
		return err
	}
	c.clock = newRunClock(last)
	return c.openTransport(ctx)
}

// Shared returns the run for package workers.
func (c *Run) Shared() workers.Run {
	return workers.Run{
		Name: c.run, Dir: c.dir, Home: c.h.Home, Config: c.p.Config, Document: c.config, Inputs: c.inputs, Nodes: c.nodeIDs, Version: c.h.Version,
		Reader: c.reader, Store: c.store, Logger: c.h.Logger,
	}
}

// openTransport opens the transport for the rollouts.
func (c *Run) openTransport(ctx context.Context) (err error) {
	switch {
	case c.o.Worker != nil:
		c.transport, err = c.o.Worker.Open(c.dir, c.h.Logger)
	case c.o.Admission != nil:
		c.transport, err = c.o.Admission.Open(ctx, c.Shared())
	default:
		c.transport, err = workers.Local(ctx, c.Shared())
	}
	return err
}

// name chooses a new run's name and creates its folder. It returns the time of the experiment's last event, in Unix
// seconds: the new run must be newer, even if the host's clock was set back.
func (c *Run) name(ctx context.Context) (last float64, err error) {
	earlier, err := c.reader.Runs(ctx, store.Filter{Experiments: []string{c.p.Config.Experiment}})
	if err != nil {
		return 0, err
	}
	prefix := c.p.Config.Experiment + "-"
	newest := len(earlier)
	for _, r := range earlier {
		if !r.Imported() { // an imported run has times of another host's clock
			last = max(last, r.Started, r.Resumed, r.Ended)
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(r.Run.Run, prefix)); err == nil {
			newest = max(newest, n) // its folder may have been deleted, but its rounds are in the database
		}
	}
	for n := newest + 1; ; n++ {
		run := prefix + strconv.Itoa(n)
		dir := c.h.Home.Run(run)
		err := files.MakeFolder(filepath.Dir(dir), 0o700)
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err == nil {
			err = files.SyncFolder(filepath.Dir(dir))
		}
		if err == nil {
			c.run, c.dir = run, dir
			return last, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return 0, c.h.Home.Error(err)
		}
		if nodes, _ := filepath.Glob(filepath.Join(dir, "node_*")); nodes != nil {
			c.h.Logger.Warn("the run in this folder is not in the database: a new run begins", "folder", dir)
		}
	}
}

// assign prepares each node's assignment.
func (c *Run) assign(ctx context.Context, e equipment) error {
	recorded, err := c.reader.Recorded(ctx, c.run)
	if err != nil {
		return err
	}
	evaluated, err := c.reader.Evaluated(ctx, c.run)
	if err != nil {
		return err
	}
	if c.p.Plan.MicroBatch > 0 { // 0: the whole batch fits
		c.p.Config = c.p.Config.LimitMicroBatch(c.p.Plan.MicroBatch)
	}
	if c.config, err = json.Marshal(c.p.Config); err != nil {
		return fmt.Errorf("encode the configuration: %w", err)
	}
	for i := range c.p.Plan.Nodes {
		c.nodeIDs = append(c.nodeIDs, fit.NodeName(i))
	}
	if c.o.Worker != nil {
		if c.nodeIDs, err = c.join(ctx); err != nil {
			return err
		}
	}
	if err := nodeFolders(c.dir, c.nodeIDs); err != nil {
		return c.h.Home.Error(err)
	}
	members := protocol.Members(c.nodeIDs...)
	for i, id := range c.nodeIDs {
		key := c.p.Config.ModelOf(i)
		config, err := json.Marshal(c.p.Config.OfNode(i))
		if err != nil {
			return fmt.Errorf("encode the configuration: %w", err)
		}
		c.starts = append(c.starts, protocol.Start{
			Protocol: protocol.Version, Run: c.run, Node: id, Index: i, Members: members, Dir: filepath.Join(c.dir, id), Config: config,
			Recorded: recorded[id], Evaluated: evaluated[id], GenerateOnly: i < c.p.Config.Nodes.GenerateOnly,
			Python: c.python.Path, EngineDir: e.engineDir, Tokenizer: c.p.Of(key).Tokenizer, ModelDir: e.modelDirs[key],
			Device: plan.EngineDevice(c.p.Plan), Threads: c.p.Plan.Threads, Ranks: c.p.Plan.Ranks(), Exchange: c.transport.Exchange(),
		})
		assignMemory(&c.starts[i], c.p.Plan)
		if c.o.Worker != nil {
			c.o.Worker.Assign(&c.starts[i])
		}
	}
	return nil
}

// nodeFolders creates the nodes' folders in their run's folder. It rejects invalid names and names that lead out of
// the folder.
func nodeFolders(dir string, nodes []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, node := range nodes {
		if err := membership.CheckNode(node); err != nil {
			return err
		}
		if err := root.Mkdir(node, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if info, err := root.Lstat(node); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a folder: %w", filepath.Join(dir, node), cmp.Or(err, os.ErrExist))
		}
	}
	return nil
}

// join requests nodes for this host from the swarm's coordinator.
func (c *Run) join(ctx context.Context) ([]string, error) {
	wanted := workers.Wanted{Device: c.p.Plan.Device, Model: c.p.Model.Name, Nodes: c.p.Plan.Nodes}
	if gpus := c.p.Plan.GPUs; len(gpus) > 0 {
		wanted.Device = gpus[0].Name
	}
	if c.resume.Run != nil {
		snapshot, err := c.reader.Snapshot(ctx, c.run)
		if err != nil {
			return nil, err
		}
		for _, n := range snapshot.Nodes {
			wanted.Held = append(wanted.Held, workers.Held{Node: n.Node, Rounds: max(1, c.resume.done(n, 0))})
		}
	}
	return c.o.Worker.Join(ctx, wanted)
}

// assignMemory copies the plan's memory settings for a node into its assignment.
func assignMemory(start *protocol.Start, plan fit.Plan) {
	start.Leased, start.TrimAfter = plan.Share == fit.ShareLease, !plan.KeepMemory
	start.GenerateBatch, start.OthersBytes = plan.GenerateBatch, plan.Others(start.Index)
	start.Transient = protocol.Transient{GenerateBytes: plan.PerNode.Generate, UpdateBytes: plan.PerNode.Update}
	if plan.Device == fit.DeviceCUDA {
		start.BudgetBytes = plan.PerNode.Cap()
	}
}

// Versions are the versions and inputs with which a run was made, as recorded.
type Versions struct {
	Swarm  string `json:"swarm"`
	Torch  string `json:"torch"` // of each attempt that changed it, ", " between them
	Python string `json:"python"`
	// policy.Digest of the only engine of the run; empty: several engines or unknown
	Engine string            `json:"engine,omitempty"`
	Inputs map[string]string `json:"inputs"` // see plan.InputHashes
}

// torchesWith returns the recorded versions of torch and the one of this attempt, each once.
func (v Versions) torchesWith(now string) string {
	if v.Torch == "" || slices.Contains(strings.Split(v.Torch, ", "), now) {
		return cmp.Or(v.Torch, now)
	}
	return v.Torch + ", " + now
}

// record records the start of the run, or of another attempt at it, in the database.
func (c *Run) record() error {
	decided, err := json.Marshal(c.p.Plan)
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	versions, err := json.Marshal(Versions{Swarm: c.h.Version, Torch: c.torch, Python: c.python.Path, Engine: c.engine, Inputs: c.inputs})
	if err != nil {
		return fmt.Errorf("encode versions: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	self, err := supervise.Identify(os.Getpid())
	if err != nil {
		return fmt.Errorf("own process: %w", err)
	}
	cfg, model := c.p.Config, cmp.Or(c.p.Config.Models, c.p.Config.Model)
	if c.p.Trainer.Command != "" { // swarm does not know the trainer's model and rollouts
		model, cfg.NumTrainSamples, cfg.NumTransplantTrees, cfg.NumGenerations = plan.TrainerModel, 0, 0, 0
	}
	if err := c.o.KeepSecrets(c.dir); err != nil {
		c.h.Logger.Warn("the secrets in this command are not stored for swarm resume", "error", err)
	}
	err = c.store.StartRun(context.Background(), store.Run{
		Run: c.run, Experiment: cfg.Experiment, Preset: cfg.Preset, Model: model, Device: c.p.Plan.Device, Seed: cfg.Seed,
		Rounds: cfg.Rounds, Nodes: c.p.Plan.Nodes, NodeIDs: c.nodeIDs, NumTrainSamples: cfg.NumTrainSamples,
		NumTransplantTrees: cfg.NumTransplantTrees, NumGenerations: cfg.NumGenerations, Config: c.config, Plan: decided, Versions: versions,
		Host: host, PID: self.PID, StartTicks: int64(self.Start), BootID: self.Boot, Started: c.clock.now(),
		PricePerHour: c.o.PricePerHour, PriceCurrency: c.o.PriceCurrency, Command: &c.o.Command,
	})
	c.begun = err == nil
	return err
}

// Close releases everything, the database near the end.
func (c *Run) Close() {
	if c.mps != nil {
		if err := c.mps.Close(context.Background()); err != nil {
			c.h.Logger.Error("MPS did not end cleanly", "error", err)
		}
	}
	if c.transport != nil {
		c.transport.Close()
	}
	if c.reader != nil {
		c.reader.Close()
	}
	if c.store != nil {
		if err := c.store.Close(); err != nil {
			c.h.Logger.Error("database not closed cleanly", "error", err)
		}
	}
	if c.lock != nil {
		c.lock.Release()
	}
	c.p.Turn.Release()
	c.claims.Release()
}
