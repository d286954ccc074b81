package fit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// bytes is n in GB of 10^9 bytes, or MB where it is small, as the guides count.
func bytes(n int64) string {
	if n < 999_500_000 {
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return strconv.FormatFloat(math.Round(float64(n)/1e8)/10, 'f', -1, 64) + " GB"
}

// describe tells of the GPUs' free memory.
func describe(gpus []GPU) string {
	if len(gpus) == 1 {
		return fmt.Sprintf("%s has %s free of %s", gpus[0].Name, bytes(gpus[0].MemoryFree), bytes(gpus[0].MemoryTotal))
	}
	var free int64
	for _, g := range gpus {
		free += g.MemoryFree
	}
	return fmt.Sprintf("%d GPUs have %s free, the largest %s", len(gpus), bytes(free), bytes(gpus[0].MemoryFree))
}

// list is "a", "a and b", "a, b and c".
func list(items []string, last string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " " + last + " " + items[len(items)-1]
}

func computes(slots int) string {
	if slots == 1 {
		return "1 computes"
	}
	return fmt.Sprintf("%d compute", slots)
}
