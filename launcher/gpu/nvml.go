package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// LibraryVariable names the NVML library to load instead of libnvidia-ml.so.1.
const LibraryVariable = "SWARM_NVML_LIBRARY"

// queryLimit bounds an NVML query, which can hang forever on a GPU that fell off its bus.
const queryLimit = 30 * time.Second

var errNoAnswer = errors.New("no answer")

// bounded runs call for at most limit, then returns errNoAnswer. If ctx ends first, it returns ctx's cause. A C call
// can't be interrupted, so bounded then leaves its goroutine behind.
func bounded[T any](ctx context.Context, limit time.Duration, call func() T) (T, error) {
	answer := make(chan T, 1)
	go func() { answer <- call() }()
	return await(ctx, limit, answer)
}

func await[T any](ctx context.Context, limit time.Duration, answer <-chan T) (T, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var none T
	select {
	case found := <-answer:
		return found, nil
	case <-ctx.Done():
		return none, fmt.Errorf("ask NVML for GPUs: %w", context.Cause(ctx))
	case <-timer.C:
		return none, errNoAnswer
	}
}

func silent(limit time.Duration) string {
	return fmt.Sprintf("the GPU driver did not answer for %s. Try: nvidia-smi; if it hangs too, reboot", limit)
}

// binding guards go-nvml's global tables: opening and closing NVML writes them, every call reads them.
var binding sync.RWMutex

// session is an initialized NVML. Its methods are safe for concurrent use.
type session struct {
	lib    nvml.Interface
	driver string
	knows  map[string]bool
}

// newer lists the functions that drivers a few years old may lack. The binding would end the process if it called a
// missing one.
var newer = []string{
	"nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetComputeMode", "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetUtilizationRates",
	"nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureThreshold",
	"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetComputeRunningProcesses",
	"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses",
	"nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetRemappedRows",
	"nvmlDeviceGetRetiredPagesPendingStatus", "nvmlEventSetCreate", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
	"nvmlEventSetWait", "nvmlEventSetWait_v2", "nvmlEventSetFree", "nvmlSystemGetDriverVersion",
}

// openSession initializes NVML. If that fails, s is nil and the reason gives the cause and the remedy.
func openSession() (s *session, reason string) {
	binding.Lock()
	defer binding.Unlock()
	var options []nvml.LibraryOption
	if path := os.Getenv(LibraryVariable); path != "" {
		options = append(options, nvml.WithLibraryPath(path))
	}
	lib := nvml.New(options...)
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, explain("start NVML", ret)
	}
	s = &session{lib: lib, knows: map[string]bool{}}
	for _, name := range newer {
		s.knows[name] = lib.Extensions().LookupSymbol(name) == nil
	}
	if s.knows["nvmlSystemGetDriverVersion"] {
		if driver, ret := lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
			s.driver = driver
		}
	}
	return s, ""
}

func (s *session) close() {
	binding.Lock()
	defer binding.Unlock()
	s.lib.Shutdown()
}

// optional calls a function that a driver may lack. It returns false if the driver or the device doesn't report the
// value.
func optional[T any](s *session, function string, call func() (T, nvml.Return)) (T, bool) {
	if !s.knows[function] {
		var none T
		return none, false
	}
	binding.RLock()
	defer binding.RUnlock()
	value, ret := call()
	return value, ret == nvml.SUCCESS
}

// explain describes the failure and its remedy.
func explain(what string, ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "no NVIDIA driver on this machine (libnvidia-ml.so.1 not found). Try: install the NVIDIA driver"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the NVIDIA driver is installed but not loaded. Try: sudo modprobe nvidia, or reboot"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the NVIDIA kernel module and its library have different versions, as after a driver update. Try: reboot"
	case nvml.ERROR_NO_PERMISSION:
		return fmt.Sprintf("%s: no permission to use the NVIDIA devices. Try: ls -l /dev/nvidia*", what)
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		return fmt.Sprintf("%s: the GPU fell off its bus or needs a reset (%s). Try: reboot the machine", what, ret.Error())
	case nvml.ERROR_UNKNOWN:
		return fmt.Sprintf("%s: NVML says %q (code %d), as in a container that lost its devices. Try: nvidia-smi; restart the container",
			what, ret.Error(), int(ret))
	case nvml.ERROR_FUNCTION_NOT_FOUND:
		return fmt.Sprintf("%s: the NVIDIA driver is too old. Try: update the driver", what)
	default:
		return fmt.Sprintf("%s: NVML says %q (code %d). Try: nvidia-smi", what, ret.Error(), int(ret))
	}
}
