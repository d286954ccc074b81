// Package swarmtest has the shared fixtures of the tests of cmd/swarm and cmd/swarm/e2e: a tiny model, a Python with
// torch, a fake NVML, and processes of the program. Its files are in one temporary folder. It finds the program on
// PATH. Only tests may import it.
package swarmtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/gpu/fakenvml"
)

// fixtures is the folder of the shared files. It is removed after the last test.
var fixtures string

// WithFixtures runs tests with the fixtures and returns the exit code.
func WithFixtures(tests func() int) int {
	var err error
	if fixtures, err = os.MkdirTemp("", "swarm-e2e-"); err == nil {
		err = errors.Join(writeTinyModel(TinyModel()), writeItems(Items()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(fixtures)
	defer func() { engineHost.Close() }()
	return tests()
}

// program is the path of the program that OnPath put on PATH; empty: OnPath was not called.
var program string

// OnPath puts the program on PATH as swarm: the build for users in $SWARM_PROGRAM, else this tree's, built here. With
// raced it is built here with the race detector.
func OnPath(raced bool) error {
	dir := filepath.Join(fixtures, "bin")
	program = filepath.Join(dir, "swarm")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))); err != nil {
		return err
	}
	if built := os.Getenv("SWARM_PROGRAM"); built != "" && !raced {
		built, err := filepath.Abs(built)
		if err != nil {
			return err
		}
		return os.Symlink(built, program)
	}
	args := []string{"build", "-o", program}
	if raced {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/sapo-swarm/swarm/cmd/swarm")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the program: %w: %s", err, out)
	}
	return nil
}

// Program returns the path of the program: the one that OnPath put on PATH, else $SWARM_PROGRAM, else the swarm on
// PATH.
func Program() string {
	switch {
	case program != "":
		return program
	case os.Getenv("SWARM_PROGRAM") != "":
		return os.Getenv("SWARM_PROGRAM")
	}
	return "swarm"
}

// TinyModel returns the folder of a model whose runs take seconds.
func TinyModel() string { return filepath.Join(fixtures, "tiny") }

// Items returns the path of a file of 200 questions.
func Items() string { return filepath.Join(fixtures, "items.jsonl") }

var buildNVML = sync.OnceValues(func() (string, error) { return fakenvml.BuildIn(fixtures) })

// FakeNVML returns the library for SWARM_NVML_LIBRARY. Without a C compiler it skips the test.
func FakeNVML(t testing.TB) string {
	t.Helper()
	library, err := buildNVML()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no C compiler")
	}
	require.NoError(t, err)
	return library
}
