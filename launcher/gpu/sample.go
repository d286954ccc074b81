package gpu

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Sample describes every visible GPU at one moment.
type Sample struct {
	Time    float64 // Unix seconds
	Devices []Device
	XIDs    []XID // errors that the driver reported since the previous sample
}

// Device is the state of a GPU. Unknown numbers are -1.
type Device struct {
	GPU                            // as at the Sampler's opening, with current memory; free and used are -1 if unreadable
	Utilization            float64 // ratio: part of the driver's last sampling period (below 1 s) with a running kernel
	PowerWatts             float64
	PowerLimitWatts        float64
	TemperatureCelsius     float64
	TemperatureSlowdown    float64   // °C at which the GPU reduces its clocks
	Slowdowns              []string  // reasons for reduced clocks: Slowdown*
	Processes              []Process // compute processes; nil: unknown
	MemoryRepairPending    bool      // the next reset replaces defective memory
	MemoryRepairImpossible bool      // no spare memory is left for the replacement
	Lost                   bool      // off its bus, or in need of a reset: all work on the GPU has stopped
	Problem                string    // why the device can't be read, with the remedy; empty if it can
}

// Process is a compute process on a GPU. In a container the PID is the host's.
type Process struct {
	PID  int
	Used int64 // bytes, with its context; -1: unknown
}

// Reasons for reduced clocks.
const (
	SlowdownPowerCap   = "power_cap"         // at the power limit, as usual under full load
	SlowdownHeat       = "heat"              // too hot
	SlowdownPowerBrake = "power_brake"       // requested by the machine's power supply
	SlowdownHardware   = "hardware_slowdown" // one of the latter two, or too high a power draw
)

// unread returns a device that can't be read because of a problem.
func (h handle) unread(problem string) Device {
	d := Device{
		GPU: h.GPU, Utilization: -1, PowerWatts: -1, PowerLimitWatts: -1, TemperatureCelsius: -1, TemperatureSlowdown: -1, Problem: problem,
	}
	d.MemoryFree, d.MemoryUsed = -1, -1
	return d
}

// read queries everything about a device.
func (s *session) read(h handle) Device {
	g := h.GPU
	ret := s.readMemory(h.device, &g)
	if ret != nvml.SUCCESS && !(h.MIG && ret == nvml.ERROR_NO_PERMISSION) {
		d := h.unread(explain(fmt.Sprintf("read GPU %d", h.Index), ret))
		d.Lost = ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED
		return d
	}
	d := h.unread("")
	d.GPU = g
	s.readActivity(h, &d)
	s.readHealth(h, &d)
	return d
}

// readActivity queries the values that change with the load. NVML reports only memory and processes for a MIG
// instance. The other values come from its GPU.
func (s *session) readActivity(h handle, d *Device) {
	board := h.device
	if h.parent != nil {
		board = h.parent
	}
	if u, ok := optional(s, "nvmlDeviceGetUtilizationRates", h.device.GetUtilizationRates); ok {
		d.Utilization = float64(u.Gpu) / 100
	}
	if milliwatts, ok := optional(s, "nvmlDeviceGetPowerUsage", board.GetPowerUsage); ok {
		d.PowerWatts = float64(milliwatts) / 1000
	}
	if milliwatts, ok := optional(s, "nvmlDeviceGetEnforcedPowerLimit", board.GetEnforcedPowerLimit); ok {
		d.PowerLimitWatts = float64(milliwatts) / 1000
	}
	if celsius, ok := optional(s, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) {
		return board.GetTemperature(nvml.TEMPERATURE_GPU) // most current drivers lack its successor
	}); ok {
		d.TemperatureCelsius = float64(celsius)
	}
	if celsius, ok := optional(s, "nvmlDeviceGetTemperatureThreshold", func() (uint32, nvml.Return) {
		return board.GetTemperatureThreshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN)
	}); ok {
		d.TemperatureSlowdown = float64(celsius)
	}
	reasons, ok := optional(s, "nvmlDeviceGetCurrentClocksEventReasons", board.GetCurrentClocksEventReasons)
	if !ok {
		// Drivers before 535 use another name for this function.
		reasons, ok = optional(s, "nvmlDeviceGetCurrentClocksThrottleReasons", board.GetCurrentClocksThrottleReasons)
	}
	if ok {
		d.Slowdowns = slowdowns(reasons)
	}
	d.Processes = s.processes(h.device)
}

func slowdowns(reasons uint64) []string {
	list := []string{}
	for _, r := range []struct {
		bits uint64
		name string
	}{
		{nvml.ClocksEventReasonSwPowerCap, SlowdownPowerCap},
		{nvml.ClocksEventReasonSwThermalSlowdown | nvml.ClocksThrottleReasonHwThermalSlowdown, SlowdownHeat},
		{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, SlowdownPowerBrake},
		{nvml.ClocksThrottleReasonHwSlowdown, SlowdownHardware},
	} {
		if reasons&r.bits != 0 {
			list = append(list, r.name)
		}
	}
	return list
}

// processes lists the compute processes of a device, each once, or nil if the driver doesn't report them. Under MPS
// the driver keeps two lists. The compute processes include the MPS server. The server's clients are in a separate
// list (NVML: "processes with a Multi-Process Service (MPS) compute context"; nvidia-smi marks them M+C).
func (s *session) processes(device nvml.Device) []Process {
	list, ok := s.processList("nvmlDeviceGetComputeRunningProcesses", device.GetComputeRunningProcesses)
	if !ok {
		return nil
	}
	clients, _ := s.processList("nvmlDeviceGetMPSComputeRunningProcesses", device.GetMPSComputeRunningProcesses)
	for _, client := range clients {
		at := slices.IndexFunc(list, func(p Process) bool { return p.PID == client.PID })
		switch {
		case at < 0:
			list = append(list, client)
		case list[at].Used < 0:
			list[at].Used = client.Used
		}
	}
	return list
}

// processList queries one of the driver's lists. It returns false if the driver doesn't report it. The binding uses
// the newest of three functions.
func (s *session) processList(function string, list func() ([]nvml.ProcessInfo, nvml.Return)) ([]Process, bool) {
	for _, version := range []string{"_v3", "_v2"} {
		if s.knows[function+version] {
			function += version
			break
		}
	}
	infos, ok := optional(s, function, list)
	if !ok {
		return nil, false
	}
	found := make([]Process, 0, len(infos))
	for _, info := range infos {
		p := Process{PID: int(info.Pid), Used: -1}
		if info.UsedGpuMemory < 1<<62 { // NVML_VALUE_NOT_AVAILABLE is all ones
			p.Used = int64(info.UsedGpuMemory)
		}
		found = append(found, p)
	}
	return found, true
}

// readHealth queries memory defects: rows to be remapped from Ampere on, pages to be retired on older GPUs.
func (s *session) readHealth(h handle, d *Device) {
	board := h.device
	if h.parent != nil {
		board = h.parent
	}
	type repair struct{ pending, failed bool }
	rows, ok := optional(s, "nvmlDeviceGetRemappedRows", func() (repair, nvml.Return) {
		_, _, pending, failed, ret := board.GetRemappedRows()
		return repair{pending, failed}, ret
	})
	if ok {
		d.MemoryRepairPending, d.MemoryRepairImpossible = rows.pending, rows.failed
		return
	}
	pending, ok := optional(s, "nvmlDeviceGetRetiredPagesPendingStatus", board.GetRetiredPagesPendingStatus)
	d.MemoryRepairPending = ok && pending == nvml.FEATURE_ENABLED
}

// Event returns d as an event. unattributed is Attribution.Unattributed.
func (d Device) Event(unattributed int64) *event.Device {
	return &event.Device{
		Index: d.Index, UUID: d.UUID, Name: d.Name, MemoryTotalBytes: d.MemoryTotal, MemoryUsedBytes: d.MemoryUsed,
		UnattributedBytes: unattributed, Utilization: d.Utilization, PowerWatts: d.PowerWatts, PowerLimitWatts: d.PowerLimitWatts,
		TemperatureCelsius: d.TemperatureCelsius,
	}
}
