package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
)

// first takes the first device: a GPU, or the CPU if that is allowed and no GPU is available.
func (j *Job) first(ctx context.Context) error {
	switch {
	case j.o.CPU == CPUOnly:
		return j.take(ctx, true, "", nil)
	case j.devices.gpus != nil:
		err := j.take(ctx, false, "", nil)
		if !errors.Is(err, fit.ErrDoesNotFit) || j.o.CPU != CPUFallback {
			return err
		}
		what, _ := fail.SplitRemedy(err.Error())
		j.say("on the CPU: %s", what)
	case j.o.CPU != CPUFallback:
		what, _ := fail.SplitRemedy(j.devices.reason)
		return fit.NoRoom(fmt.Errorf("there is no GPU: %s. Try: --cpu fallback to train on the CPU; swarm doctor shows details", what))
	default:
		what, _ := fail.SplitRemedy(j.devices.reason)
		j.say("on the CPU, because there is no GPU: %s", what)
	}
	return j.take(ctx, true, "", nil)
}

// start returns the setting of the first attempt.
func (j *Job) start(ctx context.Context) (setting retry.Setting, why string) {
	asked := j.places.asked
	asked.OnCPU, asked.GPU = j.onCPU(), ""
	kind := ""
	if !asked.OnCPU {
		asked.GPU, kind = j.claim.GPU, j.claim.Name
	}
	e := j.experience(ctx, kind)
	return j.places.policy(j.o).Start(e.fitted, e.short, asked)
}

func (j *Job) onCPU() bool { return j.claim.GPU == queue.CPU }

// next returns the setting to try after a shortage and takes a device for it. It skips GPUs that are not available in
// time.
func (j *Job) next(ctx context.Context, setting retry.Setting, outcome attempt.Outcome) (retry.Setting, string, error) {
	j.history = append(j.history, retry.Outcome{Setting: setting, Shortage: *outcome.Shortage, Free: j.free})
	others, err := j.moveTo(ctx)
	if err != nil { // the current GPU may suffice with a smaller setting
		j.say("other GPUs cannot be read: %v", err)
	}
	var gpus []retry.GPU
	for _, device := range others {
		gpus = append(gpus, retry.GPU{UUID: device.GPU, Name: fmt.Sprintf("GPU %d", device.Index), Free: device.Free})
	}
	for {
		next, why, err := j.places.policy(j.o).Next(j.history, gpus)
		if err != nil || next.OnCPU == setting.OnCPU && next.GPU == setting.GPU {
			return next, why, err
		}
		err = j.take(ctx, next.OnCPU, next.GPU, &next)
		if err == nil || next.OnCPU || ctx.Err() != nil {
			return next, why, err
		}
		what, _ := fail.SplitRemedy(err.Error())
		j.say("not on GPU %s: %s", next.GPU, what)
		gpus = slices.DeleteFunc(gpus, func(g retry.GPU) bool { return g.UUID == next.GPU })
	}
}
