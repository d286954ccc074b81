package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// Wait configures how long to wait for a GPU with enough free memory, as in guide 3.
type Wait struct {
	Limit    time.Duration // 0: do not wait
	Interval time.Duration // between two looks at the host
}

// Check rejects invalid durations.
func (w *Wait) Check() error {
	if w.Limit < 0 {
		return &configs.Error{Key: "wait-for-gpu", Value: w.Limit.String(), Allowed: "a time such as 60m, or 0 not to wait"}
	}
	if w.Interval <= 0 {
		return &configs.Error{Key: "gpu-check-interval", Value: w.Interval.String(), Allowed: "a time above 0, such as 30s"}
	}
	return nil
}

// Look inspects this host and returns what to plan and the request for the plan.
type Look func(context.Context) (Planned, fit.Request, error)

// forGPU inspects the host until the nodes fit on its GPUs, then plans. It waits only for memory that others use at
// the moment: a plan that would not fit on empty GPUs fails at once. After the time limit it returns the last
// shortage as an error, or a plan for the CPU if cpu_fallback allows it. A plan comes with a turn that keeps this
// user's other waiting processes from the same memory. The caller releases the turn when its nodes have loaded.
func (w *Wait) forGPU(ctx context.Context, stderr io.Writer, look Look) (Planned, error) {
	progress := screen.NewStatusLine(stderr, 0)
	defer progress.End()
	for began := time.Now(); ; {
		out, request, err := w.try(ctx, look)
		if !errors.Is(err, fit.ErrDoesNotFit) {
			return out, err
		}
		left := w.Limit - time.Since(began)
		if _, never := fit.New(WhenFree(request)); never != nil || left <= 0 {
			if request.CPUFallback {
				out.Plan, err = fit.New(request)
			} else if never != nil {
				err = never
			} else {
				err = w.tooLong(err)
			}
			return out, err
		}
		progress.Say(waitingText(request.GPUs, left))
		timer := time.NewTimer(min(w.Interval, left))
		select {
		case <-ctx.Done():
			timer.Stop()
			return out, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// try looks and plans once. It keeps the turn if the plan fits.
func (w *Wait) try(ctx context.Context, look Look) (Planned, fit.Request, error) {
	turn, err := TakeTurn()
	busy := errors.Is(err, errTurnTaken)
	if err != nil && !busy {
		return Planned{}, fit.Request{}, err
	}
	out, request, err := look(ctx)
	if err == nil && busy {
		err = fmt.Errorf("%w: another swarm on this host is loading its nodes. Try: the same command again", fit.ErrDoesNotFit)
	}
	if err == nil {
		out.Plan, err = fit.New(onGPU(request))
	}
	if err != nil {
		turn.Release()
		return out, request, err
	}
	out.Turn = turn
	return out, request, nil
}

// tooLong returns the error after the time limit.
func (w *Wait) tooLong(last error) error {
	what, try, _ := strings.Cut(strings.TrimPrefix(last.Error(), fit.ErrDoesNotFit.Error()+": "), ". Try: ")
	try = strings.TrimPrefix(strings.ReplaceAll(try, "--wait-for-gpu 60m, ", ""), "or ")
	return fmt.Errorf("%w: waited %s for a GPU: %s. Try: a longer --wait-for-gpu, or %s", fit.ErrDoesNotFit, w.Limit, what, try)
}

// onGPU restricts a request to GPUs, unless it is for the CPU or a hypothetical GPU.
func onGPU(r fit.Request) fit.Request {
	if r.Device == fit.DeviceCPU || r.GPUMemory > 0 {
		return r
	}
	r.Device, r.CPUFallback = fit.DeviceCUDA, false
	return r
}

// WhenFree returns the request as if no other process used the GPUs.
func WhenFree(r fit.Request) fit.Request {
	r = onGPU(r)
	r.GPUs = slices.Clone(r.GPUs)
	for i := range r.GPUs {
		r.GPUs[i].MemoryFree = r.GPUs[i].MemoryTotal
		if r.GPUs[i].Unified {
			r.Memory = r.GPUs[i].MemoryTotal
		}
	}
	return r
}

func waitingText(gpus []fit.GPU, left time.Duration) string {
	var free []string
	for _, g := range gpus {
		free = append(free, fmt.Sprintf("GPU %d has %s free of %s", g.Index, units.Bytes(g.MemoryFree), units.Bytes(g.MemoryTotal)))
	}
	if free == nil {
		free = []string{"no GPU is visible"}
	}
	return fmt.Sprintf("Waiting for a GPU, for up to %s more: %s.", left.Round(time.Second), strings.Join(free, ", "))
}
