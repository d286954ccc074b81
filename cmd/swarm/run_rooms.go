package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
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
			return nil, &noRoom{fmt.Errorf("--gpu %s: %w", o.gpu, err)}
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
		if d.Processes != nil && queue.SeesDriversPIDs() {
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

// used is what processes hold of a GPU. Where the driver doesn't tell, and alone says that nobody else is on the GPU, it is what the GPU holds
// more than before. False: nobody can tell.
func (r *rooms) used(ctx context.Context, uuid string, pids []int, before int64, alone bool) (bytes int64, ok bool) {
	list, err := r.look(ctx)
	at := slices.IndexFunc(list, func(room queue.Room) bool { return room.GPU == uuid })
	if err != nil || at < 0 {
		return 0, false
	}
	room := list[at]
	told := room.Processes != nil
	for _, pid := range pids {
		n, there := room.Processes[pid]
		bytes, ok, told = bytes+n, ok || there, told && n >= 0
	}
	switch {
	case told:
		return bytes, ok
	case alone:
		return max(0, room.Total-room.Free-before), true
	}
	return 0, false
}

// need is what the job waits for on GPUs, or on the CPU, for a setting; nil: for whatever it would begin with there.
func (j *job) need(ctx context.Context, onCPU bool, next *retry.Setting) (queue.Need, error) {
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
		bytes = j.learned(ctx, onCPU, next)
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

// learned is what the command was seen to need before, on any kind of GPU that is here; 0 where it never ran with so much.
func (j *job) learned(ctx context.Context, onCPU bool, next *retry.Setting) (most int64) {
	look := j.rooms.look
	if onCPU {
		look = j.rooms.host
	}
	list, err := look(ctx)
	if err != nil {
		j.g.logger.Debug("what the command needs is taken for unknown", "error", err)
	}
	seen := map[string]bool{}
	for _, room := range list {
		kind := room.Name
		if onCPU {
			kind = ""
		}
		if seen[kind] {
			continue
		}
		seen[kind] = true
		e := j.experience(ctx, kind)
		setting, _ := j.places.policy(j.o).Start(e.fitted, e.short, j.places.asked)
		if next != nil {
			setting = *next
		}
		if e.fitted != nil && setting.Within(*e.fitted) {
			most = max(most, withHeadroom(e.bytes, room.Total))
		}
	}
	return most
}

// withHeadroom is what to claim for a peak that was seen where there is so much memory. It leaves what the driver keeps for itself: a command that
// took nearly all of a GPU must not be said to need more than there is.
func withHeadroom(peak, total int64) int64 {
	return max(peak, min(int64(headroom*float64(peak)), total-total/20))
}

// experience is what earlier jobs of the same command met with on a kind of GPU, empty for the CPU.
type experience struct {
	fitted *retry.Setting  // the last that did; nil: none
	short  []retry.Setting // that ran out of memory
	bytes  int64           // peak of those like fitted; 0: not measured
}

// experience asks the database. One that can't be read has nothing to tell, which is no reason not to train.
func (j *job) experience(ctx context.Context, kind string) (e experience) {
	if j.o.forget {
		return e
	}
	err := j.reading(ctx, func(r *store.Reader) error {
		fitted, ok, err := r.Fitted(ctx, j.places.key, kind)
		if err != nil || !ok {
			return err
		}
		setting := settingOf(fitted)
		short, err := r.Shortages(ctx, j.places.key, kind)
		if err != nil {
			return err
		}
		bytes, _, err := r.LearnedBytes(ctx, j.places.key, kind)
		e = experience{fitted: &setting, bytes: bytes}
		for _, a := range short {
			e.short = append(e.short, settingOf(a))
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		j.say("what fitted before isn't known: %v", err)
	}
	return e
}

func settingOf(a store.JobAttempt) retry.Setting {
	return retry.Setting{BatchSize: a.BatchSize, Accumulate: a.Accumulate, GradientCheckpointing: a.GradientCheckpointing, Offload: a.Offload}
}

// take takes a room for the next attempt, or waits for it; a gpu that is named is the only one that will do. It says what it waits for.
func (j *job) take(ctx context.Context, onCPU bool, gpu string, next *retry.Setting) error {
	need, err := j.need(ctx, onCPU, next)
	if err != nil {
		return err
	}
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
	look := j.rooms.look
	if onCPU {
		look = j.rooms.host
	}
	j.claim, err = j.ticket.Wait(ctx, j.o.wait.interval, j.o.wait.limit, look, j.waits)
	if errors.Is(err, queue.ErrTimeout) {
		return &noRoom{err}
	}
	return err
}

// noRoom is fit.ErrDoesNotFit, and so its exit code, without its words: nothing was tried that could fit or not.
type noRoom struct{ err error }

func (e *noRoom) Error() string        { return e.err.Error() }
func (e *noRoom) Unwrap() error        { return e.err }
func (e *noRoom) Is(target error) bool { return target == fit.ErrDoesNotFit }

// waits tells what the job waits for.
func (j *job) waits(v queue.Verdict) {
	j.say("%s", v)
	if j.row.State != store.JobWaiting {
		j.row.State = store.JobWaiting
		j.saveJob(context.Background())
	}
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
