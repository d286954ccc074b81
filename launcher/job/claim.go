package job

import (
	"context"
	"errors"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// need returns the memory and device that the job waits for with a setting; nil: with the setting that the job would
// start with.
func (j *Job) need(ctx context.Context, onCPU bool, next *retry.Setting) queue.Need {
	bytes := j.o.Memory
	if bytes == 0 {
		bytes = j.remembered(ctx, onCPU, next)
	}
	if onCPU { // swap and the kernel's OOM killer limit the damage, so an unknown need doesn't exclude other jobs
		return queue.Need{GPU: queue.CPU, Bytes: bytes}
	}
	n := queue.Need{Bytes: bytes, MinFree: j.o.MinGPUMemory, GPU: j.devices.only, Exclusive: bytes == 0}
	if bytes == 0 && !j.o.Given["min-gpu-memory"] {
		n.MinFree = leastGPUMemory
	}
	return n
}

// take takes a device for the next attempt, or waits for one. If gpu is set, only that GPU is acceptable. While it
// waits, take reports the reason.
func (j *Job) take(ctx context.Context, onCPU bool, gpu string, next *retry.Setting) (err error) {
	need := j.need(ctx, onCPU, next)
	if gpu != "" {
		need.GPU = gpu
	}
	if j.ticket == nil {
		if j.ticket, err = j.queue.Enter(j.row.Job, need); err != nil {
			return err
		}
	} else if err := errors.Join(j.ticket.Release(), j.ticket.Change(need)); err != nil {
		return err
	}
	look := j.devices.Look
	if onCPU {
		look = hostMemory
	}
	j.claim, err = j.ticket.Wait(ctx, j.o.Interval, j.o.Wait, look, j.waits)
	if errors.Is(err, queue.ErrTimeout) {
		return fit.NoRoom(err)
	}
	return err
}

// waits reports the reason of the wait.
func (j *Job) waits(v queue.Verdict) {
	j.say("%s", v)
	if j.row.State != store.JobWaiting {
		j.row.State = store.JobWaiting
		j.saveJob(context.Background())
	}
}

// moveTo returns the GPUs that the job could move to.
func (j *Job) moveTo(ctx context.Context) ([]queue.Device, error) {
	list, err := j.devices.Look(ctx)
	var others []queue.Device
	for _, device := range list {
		if device.GPU != j.claim.GPU {
			others = append(others, device)
		}
	}
	return others, err
}

// openDevices looks for GPUs, unless the job may use only the CPU.
func (j *Job) openDevices(ctx context.Context) (err error) {
	if j.o.CPU == CPUOnly {
		j.devices = &Devices{reason: "--cpu only"}
		return nil
	}
	j.devices, err = OpenDevices(ctx, j.o.GPU)
	return err
}
