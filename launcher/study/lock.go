package study

import (
	"fmt"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
)

// locks are the locks that a sweep holds, one for each of its experiments. Sweeps without a common experiment can
// run at the same time. The kernel releases the locks when the process ends.
type locks []*files.Claim

// lockSweep takes the locks. If another process holds one, the error names that process.
func lockSweep(home layout.Home, items []*Item) (locks, error) {
	var locks locks
	seen := map[string]bool{}
	for _, item := range items {
		if seen[item.experiment()] {
			continue
		}
		seen[item.experiment()] = true
		claim, err := lockOneSweep(home, item.experiment())
		if err != nil {
			locks.release()
			return nil, err
		}
		locks = append(locks, claim)
	}
	return locks, nil
}

func lockOneSweep(home layout.Home, experiment string) (*files.Claim, error) {
	claim, err := files.TakeClaim(lifecycle.SweepLockPath(home, experiment))
	return claim, lifecycle.LockError(home, err, func(holder string) error {
		return fail.Hint(
			fmt.Errorf("a sweep with experiment %s is already running (process %s)", experiment, holder),
			"swarm status, or the same command after that sweep has ended")
	})
}

// release releases the locks. The lock files stay.
func (l locks) release() {
	for _, claim := range l {
		claim.Release()
	}
}
