package wording

import (
	"fmt"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// memoryLine describes a step of the out-of-memory ladder: which memory ran out, the numbers, and the action.
func memoryLine(e event.Event) string {
	s := e.MemoryStep
	if s == nil {
		return ""
	}
	why := map[string]string{
		event.MemoryOwnCap: "its own budget", event.MemoryGPU: "the GPU is full", event.MemoryNeighbour: "another process's memory on the GPU",
		event.MemoryHost: "host memory",
	}[s.Cause]
	var numbers []string
	add := func(what string, bytes int64) {
		if bytes > 0 {
			numbers = append(numbers, what+" "+units.BytesMeasured(bytes))
		}
	}
	add("asked for", s.RequestedBytes)
	add("held", s.UsedBytes)
	add("budget", s.CapBytes)
	add("free", s.FreeBytes)
	return Colons(subject(e, "out of memory in "+s.Phase), why, joined(", ", numbers), stepTaken(s))
}

func stepTaken(s *event.MemoryStep) string {
	switch s.Action {
	case event.ActionClearCache:
		return "cache cleared, tried again"
	case event.ActionHalveMicroBatch:
		return fmt.Sprintf("%d sequences at a time from now on", s.MicroBatch)
	case event.ActionCheckpointing:
		return "gradient checkpointing from now on"
	case event.ActionOptimizerOffload:
		return "optimizer moved to host memory"
	case event.ActionParamOffload:
		return "weights moved to host memory between phases"
	case event.ActionRestartEngine:
		return "engine restarted"
	case event.ActionEnd:
		return "nothing left to try, the node ends"
	case event.ActionShed:
		return "the node leaves the swarm, the others share its memory"
	case event.ActionCPU:
		return "continues on the CPU"
	}
	return s.Action
}
