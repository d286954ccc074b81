package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sapo-swarm/swarm/cmd/swarm/swarmtest"
	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/launcher/mps/fakemps"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/node/policy"
)

// withFixtures creates the fixtures before the tests and removes them afterward.
type withFixtures struct{ *testing.M }

func (m withFixtures) Run() int {
	return swarmtest.WithFixtures(func() int { return hermetic.Main(m.M) })
}

// The test binary, under the name swarm, is the program. Its nodes are real processes, too.
func TestMain(m *testing.M) {
	commands := fakemps.Commands()
	commands["swarm"] = func() {
		if os.Getenv(enginesOnCPU) != "" {
			plan.EngineDevice = func(fit.Plan) string { return fit.DeviceCPU }
		}
		if pipe := os.Getenv(defaultPipe); pipe != "" {
			mps.DefaultPipe = pipe
		}
		main()
	}
	testscript.Main(withFixtures{m}, commands)
}

// enginesOnCPU, if set, runs plans for the GPUs of a fake NVML on the CPU. Everything except the engines' own use of
// CUDA is then as on a GPU: placement, environments, budgets, leases, samples, MPS.
const enginesOnCPU = "ENGINES_ON_CPU"

// defaultPipe, if set, replaces /tmp/nvidia-mps, the default directory of an MPS daemon.
const defaultPipe = "MPS_DEFAULT_PIPE"

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
