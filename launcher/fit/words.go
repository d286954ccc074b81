package fit

import (
	"fmt"

	"github.com/sapo-swarm/swarm/internal/units"
)

// describe states the GPUs' free memory.
func describe(gpus []GPU) string {
	if len(gpus) == 1 {
		return fmt.Sprintf("%s has %s free of %s", gpus[0].Name, units.BytesShort(gpus[0].MemoryFree), units.BytesShort(gpus[0].MemoryTotal))
	}
	var free int64
	for _, g := range gpus {
		free += g.MemoryFree
	}
	return fmt.Sprintf("%d GPUs have %s free, the largest %s", len(gpus), units.BytesShort(free), units.BytesShort(gpus[0].MemoryFree))
}
