package gpu

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// LibraryVariable names the NVML library to load instead of libnvidia-ml.so.1.
const LibraryVariable = "SWARM_NVML_LIBRARY"

// queryLimit bounds NVML, which can hang for good on a GPU that fell off its bus.
const queryLimit = 30 * time.Second

type inventory struct {
	driver string
	gpus   []GPU
	reason string
}

// query asks for every device, for at most limit. It returns an error only when ctx ends; a C call can't be interrupted, so its goroutine
// is then left behind.
func query(ctx context.Context, limit time.Duration, ask func() inventory) (inventory, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := make(chan inventory, 1)
	go func() { answer <- ask() }()
	select {
	case found := <-answer:
		return found, nil
	case <-bounded.Done():
		if ctx.Err() != nil {
			return inventory{}, fmt.Errorf("ask NVML for GPUs: %w", context.Cause(ctx))
		}
		return inventory{reason: fmt.Sprintf("the GPU driver did not answer for %s. Try: nvidia-smi; if it hangs too, reboot", limit)}, nil
	}
}

func ask() inventory {
	var options []nvml.LibraryOption
	if path := os.Getenv(LibraryVariable); path != "" {
		options = append(options, nvml.WithLibraryPath(path))
	}
	lib := nvml.New(options...)
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return inventory{reason: explain("start NVML", ret)}
	}
	defer lib.Shutdown()
	var found inventory
	if driver, ret := lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		found.driver = driver
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		found.reason = explain("count GPUs", ret)
		return found
	}
	if n == 0 {
		found.reason = "the NVIDIA driver is loaded but sees no GPU. Try: nvidia-smi -L"
		return found
	}
	// Drivers before 450 lack the call, and the binding would end the process on a missing symbol.
	asksMIG := lib.Extensions().LookupSymbol("nvmlDeviceGetMigMode") == nil
	for i := range n {
		device, ret := describe(lib, i, asksMIG)
		if ret != nvml.SUCCESS {
			found.reason = explain(fmt.Sprintf("read GPU %d", i), ret)
			continue
		}
		found.gpus = append(found.gpus, device)
	}
	return found
}

func describe(lib nvml.Interface, index int, asksMIG bool) (GPU, nvml.Return) {
	handle, ret := lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return GPU{}, ret
	}
	name, ret := handle.GetName()
	if ret != nvml.SUCCESS {
		return GPU{}, ret
	}
	uuid, ret := handle.GetUUID()
	if ret != nvml.SUCCESS {
		return GPU{}, ret
	}
	memory, ret := handle.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return GPU{}, ret
	}
	device := GPU{
		Index: index, UUID: uuid, Name: name,
		MemoryTotal: int64(memory.Total), MemoryFree: int64(memory.Free), MemoryUsed: int64(memory.Used),
	}
	if asksMIG {
		mode, _, ret := handle.GetMigMode()
		device.MIG = ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
	}
	return device, nvml.SUCCESS
}

// explain says what failed and what the reader can do about it.
func explain(what string, ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "no NVIDIA driver on this machine (libnvidia-ml.so.1 not found). Try: install the NVIDIA driver, or --device cpu"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the NVIDIA driver is installed but not loaded. Try: sudo modprobe nvidia, or reboot"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the NVIDIA kernel module and its library are of different versions, as after a driver update. Try: reboot"
	case nvml.ERROR_NO_PERMISSION:
		return fmt.Sprintf("%s: no permission to use the NVIDIA devices. Try: ls -l /dev/nvidia*", what)
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		return fmt.Sprintf("%s: the GPU fell off its bus or needs a reset (%s). Try: reboot the machine", what, ret.Error())
	case nvml.ERROR_FUNCTION_NOT_FOUND:
		return fmt.Sprintf("%s: the NVIDIA driver is too old. Try: update the driver", what)
	default:
		return fmt.Sprintf("%s: NVML says %q (code %d). Try: nvidia-smi", what, ret.Error(), int(ret))
	}
}
