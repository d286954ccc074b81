package gpu

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Sample is every visible GPU at one moment.
type Sample struct {
	Time    float64 // Unix seconds
	Devices []Device
	XIDs    []XID // errors that the driver has told of since the sample before
}

// Device is a GPU now. What the driver doesn't tell is -1.
type Device struct {
	GPU                            // as at the Sampler's opening, memory as of now; free and used -1 where it can't be read
	Utilization            float64 // ratio: part of the last fraction of a second in which a kernel ran
	PowerWatts             float64
	PowerLimitWatts        float64
	TemperatureCelsius     float64
	TemperatureSlowdown    float64   // °C at which the GPU slows itself down
	Slowdowns              []string  // why its clocks are reduced now: Slowdown*
	Processes              []Process // that compute; nil: not told
	MemoryRepairPending    bool      // defective memory is replaced at the next reset
	MemoryRepairImpossible bool      // and there is none left to replace it with
	Lost                   bool      // off its bus, or in need of a reset: nothing on it goes on
	Problem                string    // why it can't be read, with the remedy; empty where it can
}

// Process computes on a GPU. In a container the PID is the host's.
type Process struct {
	PID  int
	Used int64 // bytes, with its context; -1: not told
}

// Why clocks are reduced.
const (
	SlowdownPowerCap   = "power_cap"         // at the power limit: usual under full load
	SlowdownHeat       = "heat"              // too hot
	SlowdownPowerBrake = "power_brake"       // the machine's power supply asks for it
	SlowdownHardware   = "hardware_slowdown" // one of the latter two, or too high a draw
)

// read asks for everything about a device.
func (s *session) read(h handle) Device {
	d := Device{
		GPU: h.GPU, Utilization: -1, PowerWatts: -1, PowerLimitWatts: -1, TemperatureCelsius: -1, TemperatureSlowdown: -1,
	}
	memory, ret := s.memory(h.device)
	switch {
	case ret == nvml.SUCCESS:
		d.setMemory(memory)
	case h.MIG && ret == nvml.ERROR_NO_PERMISSION:
	default:
		d.MemoryFree, d.MemoryUsed = -1, -1
		d.Lost = ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED
		d.Problem = explain(fmt.Sprintf("read GPU %d", h.Index), ret)
		return d
	}
	s.readActivity(h, &d)
	s.readHealth(h, &d)
	return d
}

// readActivity asks for what changes with the load. Of a MIG instance's own, NVML tells memory and processes alone.
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
		return board.GetTemperature(nvml.TEMPERATURE_GPU) // its successor is missing in most drivers of today
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
		// Drivers before 535 know it by another name.
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

// processes lists who computes on a device, each process once, nil where the driver doesn't tell. Under MPS the driver
// keeps two lists: the server is in that of compute processes, its clients are in one of their own (NVML: "processes
// with a Multi-Process Service (MPS) compute context"; nvidia-smi marks them M+C).
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

// processList asks for one of the driver's lists; false where it doesn't tell. The binding uses the newest of three
// functions.
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

// readHealth asks for defects of the memory: rows to be remapped from Ampere on, pages to be retired before.
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

// Event is the event that carries d; unattributed is what Attribute found to be nobody's.
func (d Device) Event(unattributed int64) *event.Device {
	return &event.Device{
		Index: d.Index, UUID: d.UUID, Name: d.Name, MemoryTotalBytes: d.MemoryTotal, MemoryUsedBytes: d.MemoryUsed,
		UnattributedBytes: unattributed, Utilization: d.Utilization, PowerWatts: d.PowerWatts, PowerLimitWatts: d.PowerLimitWatts,
		TemperatureCelsius: d.TemperatureCelsius,
	}
}
