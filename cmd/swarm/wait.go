package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// waitFlags say how long to wait for a GPU with enough free memory, as guide 3 does.
type waitFlags struct {
	limit    time.Duration // 0: don't
	interval time.Duration
}

func (w *waitFlags) add(f *pflag.FlagSet) {
	f.DurationVar(&w.limit, "wait-for-gpu", 0, "wait up to this `time`, such as 60m, until GPUs have enough free memory for the nodes")
	f.DurationVar(&w.interval, "gpu-check-interval", 30*time.Second, "how often to look while waiting for a GPU, a `time` such as 30s")
}

func (w *waitFlags) check() error {
	if w.limit < 0 {
		return &configs.Error{Key: "wait-for-gpu", Value: w.limit.String(), Allowed: "a time such as 60m, or 0 not to wait"}
	}
	if w.interval <= 0 {
		return &configs.Error{Key: "gpu-check-interval", Value: w.interval.String(), Allowed: "a time above 0, such as 30s"}
	}
	return nil
}

// look describes this host and what is to be planned for it.
type look func(context.Context) (planned, fit.Request, error)

// forGPU looks at the host until the nodes fit its GPUs, and plans. It waits only for memory that others use now: what the whole
// GPUs couldn't hold is an error at once. When time is up the error tells what was missing last, or the plan is for the host's CPU
// where cpu_fallback allows it. The turn that comes with a plan keeps other waiting processes of this user from taking the same
// memory; the caller releases it when its nodes have it.
func (w *waitFlags) forGPU(ctx context.Context, stderr io.Writer, look look) (planned, error) {
	progress := screen.NewStatusLine(stderr, 0)
	defer progress.End()
	for began := time.Now(); ; {
		out, request, err := w.try(ctx, look)
		if !errors.Is(err, fit.ErrDoesNotFit) {
			return out, err
		}
		left := w.limit - time.Since(began)
		if _, never := fit.New(whenFree(request)); never != nil || left <= 0 {
			if request.CPUFallback {
				out.plan, err = fit.New(request)
			} else if never != nil {
				err = never
			} else {
				err = w.tooLong(err)
			}
			return out, err
		}
		progress.Say(waitingText(request.GPUs, left))
		timer := time.NewTimer(min(w.interval, left))
		select {
		case <-ctx.Done():
			timer.Stop()
			return out, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// try looks and plans once, and keeps the turn where the plan fits.
func (w *waitFlags) try(ctx context.Context, look look) (planned, fit.Request, error) {
	turn, err := takeTurn()
	busy := errors.Is(err, errTurnTaken)
	if err != nil && !busy {
		return planned{}, fit.Request{}, err
	}
	out, request, err := look(ctx)
	if err == nil && busy {
		err = fmt.Errorf("%w: another swarm on this host is loading its nodes. Try: the same again", fit.ErrDoesNotFit)
	}
	if err == nil {
		out.plan, err = fit.New(onGPU(request))
	}
	if err != nil {
		turn.release()
		return out, request, err
	}
	out.turn = turn
	return out, request, nil
}

// tooLong is the error when time is up.
func (w *waitFlags) tooLong(last error) error {
	what, try, _ := strings.Cut(strings.TrimPrefix(last.Error(), fit.ErrDoesNotFit.Error()+": "), ". Try: ")
	try = strings.TrimPrefix(strings.ReplaceAll(try, "--wait-for-gpu 60m, ", ""), "or ")
	return fmt.Errorf("%w: waited %s for a GPU: %s. Try: a longer --wait-for-gpu, or %s", fit.ErrDoesNotFit, w.limit, what, try)
}

// onGPU is a request that is for GPUs alone, unless it is for the CPU or for a card that isn't there.
func onGPU(r fit.Request) fit.Request {
	if r.Device == fit.DeviceCPU || r.GPUMemory > 0 {
		return r
	}
	r.Device, r.CPUFallback = fit.DeviceCUDA, false
	return r
}

// whenFree is a request to GPUs that nobody else uses.
func whenFree(r fit.Request) fit.Request {
	r = onGPU(r)
	r.GPUs = slices.Clone(r.GPUs)
	for i := range r.GPUs {
		r.GPUs[i].MemoryFree = r.GPUs[i].MemoryTotal
	}
	return r
}

func waitingText(gpus []fit.GPU, left time.Duration) string {
	var free []string
	for _, g := range gpus {
		free = append(free, fmt.Sprintf("GPU %d has %s free of %s", g.Index, units.Bytes(g.MemoryFree), units.Bytes(g.MemoryTotal)))
	}
	if free == nil {
		free = []string{"no GPU is to be seen"}
	}
	return fmt.Sprintf("Waiting for a GPU, for up to %s more: %s.", left.Round(time.Second), strings.Join(free, ", "))
}

// gpuTurn is held by the one process of this user, on this host, that is about to fill GPUs it waited for. The kernel drops it with
// the process.
type gpuTurn struct{ file *os.File }

var errTurnTaken = errors.New("another process is filling GPUs")

// takeTurn takes the turn, or returns errTurnTaken.
func takeTurn() (*gpuTurn, error) {
	path := filepath.Join(os.TempDir(), "swarm-gpu-"+strconv.Itoa(os.Getuid())+".lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fail.Hint(fmt.Errorf("wait for a GPU: %w", err), "another folder in $TMPDIR")
	}
	if err := files.Lock(file); err != nil {
		file.Close()
		if errors.Is(err, files.ErrLocked) {
			return nil, errTurnTaken
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &gpuTurn{file}, nil
}

// release lets others have their turn. It can be called again, and on nil.
func (t *gpuTurn) release() {
	if t != nil {
		t.file.Close()
	}
}
