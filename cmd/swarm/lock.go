package main

import (
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
)

func lockPath(home layout.Home, experiment string) string {
	return home.Path("locks", experiment+".lock")
}

// lockExperiment takes the lock that a coordinator holds while it runs an experiment, or says who has it.
func lockExperiment(home layout.Home, experiment string) (*files.Claim, error) {
	claim, err := files.TakeClaim(lockPath(home, experiment))
	return claim, lockError(home, err, runningAlready(experiment))
}

// alreadyRunning says who runs an experiment, if anybody does. It makes no file.
func alreadyRunning(home layout.Home, experiment string) error {
	return lockError(home, files.LookClaim(lockPath(home, experiment), files.ClaimPatience), runningAlready(experiment))
}

func runningAlready(experiment string) func(holder string) error {
	return func(holder string) error {
		return fail.Hint(
			fmt.Errorf("experiment %s is running already (process %s)", experiment, holder),
			"swarm attach "+experiment+", swarm down "+experiment+", or --name OTHER for a second one")
	}
}

// lockError says what to do about a lock that could not be taken: held makes the error of one that a process holds.
func lockError(home layout.Home, err error, held func(holder string) error) error {
	var other *files.HeldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &other):
		return held(other.Holder)
	}
	return home.Error(err)
}
