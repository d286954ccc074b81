package plan

import (
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
)

// volta and ampere are major compute capabilities. GPUs from Volta on have units for fp16, and those from Ampere on
// also for TF32.
const volta, ampere = 7, 8

// decidePrecision turns precision auto into fp16 if every GPU is Volta or Turing, such as a T4. Otherwise it keeps
// auto, which means TF32 on a GPU. It returns a note for the user, or "" if nothing changes.
func decidePrecision(c *configs.Config, host gpu.Host) string {
	if c.Precision != "auto" || c.Device == fit.DeviceCPU || host.Device != gpu.CUDA || len(host.GPUs) == 0 {
		return ""
	}
	for _, g := range host.GPUs {
		if g.Capability < volta || g.Capability >= ampere { // 0: unknown
			return ""
		}
	}
	c.Precision = "fp16"
	return fmt.Sprintf("precision auto selects fp16: %s has no TF32, and fp32 is several times slower there. --precision fp32 is exact", host.GPUs[0].Name)
}
