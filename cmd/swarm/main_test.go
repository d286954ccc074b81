package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu/fakenvml"
	"github.com/sapo-swarm/swarm/launcher/mps/fakemps"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/node/policy"
)

// patience bounds every wait of these tests; nothing is measured by it.
const patience = 10 * time.Minute

// fixtures is a folder with what the tests share: a tiny model, items and a fake NVML. It is removed after the last test.
var fixtures string

// withFixtures makes the fixtures around the tests' run.
type withFixtures struct{ *testing.M }

func (m withFixtures) Run() int {
	var err error
	if fixtures, err = os.MkdirTemp("", "swarm-e2e-"); err == nil {
		err = errors.Join(writeTinyModel(filepath.Join(fixtures, "tiny")), writeItems(filepath.Join(fixtures, "items.jsonl")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(fixtures)
	defer func() { engineHost.Close() }()
	return hermetic.Main(m.M)
}

// The test binary, under the name swarm, is the program: its nodes too are real processes.
func TestMain(m *testing.M) {
	commands := fakemps.Commands()
	commands["swarm"] = func() {
		if os.Getenv(enginesOnCPU) != "" {
			plan.EngineDevice = func(fit.Plan) string { return fit.DeviceCPU }
		}
		main()
	}
	testscript.Main(withFixtures{m}, commands)
}

// enginesOnCPU, when set, has plans for GPUs, which a fake NVML makes, carried out on the CPU. Everything but the engines' own use of CUDA is then as on a GPU: placement, environments, budgets, leases, samples, MPS.
const enginesOnCPU = "ENGINES_ON_CPU"

func TestScripts(t *testing.T) {
	t.Parallel()
	python, library := usablePython(t), fakeNVML(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("SWARM_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("SWARM_PYTHON", python)
			env.Setenv(policy.HostVariable, os.Getenv(policy.HostVariable))
			env.Setenv("SWARM_NVML_LIBRARY", library)
			env.Setenv("MODEL", tinyModel())
			env.Setenv("ITEMS", items())
			return nil
		},
	})
}

func tinyModel() string { return filepath.Join(fixtures, "tiny") }
func items() string     { return filepath.Join(fixtures, "items.jsonl") }

var findPython = sync.OnceValues(func() (policy.Probe, error) {
	found, _, err := policy.FindPython(context.Background(), "", fixtures, os.Getenv, nil)
	return found, err
})

// quickPython runs the interpreter, but tells its torch from memory: the import takes a second, which most tests need not pay twice.
const quickPython = `#!/bin/sh
if [ "$1" = -c ]; then echo 'torch %s 0'; else exec '%s' "$@"; fi
`

var makeQuickPython = sync.OnceValues(func() (string, error) {
	found, err := findPython()
	if err != nil || found.CUDA {
		return found.Path, err
	}
	path := filepath.Join(fixtures, "python3")
	if err := os.WriteFile(path, fmt.Appendf(nil, quickPython, found.Torch, found.Path), 0o755); err != nil {
		return "", err
	}
	return path, shareHost(path)
})

// engineHost forks the engines of the programs that the tests start. The storm's have one of their own.
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

// usablePython is the interpreter that the tests use.
func usablePython(t testing.TB) string {
	t.Helper()
	path, err := makeQuickPython()
	if errors.Is(err, policy.ErrNoPython) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return path
}

var buildNVML = sync.OnceValues(func() (string, error) { return fakenvml.BuildIn(fixtures) })

func fakeNVML(t testing.TB) string {
	t.Helper()
	library, err := buildNVML()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no C compiler")
	}
	require.NoError(t, err)
	return library
}

// tinyRun are the flags of a run that takes seconds: the tiny model, two nodes, I/J/G 2/2/4.
func tinyRun(more ...string) []string {
	return append([]string{
		"--model", tinyModel(), "--set", "tasks.file=" + items(), "--device", "cpu", "--nodes", "2", "--num-train-samples", "2",
		"--num-transplant-trees", "2", "--num-generations", "4", "--set", "max_prompt_length=32", "--set", "max_completion_length=24",
		"--set", "barrier_deadline=60", "--set", "eval_questions=0",
	}, more...)
}

// swarmCommand is a swarm process that is not yet started.
func swarmCommand(t testing.TB, home string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("swarm", append([]string{"--home", home}, args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SWARM_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "SWARM_PYTHON="+usablePython(t), policy.HostVariable+"="+os.Getenv(policy.HostVariable))
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

type outcome struct {
	code           int
	stdout, stderr string
}

// finish runs a command to its end, at most for as long as patience lasts.
func finish(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	o := outcome{waitFor(t, cmd), stdout.String(), stderr.String()}
	requireHints(t, cmd.Args[1:], o)
	return o
}

// waitFor waits for a started command and returns its exit code, 128 + N when signal N ended it.
func waitFor(t testing.TB, cmd *exec.Cmd) int {
	t.Helper()
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !timer.Stop() {
		t.Fatalf("%v did not end within %s", cmd.Args, patience)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// swarm runs the program.
func swarm(t testing.TB, home string, args ...string) outcome {
	t.Helper()
	return finish(t, swarmCommand(t, home, args...))
}
