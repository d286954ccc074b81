package plan

import (
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
)

// EngineDevice returns the device on which a plan's engines compute. Tests without a GPU replace it to run a GPU
// plan on the CPU.
var EngineDevice = fit.Plan.TorchDevice

// NoCUDA returns the error for a Python without CUDA if the nodes need CUDA. but states why they need it.
func NoCUDA(python policy.Probe, but string) error {
	return fail.Hint(
		fmt.Errorf("%s has torch %s, which was built without CUDA, but %s", python.Path, python.Torch, but),
		"pip install torch, then --python PATH; or --device cpu")

}

// CheckTasks opens the experiment's questions as each node will.
func CheckTasks(tasks configs.Tasks) error {
	_, err := task.Open(tasks)
	var mistake *configs.Error // its text lists the allowed values
	if err == nil || errors.As(err, &mistake) {
		return err
	}
	return fail.Usage(err, "swarm task list")
}

// OutOfMemory turns an engine's out-of-memory error into fit.ErrDoesNotFit (exit code 3).
func OutOfMemory(err error) error {
	var refused *policy.Error
	if errors.As(err, &refused) && refused.Kind == policy.KindOutOfMemory {
		return fmt.Errorf("%w: %w. Try: --gradient-checkpointing, a shorter --max-completion-length, or a smaller --model", fit.ErrDoesNotFit, err)
	}
	return err
}
