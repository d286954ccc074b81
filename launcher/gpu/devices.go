package gpu

import (
	"context"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// GPU is one device as its driver describes it.
type GPU struct {
	Index       int        `json:"index"` // NVML's, by PCI bus; CUDA's order may differ, so address a GPU by UUID
	UUID        string     `json:"uuid"`
	Name        string     `json:"name"`
	MemoryTotal int64      `json:"memory_total_bytes"` // in MIG mode, seen from a container: of the container's instances
	MemoryFree  int64      `json:"memory_free_bytes"`
	MemoryUsed  int64      `json:"memory_used_bytes"`
	Capability  int        `json:"-"`                 // major number of the compute capability; 0: unknown
	Mode        int        `json:"-"`                 // compute mode: 0 default, or one of Mode*
	Unified     bool       `json:"unified,omitempty"` // the GPU has no memory of its own: the figures are the host's
	MIG         bool       `json:"mig"`               // split into instances: the whole GPU is not usable
	Instances   []Instance `json:"mig_instances,omitempty"`
	InstanceOf  *int       `json:"mig_instance_of,omitempty"` // index of its GPU; set if this is a MIG instance that $CUDA_VISIBLE_DEVICES names
}

// Compute modes other than the default, by NVML's numbers.
const (
	ModeProhibited       = 2 // no process may use CUDA
	ModeExclusiveProcess = 3 // one process only, such as an MPS server
)

// Instance is a part of a GPU in MIG mode, with its own memory and processors.
type Instance struct {
	UUID        string `json:"uuid"`
	Name        string `json:"name"`
	MemoryTotal int64  `json:"memory_total_bytes"`
	MemoryFree  int64  `json:"memory_free_bytes"`
	MemoryUsed  int64  `json:"memory_used_bytes"`
}

// handle is a GPU with its NVML handles.
type handle struct {
	GPU
	device    nvml.Device
	instances []nvml.Device // as GPU.Instances

	// Set for a MIG instance: its GPU.
	parent     nvml.Device
	parentUUID string
}

// instanceIndex returns the GPU.Index of instance i of GPU index. Indices of whole GPUs are always smaller.
func instanceIndex(index, i int) int { return 100*(index+1) + i }

// whole returns the handle of an instance as a separate device.
func (h handle) whole(i int) handle {
	at, in := h.Index, h.Instances[i]
	return handle{device: h.instances[i], parent: h.device, parentUUID: h.UUID, GPU: GPU{
		Index: instanceIndex(at, i), UUID: in.UUID, Name: in.Name, InstanceOf: &at,
		MemoryTotal: in.MemoryTotal, MemoryFree: in.MemoryFree, MemoryUsed: in.MemoryUsed,
	}}
}

// enumerate describes every readable GPU. The reason says why there is none, or why a GPU is left out.
func (s *session) enumerate() (found []handle, reason string) {
	binding.RLock()
	n, ret := s.lib.DeviceGetCount()
	binding.RUnlock()
	switch {
	case ret != nvml.SUCCESS:
		return nil, explain("count GPUs", ret)
	case n == 0:
		return nil, "the NVIDIA driver is loaded but sees no GPU. Try: nvidia-smi -L"
	}
	for i := range n {
		h, ret := s.describe(i)
		if ret != nvml.SUCCESS {
			reason = explain(fmt.Sprintf("read GPU %d", i), ret)
			continue
		}
		found = append(found, h)
	}
	return found, reason
}

func (s *session) describe(index int) (handle, nvml.Return) {
	binding.RLock()
	device, ret := s.lib.DeviceGetHandleByIndex(index)
	binding.RUnlock()
	if ret != nvml.SUCCESS {
		return handle{}, ret
	}
	h := handle{GPU: GPU{Index: index}, device: device}
	if h.Name, h.UUID, ret = s.identity(device); ret != nvml.SUCCESS {
		return handle{}, ret
	}
	h.Capability, _ = optional(s, "nvmlDeviceGetCudaComputeCapability", func() (int, nvml.Return) {
		major, _, ret := device.GetCudaComputeCapability()
		return major, ret
	})
	compute, _ := optional(s, "nvmlDeviceGetComputeMode", device.GetComputeMode)
	h.Mode = int(compute)
	mode, known := optional(s, "nvmlDeviceGetMigMode", func() (int, nvml.Return) {
		current, _, ret := device.GetMigMode()
		return current, ret
	})
	h.MIG = known && mode == nvml.DEVICE_MIG_ENABLE
	if h.MIG {
		s.addInstances(&h)
	}
	switch ret = s.readMemory(device, &h.GPU); {
	case ret == nvml.SUCCESS:
	case h.MIG && ret == nvml.ERROR_NO_PERMISSION:
		// A container with one instance may query the memory of that instance only.
		for _, instance := range h.Instances {
			h.MemoryTotal += instance.MemoryTotal
			h.MemoryFree += instance.MemoryFree
			h.MemoryUsed += instance.MemoryUsed
		}
	default:
		return handle{}, ret
	}
	return h, nvml.SUCCESS
}

// readMemory sets a GPU's memory. GPUs that share the host's memory (GB10, Jetson) do not support the query. Their
// memory is the host's.
func (s *session) readMemory(device nvml.Device, g *GPU) nvml.Return {
	m, ret := s.memory(device)
	if ret == nvml.ERROR_NOT_SUPPORTED && !g.MIG && g.InstanceOf == nil {
		total, available, err := Memory(context.Background())
		if err != nil {
			return ret
		}
		g.Unified, m, ret = true, nvml.Memory{Total: uint64(total), Free: uint64(available), Used: uint64(total - available)}, nvml.SUCCESS
	}
	if ret == nvml.SUCCESS {
		g.MemoryTotal, g.MemoryFree, g.MemoryUsed = int64(m.Total), int64(m.Free), int64(m.Used)
	}
	return ret
}

func (s *session) identity(device nvml.Device) (name, uuid string, ret nvml.Return) {
	binding.RLock()
	defer binding.RUnlock()
	if name, ret = device.GetName(); ret != nvml.SUCCESS {
		return "", "", ret
	}
	uuid, ret = device.GetUUID()
	return name, uuid, ret
}

func (s *session) memory(device nvml.Device) (nvml.Memory, nvml.Return) {
	binding.RLock()
	defer binding.RUnlock()
	return device.GetMemoryInfo()
}

// addInstances adds the readable MIG instances.
func (s *session) addInstances(h *handle) {
	most, known := optional(s, "nvmlDeviceGetMaxMigDeviceCount", h.device.GetMaxMigDeviceCount)
	if !known {
		return
	}
	for i := range most {
		device, found := optional(s, "nvmlDeviceGetMigDeviceHandleByIndex", func() (nvml.Device, nvml.Return) {
			return h.device.GetMigDeviceHandleByIndex(i)
		})
		if !found {
			continue // indices have gaps
		}
		name, uuid, ret := s.identity(device)
		if ret != nvml.SUCCESS {
			continue
		}
		memory, ret := s.memory(device)
		if ret != nvml.SUCCESS {
			continue
		}
		h.instances = append(h.instances, device)
		h.Instances = append(h.Instances, Instance{
			UUID: uuid, Name: name, MemoryTotal: int64(memory.Total), MemoryFree: int64(memory.Free), MemoryUsed: int64(memory.Used),
		})
	}
}
