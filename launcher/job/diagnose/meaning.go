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
		add("the request exceeded the free memory by %s", units.BytesOfTorch(r.Asked-r.Free))
	}
	if text := neighbours(r); text != "" && r.Others() > 0 {
		add("%s", text)
	}
	if r.Fragmented() {
		add("%s are reserved by the framework but hold no tensor: fragmentation wastes as much as was requested, or a large part of the GPU",
			units.BytesOfTorch(r.Reserved))
	}
	if r.Kind == shortage.CUDA && strings.Contains(r.Line, "cache blocks") {
		add("vLLM's share of the GPU (gpu_memory_utilization) has no room for its KV cache besides the weights; if a trainer shares the GPU, " +
			"the trainer must use less memory")
	}
	if r.Asked == 0 && r.Total == 0 && r.InUse == 0 {
		add("the message contains no figures")
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
		return fmt.Sprintf("%s are neither free nor counted for this process: other processes hold them, or its own CUDA context and libraries",
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
	return fmt.Sprintf("%s are held by other processes: %s", units.BytesOfTorch(r.Others()), strings.Join(list, ", "))
}
