package gpu

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// VisibleVariable is CUDA's list of visible devices.
const VisibleVariable = "CUDA_VISIBLE_DEVICES"

// visible keeps the GPUs that CUDA would show. If it keeps none, the returned reason says why.
func visible(gpus []handle, reason string) ([]handle, string) {
	list, set := os.LookupEnv(VisibleVariable)
	if !set {
		return gpus, reason
	}
	kept, stopped := filterVisible(gpus, list)
	switch {
	case len(kept) > 0:
		return kept, reason
	case strings.HasPrefix(stopped, "MIG-"):
		return kept, fmt.Sprintf("%s names MIG instance %q, which does not exist. Try: nvidia-smi -L", VisibleVariable, stopped)
	}
	return kept, fmt.Sprintf("%s=%q hides every GPU. Try: unset %s", VisibleVariable, list, VisibleVariable)
}

// filterVisible reads a CUDA_VISIBLE_DEVICES list as CUDA does. Entries are indices, UUIDs of GPUs (GPU-…) or of MIG
// instances (MIG-…), or UUID prefixes. The first entry that matches no single device, or repeats a device, ends the
// list and is returned as stopped. Indices are in NVML's order (CUDA_DEVICE_ORDER=PCI_BUS_ID). A MIG instance named
// here becomes a separate device. The result is sorted by index.
func filterVisible(gpus []handle, list string) (kept []handle, stopped string) {
	kept = []handle{}
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		found := named(gpus, entry)
		if len(found) != 1 || slices.ContainsFunc(kept, func(h handle) bool { return h.UUID == found[0].UUID }) {
			stopped = entry
			break
		}
		kept = append(kept, found[0])
	}
	slices.SortFunc(kept, func(a, b handle) int { return a.Index - b.Index })
	return kept, stopped
}

// named returns the devices that match an entry.
func named(gpus []handle, entry string) (found []handle) {
	index, notNumber := strconv.Atoi(entry)
	for _, h := range gpus {
		switch {
		case notNumber == nil:
			if h.Index == index {
				found = append(found, h)
			}
		case strings.HasPrefix(entry, "GPU-"):
			if strings.HasPrefix(h.UUID, entry) {
				found = append(found, h)
			}
		case strings.HasPrefix(entry, "MIG-"):
			for i, instance := range h.Instances {
				// Before driver 470 an instance was MIG-GPU-<uuid>/<instance>/<compute instance>. Compare the whole
				// name first, because instance 1 is also a prefix of instance 11.
				if instance.UUID == entry {
					return []handle{h.whole(i)}
				}
				if strings.HasPrefix(instance.UUID, entry) {
					found = append(found, h.whole(i))
				}
			}
		}
	}
	return found
}
