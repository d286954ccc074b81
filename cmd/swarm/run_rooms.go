package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/queue"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// headroom is what a job may need beyond what was seen of it: peaks between two looks, and the driver's own.
const headroom = 1.1

// rooms is what a job sees of the host it could run on.
type rooms struct {
	gpus   *gpu.Sampler // nil: there is none
	reason string       // why there is none
	only   string       // UUID of --gpu
}

// openRooms looks for GPUs. A --gpu that isn't there is a mistake.
func openRooms(ctx context.Context, o *runOptions) (*rooms, error) {
	r := &rooms{}
	if o.cpu == cpuOnly {
		r.reason = "--cpu only"
		return r, nil
	}
	var err error
	if r.gpus, err = gpu.OpenSampler(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r.gpus, r.reason = nil, err.Error()
		if o.gpu != "" {
			return nil, fmt.Errorf("%w: --gpu %s: %w", fit.ErrDoesNotFit, o.gpu, err)
		}
		return r, nil
	}
	if o.gpu == "" {
		return r, nil
	}
	list, err := r.look(ctx)
	if err != nil {
		r.close()
		return nil, err
	}
	var known []string
	for _, room := range list {
		if room.GPU == o.gpu || strconv.Itoa(room.Index) == o.gpu {
			r.only = room.GPU
		}
		known = append(known, strconv.Itoa(room.Index))
	}
	if r.only == "" {
		r.close()
		return nil, &configs.Error{Key: "gpu", Value: o.gpu, Source: "--gpu", Allowed: "one of " + strings.Join(known, ", ") + ", or its UUID"}
	}
	return r, nil
}

func (r *rooms) close() {
	if r.gpus != nil {
		r.gpus.Close()
	}
}

// look is every GPU that can be used, now.
func (r *rooms) look(ctx context.Context) ([]queue.Room, error) {
	if r.gpus == nil {
		return nil, nil
	}
	sample, err := r.gpus.Sample(ctx)
	if err != nil {
		return nil, err
	}
	var list []queue.Room
	for _, d := range sample.Devices {
		if d.Lost || d.MemoryFree < 0 || d.MIG || d.Mode == gpu.ModeProhibited || r.only != "" && d.UUID != r.only {
			continue
		}
		room := queue.Room{GPU: d.UUID, Index: d.Index, Name: d.Name, Total: d.MemoryTotal, Free: d.MemoryFree}
		if d.Processes != nil {
			room.Processes = map[int]int64{}
		}
		for _, p := range d.Processes {
			room.Processes[p.PID] = p.Used
		}
		list = append(list, room)
	}
	return list, nil
}

// host is the CPU as a room.
func (*rooms) host(ctx context.Context) ([]queue.Room, error) {
	total, available, err := gpu.Memory(ctx)
	if err != nil {
		return nil, err
	}
	return []queue.Room{{GPU: queue.CPU, Name: queue.CPU, Total: total, Free: available}}, nil
}

// used is what processes hold of a GPU; false where the driver doesn't tell.
func (r *rooms) used(ctx context.Context, uuid string, pids []int) (bytes int64, ok bool) {
	list, err := r.look(ctx)
	if err != nil {
		return 0, false
	}
	for _, room := range list {
		if room.GPU != uuid || room.Processes == nil {
			continue
		}
		for _, pid := range pids {
			n, there := room.Processes[pid]
			if n < 0 {
				return 0, false
			}
			bytes, ok = bytes+n, ok || there
		}
	}
	return bytes, ok
}

// need is what the job waits for on GPUs, or on the CPU.
func (j *job) need(ctx context.Context, onCPU bool) (queue.Need, error) {
	declared, err := j.o.memory.bytes("memory")
	if err != nil {
		return queue.Need{}, err
	}
	least, err := j.o.minGPUMemory.bytes("min-gpu-memory")
	if err != nil {
		return queue.Need{}, err
	}
	bytes := declared
	if bytes == 0 {
		bytes, err = j.learned(ctx, onCPU)
		if err != nil {
			return queue.Need{}, err
		}
	}
	if onCPU { // swap and the kernel's killer stand behind it: what isn't known doesn't keep others away
		return queue.Need{GPU: queue.CPU, Bytes: bytes}, nil
	}
	n := queue.Need{Bytes: bytes, MinFree: least, GPU: j.rooms.only, Exclusive: bytes == 0}
	if bytes == 0 && !j.o.chosen["min-gpu-memory"] {
		n.MinFree = leastGPUMemory
	}
	return n, nil
}

// learned is what the command was seen to need before, on any kind of GPU that is here; 0 where it never ran.
func (j *job) learned(ctx context.Context, onCPU bool) (int64, error) {
	kinds := map[string]bool{"": true}
	if !onCPU {
		list, err := j.rooms.look(ctx)
		if err != nil {
			return 0, err
		}
		delete(kinds, "")
		for _, room := range list {
			kinds[room.Name] = true
		}
	}
	var most int64
	err := j.reading(ctx, func(r *store.Reader) error {
		for kind := range kinds {
			bytes, ok, err := r.LearnedBytes(ctx, j.places.key, kind)
			if err != nil {
				return err
			}
			if ok {
				most = max(most, int64(headroom*float64(bytes)))
			}
		}
		return nil
	})
	return most, err
}

// take takes a room for the next attempt, or waits for it. It says which.
func (j *job) take(ctx context.Context, onCPU bool, gpu string, avoid []string) error {
	need, err := j.need(ctx, onCPU)
	if err != nil {
		return err
	}
	if gpu != "" {
		need.GPU = gpu
	}
	need.Avoid = avoid
	if j.ticket == nil {
		if j.ticket, err = j.queue.Enter(j.row.Job, need); err != nil {
			return err
		}
	} else if err := errors.Join(j.ticket.Release(), j.ticket.Change(need)); err != nil {
		return err
	}
	look := j.rooms.look
	if onCPU {
		look = j.rooms.host
	}
	j.claim, err = j.ticket.Wait(ctx, j.o.wait.interval, j.o.wait.limit, look, func(v queue.Verdict) { j.say("%s", v) })
	if errors.Is(err, queue.ErrTimeout) {
		return fmt.Errorf("%w: %w", fit.ErrDoesNotFit, err)
	}
	return err
}

// moveTo are the GPUs that the job could be moved to.
func (j *job) moveTo(ctx context.Context) ([]queue.Room, error) {
	list, err := j.rooms.look(ctx)
	var others []queue.Room
	for _, room := range list {
		if room.GPU != j.claim.GPU {
			others = append(others, room)
		}
	}
	return others, err
}

// sampleLimit bounds one look at the GPUs while the command runs.
const sampleLimit = 5 * time.Second
