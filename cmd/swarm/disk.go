package main

import (
	"context"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
)

// minFreeDisk is what a run needs beside its checkpoints: database, rollouts, logs.
const minFreeDisk = 200 << 20

// diskReserve is what must stay free beside one more checkpoint of every node, so that a run can still stop in order.
const diskReserve = 32 << 20

// diskInterval is how often a run looks at its disk.
const diskInterval = 2 * time.Second

// checkpointBytes is what one checkpoint of every node takes: weights and two moments, 4 bytes each.
func checkpointBytes(p planned) int64 { return 12 * p.model.Shape.Parameters * int64(p.plan.Nodes) }

// checkDisk refuses a run whose checkpoints don't fit: each node keeps two and writes a third, if its rounds are enough for that.
func checkDisk(home string, p planned) error {
	usage, err := disk.Usage(home)
	if err != nil {
		return homeError(home, err)
	}
	copies := min(3, p.config.Rounds/p.config.CheckpointEvery+1)
	need := minFreeDisk + int64(copies)*checkpointBytes(p)
	if int64(usage.Free) < need {
		return &hintError{
			fmt.Errorf("%s has %s free; %d nodes of %s need %s for checkpoints, rollouts and logs", home, gb(int64(usage.Free)), p.plan.Nodes, p.model.Name, gb(need)),
			"free some space, or --home on a larger disk",
		}
	}
	return nil
}

// diskError is why a run was stopped before its disk was full.
type diskError struct {
	home string
	free int64
}

func (e *diskError) Error() string {
	return fmt.Sprintf("stopped because the disk is nearly full: %s has %s free", e.home, gb(e.free))
}

// watchDisk calls stop once when the disk under home is about to be too full for an orderly stop, and returns then or when ctx
// ends. A database and a message bus that run into a full disk would stall the nodes that somebody pays for.
func watchDisk(ctx context.Context, home string, p planned, stop func(error)) {
	ticker := time.NewTicker(diskInterval)
	defer ticker.Stop()
	reserve := diskReserve + checkpointBytes(p)
	for {
		usage, err := disk.UsageWithContext(ctx, home)
		if err == nil && int64(usage.Free) < reserve {
			stop(&diskError{home, int64(usage.Free)})
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
