package coordinator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/shirou/gopsutil/v4/disk"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node"
)

const (
	// MinFreeDisk is the free space in bytes that a run needs to start, besides its checkpoints: for database,
	// journals, rollouts and logs.
	MinFreeDisk = 200 << 20

	// diskReserve is the free space in bytes that must remain besides one more checkpoint of every node, so that a
	// run can still stop cleanly.
	diskReserve = 32 << 20

	// diskInterval is the time between checks of the disk.
	diskInterval = 2 * time.Second
)

// CheckpointBytes returns the size of one checkpoint of every node: weights and two moments, 4 bytes each, and
// once more the weights if nodes keep their best.
func CheckpointBytes(p plan.Planned) int64 {
	var parameters int64
	for i := range p.Plan.Nodes {
		parameters += p.Of(p.Config.ModelOf(i)).Shape.Parameters
	}
	if p.Config.ValidationQuestions > 0 {
		return 16 * parameters
	}
	return 12 * parameters
}

// CheckDisk rejects a run whose checkpoints do not fit on the disk. Each node keeps two and writes a third, if it
// has enough rounds. Existing checkpoints in dir, the folder of a resumed run, need no further space.
func CheckDisk(home layout.Home, dir string, p plan.Planned) error {
	usage, err := disk.Usage(string(home))
	if err != nil {
		return home.Error(err)
	}
	copies := min(3, p.Config.Rounds/p.Config.CheckpointEvery+1)
	need := MinFreeDisk + int64(copies)*CheckpointBytes(p) - node.CheckpointBytes(dir)
	if int64(usage.Free) < need {
		return fail.Hint(
			fmt.Errorf("%s has %s free, but the checkpoints, journals and logs of %s of %s take %s", home, units.Bytes(int64(usage.Free)),
				units.Plural(p.Plan.Nodes, "node"), p.Trains(), units.Bytes(need)),
			"free some space, or --home on a larger disk")

	}
	return nil
}

// diskError reports that a run was stopped because the disk is full or nearly full.
type diskError struct {
	home layout.Home
	free int64 // 0: a write failed
}

func (e *diskError) Error() string {
	if e.free == 0 {
		return "stopped because the disk is full or its quota is exhausted: " + string(e.home)
	}
	return fmt.Sprintf("stopped because the disk is nearly full: %s has %s free", e.home, units.Bytes(e.free))
}

// diskBudget watches the disk of a home during a run. First it warns, then it drops spare checkpoints, and before the
// disk is full it stops the run cleanly. A database or message bus on a full disk would stall nodes that cost money.
type diskBudget struct {
	home  layout.Home
	wave  int64 // bytes of one checkpoint of every node
	free  func(context.Context) (int64, error)
	spare func() int64 // drops what can be spared and returns its bytes
	warn  func(string)
	stop  func(error)

	warned bool
}

// newDiskBudget watches the disk of a coordinator's run. Of two checkpoints of a node, the older one is a spare, in
// this run and in runs that have ended.
func newDiskBudget(c *Run, warn func(string), stop func(error)) *diskBudget {
	return &diskBudget{
		home: c.h.Home, wave: CheckpointBytes(c.p), warn: warn, stop: stop,
		free: func(ctx context.Context) (int64, error) {
			usage, err := disk.UsageWithContext(ctx, string(c.h.Home))
			if err != nil {
				return 0, err
			}
			return int64(usage.Free), nil
		},
		spare: func() int64 { return dropSpares(c.h.Home, c.reader) },
	}
}

// serve watches until it has stopped the run or ctx ends.
func (d *diskBudget) serve(ctx context.Context) {
	ticker := time.NewTicker(diskInterval)
	defer ticker.Stop()
	for !d.look(ctx) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look checks the disk once and reports whether it stopped the run.
func (d *diskBudget) look(ctx context.Context) (stopped bool) {
	free, err := d.free(ctx)
	if err != nil {
		return false
	}
	stopAt := diskReserve + d.wave
	if free < stopAt+d.wave {
		if dropped := d.spare(); dropped > 0 {
			d.warn(fmt.Sprintf("%s has only %s free: deleted %s of older checkpoints; each node keeps its newest", d.home, units.Bytes(free), units.Bytes(dropped)))
			if free, err = d.free(ctx); err != nil {
				return false
			}
		}
	}
	if free < stopAt {
		d.stop(&diskError{d.home, free})
		return true
	}
	warnAt := 2*stopAt + d.wave
	switch {
	case free < warnAt && !d.warned:
		d.warned = true
		d.warn(fmt.Sprintf("%s has only %s free: below %s the run stops after a checkpoint. Free some space", d.home, units.Bytes(free), units.Bytes(stopAt)))
	case free > warnAt+diskReserve:
		d.warned = false
	}
	return false
}

// dropSpares drops the spare checkpoints in a home and returns their bytes. It leaves alone runs of other
// coordinators.
func dropSpares(home layout.Home, reader *store.Reader) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	runs, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return 0
	}
	var dropped int64
	for _, r := range runs {
		if r.State == store.RunRunning && r.PID != os.Getpid() {
			continue
		}
		folders, _ := filepath.Glob(home.Path("runs", r.Run.Run, "node_*"))
		for _, dir := range folders {
			dropped += node.DropSpares(dir)
		}
	}
	return dropped
}
