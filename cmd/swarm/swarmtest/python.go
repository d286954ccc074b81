package swarmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
)

// FindPython finds an interpreter with torch, once.
var FindPython = sync.OnceValues(func() (policy.Probe, error) {
	found, _, err := policy.FindPython(context.Background(), "", fixtures, os.Getenv, nil)
	return found, err
})

// quickPython wraps the interpreter and answers the check for torch from memory. Importing torch takes a second,
// which most tests need not spend twice.
const quickPython = `#!/bin/sh
if [ "$1" = -c ]; then echo 'torch %s 0'; else exec '%s' "$@"; fi
`

var makeQuickPython = sync.OnceValues(func() (string, error) {
	found, err := FindPython()
	if err != nil || found.CUDA {
		return found.Path, err
	}
	path := filepath.Join(fixtures, "python3")
	if err := os.WriteFile(path, fmt.Appendf(nil, quickPython, found.Torch, found.Path), 0o755); err != nil {
		return "", err
	}
	return path, shareHost(path)
})

// engineHost forks the engines of the programs that the tests start. Storms have their own.
var engineHost *policy.Host

func shareHost(python string) error {
	dir, err := policy.Extract(fixtures)
	if err != nil {
		return err
	}
	if engineHost, err = policy.StartHost(context.Background(), policy.HostOptions{Python: python, Dir: dir, Env: os.Environ(), Stderr: os.Stderr}); err != nil {
		return err
	}
	return engineHost.Leave()
}

// Python returns the path of the tests' interpreter.
func Python(t testing.TB) string {
	t.Helper()
	path, err := makeQuickPython()
	if errors.Is(err, policy.ErrNoPython) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return path
}
