package study

import (
	"context"
	"errors"
	"fmt"

	"github.com/shirou/gopsutil/v4/disk"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/node"
)

// Item is one run of a sweep: a configuration with a seed.
type Item struct {
	Source
	p     plan.Planned        // with the item's seed; has no plan if the run is done
	dir   string              // folder of the run to continue; empty: none
	done  bool                // nothing was left to do when the sweep began
	r     *coordinator.Resume // the existing run, as of the last check
	facts []fact

	fresh configs.Config // of a new run; an existing run may have begun with other values of plan.AutoKeys

	// runs Resume.Take, and returns the run's inputs
	check   func(ctx context.Context, busy bool) (nodes string, inputs map[string]string, err error)
	tried   int    // number of times that this sweep ran it
	waited  bool   // another process ran it meanwhile, and this sweep waited for that
	code    int    // exit code of the last time
	why     string // why a process was killed, or a run refused
	refused bool   // its run is done but does not count: another process ran it with other settings
	alarmed bool   // its alarm stopped it, and this sweep leaves it stopped
}

func (i *Item) experiment() string { return i.p.Config.Experiment }
func (i *Item) seed() int64        { return i.p.Config.Seed }
func (i *Item) failed() bool       { return i.tried > 0 && i.code != fail.ExitDone && !i.alarmed }

func (i *Item) String() string { return fmt.Sprintf("%s seed %d", i.experiment(), i.seed()) }

// itemConfig is one of the configurations, resolved and checked as far as that is independent of the seed.
type itemConfig struct {
	Source
	p       plan.Planned
	request fit.Request
	dirs    map[string]string // folders of the models' weights, by model key
	inputs  map[string]string
	busy    bool // a process is running the experiment
}

// items resolves and checks every run of the sweep. The first seed of every configuration comes first, then the
// second. With three seeds, every configuration has a result after a third of the time. The checks find errors
// before the first run instead of hours later.
func (o *Options) items(ctx context.Context, h Host, sources []Source) ([]*Item, error) {
	seeds, err := ParseSeeds(o.Seeds)
	if err != nil {
		return nil, err
	}
	seeds.skip = o.explored
	list, err := o.configs(ctx, h, sources)
	if err != nil {
		return nil, err
	}
	if doubt := seeds.doubt(list[0].p.Config.Seed); doubt != "" {
		h.Logger.Warn(doubt)
	}
	busy := false
	for _, c := range list {
		busy = busy || c.busy
	}
	var items []*Item
	for n := range seeds.Len() {
		for _, c := range list {
			item, err := o.item(ctx, h, c, seeds.at(n, c.p.Config.Seed), busy)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
	}
	if err := unequal(items); err != nil {
		return nil, err
	}
	if doubt := o.unlikeNodes(items); doubt != "" {
		h.Logger.Warn(doubt)
	}
	return items, nil
}

// configs resolves the sources.
func (o *Options) configs(ctx context.Context, h Host, sources []Source) ([]*itemConfig, error) {
	if o.Plan.Nodes == "" {
		return nil, &configs.Error{Key: "nodes", Value: "", Source: "--nodes", Allowed: "auto, max or a whole number from 1"}
	}
	if err := o.Plan.Wait.Check(); err != nil {
		return nil, err
	}
	var list []*itemConfig
	warned := map[string]bool{}
	for _, source := range sources {
		c, err := o.resolveConfig(ctx, h, source)
		if err != nil {
			return nil, err
		}
		for _, other := range list {
			if other.p.Config.Experiment == c.p.Config.Experiment {
				return nil, fail.Usage(
					fmt.Errorf("%s and %s have the same experiment name %q", other.Name, c.Name, c.p.Config.Experiment),
					"list each once, and set a different experiment: NAME in each file")

			}
		}
		for _, w := range c.p.Warnings {
			if !warned[w] {
				warned[w] = true
				h.Logger.Warn(w)
			}
		}
		list = append(list, c)
	}
	return list, nil
}

func (o *Options) resolveConfig(ctx context.Context, h Host, source Source) (*itemConfig, error) {
	flags := OptionsOf(o.Plan, source, o.NodesGiven)
	look, err := flags.Look(h.Host)
	if err != nil {
		return nil, err
	}
	c := &itemConfig{Source: source}
	if c.p, c.request, err = look(ctx); err != nil {
		return nil, err
	}
	if err := plan.CheckTasks(c.p.Config.Tasks); err != nil {
		return nil, err
	}
	if c.dirs, err = h.EnsureModels(ctx, c.p); err != nil {
		return nil, err
	}
	if c.inputs, err = plan.InputsOf(ctx, c.p, c.dirs); err != nil {
		return nil, err
	}
	c.busy = lifecycle.AlreadyRunning(h.Home, c.p.Config.Experiment) != nil
	return c, nil
}

// item checks one seed of a configuration as swarm up will. busy means that a run of the sweep currently uses
// memory that will be free by then.
func (o *Options) item(ctx context.Context, h Host, c *itemConfig, seed int64, busy bool) (*Item, error) {
	item := &Item{Source: c.Source, p: c.p, fresh: c.p.Config}
	item.p.Config.Seed = seed
	if err := configs.Validate(item.p.Config); err != nil {
		return nil, configs.WithSource(err, "--seeds")
	}
	request := c.request
	if busy || o.Plan.Wait.Limit > 0 {
		request = later(request, item.p)
	}
	asked := request.Nodes
	item.check = func(ctx context.Context, busy bool) (nodes string, inputs map[string]string, err error) {
		item.r = &coordinator.Resume{Home: h.Home, Logger: h.Logger, Sweep: true, Busy: busy}
		nodes, err = item.r.Take(ctx, item.p.Asked(), asked)
		if run, goesOn := item.r.Kept(); goesOn {
			item.p.Keep(run)
		}
		if other := item.otherwise(item.r, err); other != nil {
			return "", nil, other
		}
		inputs = c.inputs
		if item.r.Run != nil && (err == nil || errors.Is(err, coordinator.ErrFinished)) {
			var same error
			if inputs, same = item.r.SameOrFormer(ctx, c.p, c.dirs, inputs); same != nil {
				return "", nil, same
			}
		}
		return nodes, inputs, err
	}
	nodes, inputs, err := item.check(ctx, c.busy)
	item.done = errors.Is(err, coordinator.ErrFinished)
	if err != nil && !item.done {
		return nil, err
	}
	fresh, freshErr := fit.New(request)
	if item.done {
		item.compare(fresh, freshErr, c.inputs, inputs)
		return item, nil
	}
	request.Nodes = nodes
	item.p.Plan, err = fit.New(request)
	if errors.Is(err, fit.ErrRequest) {
		return nil, fail.Usage(err, "swarm plan --help")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if item.r.Run != nil {
		item.dir = item.r.Dir()
		if err := item.r.Fits(&item.p); err != nil {
			return nil, err
		}
	}
	item.compare(fresh, freshErr, c.inputs, inputs)
	return item, nil
}

// later returns the request for a host on which other processes have released their memory.
func later(r fit.Request, p plan.Planned) fit.Request {
	if len(r.GPUs) > 0 {
		fallback, device := r.CPUFallback, r.Device
		r = plan.WhenFree(r)
		r.CPUFallback, r.Device = fallback, device
	}
	r.Memory = max(r.Memory, p.Host.MemoryTotal)
	return r
}

// checkDisk rejects a sweep whose runs do not fit on the disk. Each run leaves one checkpoint per node, and has two
// more while it runs.
func checkDisk(home layout.Home, items []*Item) error {
	var kept, largest int64
	left := 0
	for _, item := range items {
		if item.done {
			continue
		}
		if err := coordinator.CheckDisk(home, item.dir, item.p); err != nil {
			return err
		}
		left++
		bytes := coordinator.CheckpointBytes(item.p)
		largest = max(largest, bytes)
		if item.dir != "" {
			bytes = max(0, bytes-node.CheckpointBytes(item.dir))
		}
		kept += bytes
	}
	usage, err := disk.Usage(string(home))
	if err != nil {
		return home.Error(err)
	}
	if need := coordinator.MinFreeDisk + kept + 2*largest; left > 0 && int64(usage.Free) < need {
		return fail.Hint(
			fmt.Errorf("%s has %s free, but the checkpoints, journals and logs of the %s left take %s", home, units.Bytes(int64(usage.Free)),
				units.Plural(left, "run"), units.Bytes(need)),
			"free some space (finished runs are in "+home.Path("runs")+"), fewer --seeds, or --home on a larger disk")

	}
	return nil
}
