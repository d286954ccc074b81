package gpu

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// VisibleVariable is CUDA's own list of devices to show.
const VisibleVariable = "CUDA_VISIBLE_DEVICES"

// visible keeps the GPUs that CUDA would show, and says what is hidden.
func visible(gpus []GPU, reason string) ([]GPU, string) {
	list, set := os.LookupEnv(VisibleVariable)
	if !set {
		return gpus, reason
	}
	kept := filterVisible(gpus, list)
	if len(kept) == 0 {
		return kept, fmt.Sprintf("%s=%q hides every GPU. Try: unset %s", VisibleVariable, list, VisibleVariable)
	}
	return kept, reason
}

// filterVisible reads a CUDA_VISIBLE_DEVICES list as CUDA does: entries are indices or UUID prefixes, and the first one that names no
// device, or one twice, ends the list. Indices are taken in NVML's order (CUDA_DEVICE_ORDER=PCI_BUS_ID). The answer is in order of index.
func filterVisible(gpus []GPU, list string) []GPU {
	kept := []GPU{}
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		i := slices.IndexFunc(gpus, func(g GPU) bool {
			if index, err := strconv.Atoi(entry); err == nil {
				return g.Index == index
			}
			return strings.HasPrefix(entry, "GPU-") && strings.HasPrefix(g.UUID, entry)
		})
		if i < 0 || slices.ContainsFunc(kept, func(g GPU) bool { return g.UUID == gpus[i].UUID }) {
			break
		}
		kept = append(kept, gpus[i])
	}
	slices.SortFunc(kept, func(a, b GPU) int { return a.Index - b.Index })
	return kept
}
