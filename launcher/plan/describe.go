package plan

import (
	"fmt"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
)

// Describe fills in the part of a plan's request that depends on the host.
func Describe(host gpu.Host, r fit.Request) fit.Request {
	r.GPUs, r.NoGPU = nil, host.Reason
	for _, g := range host.GPUs {
		if reason := closed(g, r.Share); reason != "" {
			r.NoGPU = reason
			continue
		}
		r.GPUs = append(r.GPUs, fit.GPU{
			Index: g.Index, UUID: g.UUID, Name: g.Name, MemoryTotal: g.MemoryTotal, MemoryFree: g.MemoryFree, Unified: g.Unified, MIG: g.MIG,
		})
	}
	r.Cores, r.Memory = host.Cores, host.MemoryAvailable
	return r
}

// closed returns the reason why a GPU's compute mode prevents nodes from sharing it, or "".
func closed(g gpu.GPU, share string) string {
	switch {
	case g.Mode == gpu.ModeProhibited:
		return fmt.Sprintf("GPU %d is in compute mode PROHIBITED. Try: sudo nvidia-smi -i %d -c 0", g.Index, g.Index)
	case g.Mode == gpu.ModeExclusiveProcess && share != fit.ShareMPS:
		return fmt.Sprintf("GPU %d is in compute mode EXCLUSIVE_PROCESS, which allows one process. Try: sudo nvidia-smi -i %d -c 0, or --share mps", g.Index, g.Index)
	}
	return ""
}
