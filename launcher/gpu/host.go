// Package gpu looks at one host: its GPUs through NVML (the real go-nvml binding), its cores and its memory. It owns no
// process and keeps no state; it takes its surroundings from the environment and /proc, and must not import node or
// metrics/store.
package gpu

import (
	"context"
	"fmt"
	"runtime"

	"github.com/shirou/gopsutil/v4/mem"
)

// Kinds of device.
const (
	CUDA = "cuda"
	CPU  = "cpu"
)

// Host is what a plan may use. Memory is in bytes.
type Host struct {
	Device          string `json:"device"` // CUDA when at least one GPU is usable, else CPU
	GPUs            []GPU  `json:"gpus"`   // visible ones, by NVML index
	Driver          string `json:"driver,omitempty"`
	Reason          string `json:"reason,omitempty"` // why Device is CPU, or why some GPUs are left out, with the remedy
	Cores           int    `json:"cores"`            // by affinity and CPU quota
	MemoryTotal     int64  `json:"memory_total_bytes"`
	MemoryAvailable int64  `json:"memory_available_bytes"` // the smaller of the machine's and the cgroup's
}

// GPU is one device as its driver describes it.
type GPU struct {
	Index       int    `json:"index"` // NVML's, by PCI bus; CUDA's own order may differ, so address it by UUID
	UUID        string `json:"uuid"`
	Name        string `json:"name"`
	MemoryTotal int64  `json:"memory_total_bytes"`
	MemoryFree  int64  `json:"memory_free_bytes"`
	MemoryUsed  int64  `json:"memory_used_bytes"`
	MIG         bool   `json:"mig"` // split into instances: not usable as a whole
}

// Detect describes this host. A missing or broken GPU driver is no error: Device is then CPU and Reason says why and what
// to do. $SWARM_NVML_LIBRARY names another NVML library and $CUDA_VISIBLE_DEVICES hides GPUs, as CUDA does. NVML's binding
// has global tables: call Detect from one goroutine at a time.
func Detect(ctx context.Context) (Host, error) {
	host := Host{Cores: runtime.GOMAXPROCS(0)} // cgroup- and affinity-aware since Go 1.25
	vm, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return Host{}, fmt.Errorf("read host memory: %w", err)
	}
	host.MemoryTotal, host.MemoryAvailable = int64(vm.Total), int64(vm.Available)
	if group, ok := cgroupMemory("/"); ok {
		host.MemoryTotal = min(host.MemoryTotal, group.limit)
		host.MemoryAvailable = min(host.MemoryAvailable, max(0, group.limit-group.used))
	}
	host.Device, host.GPUs = CPU, []GPU{}
	found, err := query(ctx, queryLimit, ask)
	if err != nil {
		return Host{}, err
	}
	host.Driver, host.Reason = found.driver, found.reason
	if len(found.gpus) == 0 {
		return host, nil
	}
	host.GPUs, host.Reason = visible(found.gpus, found.reason)
	for _, g := range host.GPUs {
		if !g.MIG {
			host.Device = CUDA
		}
	}
	if host.Device == CPU && host.Reason == "" {
		host.Reason = "every visible GPU is in MIG mode. Try: sudo nvidia-smi -mig 0"
	}
	return host, nil
}
