package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// planSlack is the least amount by which a GPU's other users may exceed the plan before they count as the cause of
// a shortage. The limit is a tenth of the plan if that is more. planSlack covers this node's own CUDA context and
// libraries, which its allocator does not count.
const planSlack = 1 << 30

// outOfMemory returns the figures of an out-of-memory error, or nil for any other error. If the engine gives no
// figures, it returns a shortage of the device, or of the host on a CPU.
func outOfMemory(err error, device bool) *policy.Shortage {
	var refused *policy.Error
	if !errors.As(err, &refused) || refused.Kind != policy.KindOutOfMemory {
		return nil
	}
	if refused.Shortage != nil {
		return refused.Shortage
	}
	if device {
		return &policy.Shortage{Where: "device"}
	}
	return &policy.Shortage{Where: "host"}
}

// causeOf returns the cause of a shortage, one of event.Memory*. others is the plan's memory for the other users of the
// GPU. limited means that MPS limits the node's memory.
//
//   - host memory: the shortage is not on the GPU
//   - own cap: the request exceeds the node's cap, and the GPU has the bytes free. Under an MPS limit the cap alone
//     counts, because the driver reports the rest of the limit instead of the GPU's free memory
//   - neighbour: other users hold more of the GPU than planned, by planSlack or a tenth
//   - GPU memory: the planned users fill the GPU
func causeOf(s policy.Shortage, others int64, limited bool) string {
	if s.Where == "host" {
		return event.MemoryHost
	}
	if s.CapBytes > 0 {
		left := s.CapBytes - s.UsedBytes
		if s.RequestedBytes == 0 && left <= s.FreeBytes || left < s.RequestedBytes && (limited || s.RequestedBytes <= s.FreeBytes) {
			return event.MemoryOwnCap
		}
	}
	if s.TotalBytes > 0 && s.TotalBytes-s.FreeBytes-s.UsedBytes > others+max(others/10, planSlack) {
		return event.MemoryNeighbour
	}
	return event.MemoryGPU
}

// describe puts the known figures of a shortage into words.
func describe(s policy.Shortage) string {
	var parts []string
	add := func(format string, n int64) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, units.Bytes(n)))
		}
	}
	add("%s asked for", s.RequestedBytes)
	add("%s in use", s.UsedBytes)
	add("%s allowed", s.CapBytes)
	if s.TotalBytes > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s free", units.Bytes(s.FreeBytes), units.Bytes(s.TotalBytes)))
	}
	if len(parts) == 0 {
		return "the engine reports no figures"
	}
	return strings.Join(parts, ", ")
}

// remedies lists what a user can do when a node's ladder has no rung left.
var remedies = map[string]string{
	event.MemoryOwnCap:    "fewer --nodes, each with a larger budget, or a smaller max_prompt_length or max_completion_length",
	event.MemoryGPU:       "fewer --nodes, --share lease, or a smaller max_prompt_length or max_completion_length",
	event.MemoryNeighbour: "wait until the GPU's other processes have ended, or fewer --nodes",
	event.MemoryHost:      "fewer --nodes, a smaller --model, or a machine with more memory",
}
