package job

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
)

// Devices are the GPUs of this host that a command can run on.
type Devices struct {
	gpus   *gpu.Sampler // nil: no GPU
	reason string       // why there is no GPU
	only   string       // UUID of the requested GPU; empty: any
}

// OpenDevices looks for GPUs, or for the one GPU with the index or UUID only. It returns an error if that GPU is
// missing. Without only, a host without GPUs is not an error. The caller closes the Devices.
func OpenDevices(ctx context.Context, only string) (*Devices, error) {
	d := &Devices{}
	var err error
	if d.gpus, err = gpu.OpenSampler(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		d.gpus, d.reason = nil, err.Error()
		if only != "" {
			return nil, fit.NoRoom(fmt.Errorf("--gpu %s: %w", only, err))
		}
		return d, nil
	}
	if only == "" {
		return d, nil
	}
	list, err := d.Look(ctx)
	if err != nil {
		d.Close()
		return nil, err
	}
	var known []string
	for _, device := range list {
		if device.GPU == only || strconv.Itoa(device.Index) == only {
			d.only = device.GPU
		}
		known = append(known, strconv.Itoa(device.Index))
	}
	if d.only == "" {
		d.Close()
		return nil, &configs.Error{Key: "gpu", Value: only, Source: "--gpu", Allowed: "one of " + strings.Join(known, ", ") + ", or its UUID"}
	}
	return d, nil
}

// Close ends the session with the driver.
func (d *Devices) Close() {
	if d.gpus != nil {
		d.gpus.Close()
	}
}

// Look returns every usable GPU with its current state.
func (d *Devices) Look(ctx context.Context) ([]queue.Device, error) {
	if d.gpus == nil {
		return nil, nil
	}
	sample, err := d.gpus.Sample(ctx)
	if err != nil {
		return nil, err
	}
	var list []queue.Device
	for _, g := range sample.Devices {
		if g.Lost || g.MemoryFree < 0 || g.MIG || g.Mode == gpu.ModeProhibited || d.only != "" && g.UUID != d.only {
			continue
		}
		device := queue.Device{GPU: g.UUID, Index: g.Index, Name: g.Name, Total: g.MemoryTotal, Free: g.MemoryFree}
		if g.Processes != nil && queue.SeesDriversPIDs() {
			device.Processes = map[int]int64{}
		}
		for _, p := range g.Processes {
			device.Processes[p.PID] = p.Used
		}
		list = append(list, device)
	}
	return list, nil
}

// hostMemory returns the CPU as a device of the queue.
func hostMemory(ctx context.Context) ([]queue.Device, error) {
	total, available, err := gpu.Memory(ctx)
	if err != nil {
		return nil, err
	}
	return []queue.Device{{GPU: queue.CPU, Name: queue.CPU, Total: total, Free: available}}, nil
}

// Used returns the bytes that processes hold on a GPU. The argument alone says that no other process uses the GPU. If
// the driver doesn't report processes and alone is set, Used returns the increase of the GPU's used memory above
// before. The result ok is false if the memory is unknown. Used returns within sampleLimit.
func (d *Devices) Used(uuid string, pids []int, before int64, alone bool) (bytes int64, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), sampleLimit)
	defer cancel()
	list, err := d.Look(ctx)
	at := slices.IndexFunc(list, func(device queue.Device) bool { return device.GPU == uuid })
	if err != nil || at < 0 {
		return 0, false
	}
	device := list[at]
	told := device.Processes != nil
	for _, pid := range pids {
		n, there := device.Processes[pid]
		bytes, ok, told = bytes+n, ok || there, told && n >= 0
	}
	switch {
	case told:
		return bytes, ok
	case alone:
		return max(0, device.Total-device.Free-before), true
	}
	return 0, false
}

// sampleLimit bounds one query of the GPUs while the command runs.
const sampleLimit = 5 * time.Second
