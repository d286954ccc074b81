package plan

import (
	"slices"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/mps"
)

// triesMPS reports whether nodes may share these GPUs through NVIDIA MPS, as far as that shows before MPS starts.
func triesMPS(host gpu.Host, r fit.Request) bool {
	need := mps.Need{GPUsPerNode: r.GPUsPerNode}
	for _, g := range host.GPUs {
		if slices.ContainsFunc(r.GPUs, func(f fit.GPU) bool { return f.Index == g.Index && !f.MIG }) {
			need.GPUs = append(need.GPUs, MPSGPU(g, 1))
		}
	}
	return mps.Check(need) == nil
}

// MPSGPU describes a GPU that this number of nodes share through NVIDIA MPS.
func MPSGPU(g gpu.GPU, nodes int) mps.GPU {
	return mps.GPU{
		Index: g.Index, UUID: g.UUID, Name: g.Name, ComputeMajor: g.Capability, ComputeMode: g.Mode,
		MIG: g.MIG || g.InstanceOf != nil, Clients: nodes, MemoryFree: g.MemoryFree,
	}
}
