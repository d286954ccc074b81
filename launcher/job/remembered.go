package job

import (
	"context"

	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// headroom is the factor for memory beyond a job's samples: peaks between two samples, and the driver's own memory.
const headroom = 1.1

// remembered returns the bytes that the command needed before, the largest over all kinds of GPU on this host. It
// returns 0 if the command never ran with settings at least as large.
func (j *Job) remembered(ctx context.Context, onCPU bool, next *retry.Setting) (most int64) {
	look := j.devices.Look
	if onCPU {
		look = hostMemory
	}
	list, err := look(ctx)
	if err != nil {
		j.s.Logger.Debug("the command's memory need is treated as unknown", "error", err)
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

// withHeadroom returns the bytes to claim for an earlier peak on a device of total bytes. The driver keeps some
// memory, so the claim must not exceed the device for a command that used nearly all of it.
func withHeadroom(peak, total int64) int64 {
	return max(peak, min(int64(headroom*float64(peak)), total-total/20))
}

// experience is the result of earlier jobs of the same command on a kind of GPU ("" for the CPU).
type experience struct {
	fitted *retry.Setting  // last setting that fitted; nil: none
	short  []retry.Setting // settings that ran out of memory
	bytes  int64           // peak of the attempts like fitted; 0: not measured
}

// experience queries the database. An unreadable database is not an error: the job then starts without experience.
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
		j.say("earlier settings that fitted are unknown: %v", err)
	}
	return e
}

func settingOf(a store.JobAttempt) retry.Setting {
	return retry.Setting{BatchSize: a.BatchSize, Accumulate: a.Accumulate, GradientCheckpointing: a.GradientCheckpointing, Offload: a.Offload}
}
