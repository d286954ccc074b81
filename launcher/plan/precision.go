package plan

import (
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
)

// Compute capabilities, major number: from Volta on a GPU multiplies fp16 in units of its own, from Ampere on TF32 too.
const volta, ampere = 7, 8

// decidePrecision turns precision auto into fp16 where every GPU is of Volta or Turing, such as a T4. Elsewhere it
// stays auto, which is TF32 on a GPU. It returns what to tell the user, empty where it changes nothing.
func decidePrecision(c *configs.Config, host gpu.Host) string {
	if c.Precision != "auto" || c.Device == fit.DeviceCPU || host.Device != gpu.CUDA || len(host.GPUs) == 0 {
		return ""
	}
	for _, g := range host.GPUs {
		if g.Capability < volta || g.Capability >= ampere { // 0: not told
			return ""
		}
	}
	c.Precision = "fp16"
	return fmt.Sprintf("precision auto is fp16: %s has no TF32, and fp32 is several times slower there. --precision fp32 is exact", host.GPUs[0].Name)
}
