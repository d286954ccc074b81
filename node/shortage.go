package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// planSlack is by how much a GPU's other users may exceed the plan before they are blamed: a tenth of what was planned,
// and at least what this node's own CUDA context and libraries take outside of its allocator.
const planSlack = 1 << 30

// outOfMemory returns what err says about a call that ran out of memory, or nil where it is about something else. If an
// engine gives no figures, the device's figures count.
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

// causeOf tells whose doing a shortage is, one of event.Memory*. others is what the plan leaves to the other users of
// the GPU. limited says that MPS limits the node's memory.
//
//   - host memory: it wasn't the GPU's;
//   - own cap: the request exceeds the node's cap, and the GPU has the bytes free. Under a limit of MPS the cap alone
//     counts: the driver tells what is left of the limit instead of the GPU;
//   - neighbour: of the GPU, more is in others' hands than planned, by planSlack or a tenth;
//   - GPU memory: the GPU is full of what was planned.
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

// describe puts a shortage in words for a person, as far as it is known.
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
		return "the engine gives no figures"
	}
	return strings.Join(parts, ", ")
}

// remedies are what a user can do when a node's ladder is at its end.
var remedies = map[string]string{
	event.MemoryOwnCap:    "fewer --nodes, each with a larger budget, or a smaller max_prompt_length or max_completion_length",
	event.MemoryGPU:       "fewer --nodes, --share lease, or a smaller max_prompt_length or max_completion_length",
	event.MemoryNeighbour: "wait until the GPU's other users are done, or fewer --nodes",
	event.MemoryHost:      "fewer --nodes, a smaller --model, or a machine with more memory",
}
