// Package gpu describes one host: its GPUs through NVML (the real go-nvml binding), its cores and its memory, once
// (Detect) or repeatedly (Sampler). Pure functions interpret the data: Attribute divides memory among nodes, Advise
// returns warnings and recommendations, and Faults returns errors that ended work on a GPU. The package owns no
// process. It reads the environment and /proc, and must not import node or metrics/store.
package gpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/shirou/gopsutil/v4/mem"
)

// Kinds of device.
const (
	CUDA = "cuda"
	CPU  = "cpu"
)

// Host describes the resources available to a plan. Memory is in bytes.
type Host struct {
	Device          string `json:"device"` // CUDA if at least one GPU is usable, else CPU
	GPUs            []GPU  `json:"gpus"`   // visible GPUs, by NVML index
	Driver          string `json:"driver,omitempty"`
	Reason          string `json:"reason,omitempty"` // why Device is CPU, or why some GPUs are left out, with the remedy
	Cores           int    `json:"cores"`            // by affinity and CPU quota
	MemoryTotal     int64  `json:"memory_total_bytes"`
	MemoryAvailable int64  `json:"memory_available_bytes"` // the smaller of the machine's and the cgroup's
}

// Detect describes this host. A missing or broken GPU driver is not an error: Device is then CPU, and Reason gives
// the cause and the remedy. $SWARM_NVML_LIBRARY names another NVML library. $CUDA_VISIBLE_DEVICES hides GPUs, or
// names MIG instances to use, as in CUDA.
func Detect(ctx context.Context) (Host, error) {
	host := Host{Cores: runtime.GOMAXPROCS(0)} // respects cgroup quota and affinity since Go 1.25
	var err error
	if host.MemoryTotal, host.MemoryAvailable, err = Memory(ctx); err != nil {
		return Host{}, err
	}
	host.Device, host.GPUs = CPU, []GPU{}
	found, err := bounded(ctx, queryLimit, detect)
	switch {
	case errors.Is(err, errNoAnswer):
		host.Reason = silent(queryLimit)
		return host, nil
	case err != nil:
		return Host{}, err
	}
	host.Driver, host.Reason = found.driver, found.reason
	for _, h := range found.gpus {
		host.GPUs = append(host.GPUs, h.GPU)
		if !h.MIG {
			host.Device = CUDA
		}
	}
	if host.Device == CPU && host.Reason == "" {
		host.Reason = splitReason(host.GPUs)
	}
	return host, nil
}

// Memory returns this host's memory in bytes: the smaller of the machine's and the tightest cgroup's.
func Memory(ctx context.Context) (total, available int64, err error) {
	vm, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read host memory: %w", err)
	}
	total, available = int64(vm.Total), int64(vm.Available)
	if group, ok := cgroupMemory("/"); ok {
		total = min(total, group.limit)
		available = min(available, max(0, group.limit-group.used))
	}
	return total, available, nil
}

// inventory is NVML's description of a host.
type inventory struct {
	driver string
	gpus   []handle // visible ones
	reason string
}

func detect() inventory {
	s, reason := openSession()
	if s == nil {
		return inventory{reason: reason}
	}
	defer s.close()
	found := inventory{driver: s.driver}
	found.gpus, found.reason = s.enumerate()
	if len(found.gpus) > 0 {
		found.gpus, found.reason = visible(found.gpus, found.reason)
	}
	return found
}

// splitReason explains why no GPU is used if all of them are in MIG mode.
func splitReason(gpus []GPU) string {
	instances := 0
	example := ""
	for _, g := range gpus {
		instances += len(g.Instances)
		if example == "" && len(g.Instances) > 0 {
			example = g.Instances[0].UUID
		}
	}
	if instances == 0 {
		return "every visible GPU is in MIG mode. Try: sudo nvidia-smi -mig 0"
	}
	return fmt.Sprintf("every visible GPU is in MIG mode, but swarm uses an instance only if you name it (%d found). "+
		"Try: %s=%s, or sudo nvidia-smi -mig 0", instances, VisibleVariable, example)
}
