package job

import (
	"context"

	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// headroom is the memory that a job may need beyond its samples: peaks between two samples, and the driver's own
// memory.
const headroom = 1.1

// remembered is what the command was seen to need before, on any kind of GPU that is here; 0 where it never ran with so
// much.
func (j *Job) remembered(ctx context.Context, onCPU bool, next *retry.Setting) (most int64) {
	look := j.devices.Look
	if onCPU {
		look = hostMemory
	}
	list, err := look(ctx)
	if err != nil {
		j.s.Logger.Debug("what the command needs is taken for unknown", "error", err)
	}
	seen := map[string]bool{}
	for _, device := range list {
		kind := device.Name
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
			most = max(most, withHeadroom(e.bytes, device.Total))
		}
	}
	return most
}

// withHeadroom is what to claim for a peak that was seen where there is so much memory. It leaves what the driver keeps
// for itself: a command that took nearly all of a GPU must not be said to need more than there is.
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
func (j *Job) experience(ctx context.Context, kind string) (e experience) {
	if j.o.Forget {
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
