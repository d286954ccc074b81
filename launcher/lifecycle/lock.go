package lifecycle

import (
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
)

// LockPath returns the path of the file that is locked while an experiment runs.
func LockPath(home layout.Home, experiment string) string {
	return home.Path("locks", experiment+".lock")
}

// LockExperiment takes the lock that a coordinator holds while it runs an experiment. If another process holds it,
// the error names that process.
func LockExperiment(home layout.Home, experiment string) (*files.Claim, error) {
	claim, err := files.TakeClaim(LockPath(home, experiment))
	return claim, LockError(home, err, runningAlready(experiment))
}

// AlreadyRunning returns an error that names the process running an experiment, or nil. It creates no file.
func AlreadyRunning(home layout.Home, experiment string) error {
	return LockError(home, files.LookClaim(LockPath(home, experiment), files.ClaimPatience), runningAlready(experiment))
}

func runningAlready(experiment string) func(holder string) error {
	return func(holder string) error {
		return fail.Hint(
			fmt.Errorf("experiment %s is running already (process %s)", experiment, holder),
			"swarm attach "+experiment+", swarm down "+experiment+", or --name OTHER for a second one")
	}
}

// LockError adds a remedy to an error of taking a lock. held returns the error for a lock that another process
// holds.
func LockError(home layout.Home, err error, held func(holder string) error) error {
	var other *files.HeldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &other):
		return held(other.Holder)
	}
	return home.Error(err)
}

// SweepLockPath returns the path of the file that is locked while a sweep uses an experiment.
func SweepLockPath(home layout.Home, experiment string) string {
	return home.Path("locks", experiment+".sweep")
}
