package retry_test

import "github.com/sapo-swarm/swarm/launcher/job/retry"

// Steps of the ladder, in its order, as changed names them.
const (
	stepBatch         = "batch"
	stepCheckpointing = "gradient_checkpointing"
	stepOffload       = "offload"
	stepGPU           = "gpu"
	stepCPU           = "cpu"
)

// changed names the step from one setting to the next; "" if they are equal.
func changed(before, after retry.Setting) string {
	switch {
	case after.OnCPU && !before.OnCPU:
		return stepCPU
	case after.GPU != before.GPU:
		return stepGPU
	case after.Offload && !before.Offload:
		return stepOffload
	case after.GradientCheckpointing && !before.GradientCheckpointing:
		return stepCheckpointing
	case after.BatchSize != before.BatchSize || after.Accumulate != before.Accumulate:
		return stepBatch
	}
	return ""
}
