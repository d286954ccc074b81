package diagnose

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// meaning explains the figures in sentences.
func meaning(r shortage.Report) []string {
	list := []string{}
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.Asked > 0 && r.Free > 0 && r.Free < r.Asked {
		add("%s more was asked for than was free", units.BytesOfTorch(r.Asked-r.Free))
	}
	if text := neighbours(r); text != "" && r.Others() > 0 {
		add("%s", text)
	}
	if r.Fragmented() {
		add("%s are reserved by the framework and in no tensor: as much as was asked for, or a good part of the GPU, is lost to fragmentation",
			units.BytesOfTorch(r.Reserved))
	}
	if r.Kind == shortage.CUDA && strings.Contains(r.Line, "cache blocks") {
		add("vLLM's share of the GPU (gpu_memory_utilization) has no room for its KV cache beside the weights; where a trainer shares the GPU, " +
			"it is the trainer that must take less")
	}
	if r.Asked == 0 && r.Total == 0 && r.InUse == 0 {
		add("the message tells no figures")
	}
	return list
}

// neighbours names the other processes that hold the GPU's memory.
func neighbours(r shortage.Report) string {
	others := r.Neighbours()
	if len(others) == 0 {
		if r.Others() < 1<<30 {
			return ""
		}
		return fmt.Sprintf("%s are neither free nor this process's: other processes hold them, or its own CUDA context and libraries",
			units.BytesOfTorch(r.Others()))
	}
	var list []string
	for i, h := range others {
		if i == 5 {
			list = append(list, fmt.Sprintf("%d more", len(others)-5))
			break
		}
		list = append(list, fmt.Sprintf("process %d (%s)", h.PID, units.BytesOfTorch(h.Bytes)))
	}
	return fmt.Sprintf("%s are held by others: %s", units.BytesOfTorch(r.Others()), strings.Join(list, ", "))
}
