package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// attempt starts the command once and waits for its end.
func (j *Job) attempt(ctx context.Context, setting retry.Setting, why string) (attempt.Outcome, error) {
	values := j.places.values(setting, j.claim.Index)
	args, err := j.places.command.Expand(values)
	if err != nil {
		return attempt.Outcome{}, err
	}
	env, err := j.places.env.Expand(values)
	if err != nil {
		return attempt.Outcome{}, err
	}
	if j.loan != nil {
		changes, err := j.places.changes(values)
		if err != nil {
			return attempt.Outcome{}, err
		}
		if err := j.loan.Set(changes); err != nil {
			return attempt.Outcome{}, err
		}
	}
	row := j.newAttempt(ctx, setting, why, values)
	said := why
	if row.Attempt > 1 {
		said = "" // the shortage message has it
	}
	j.say("attempt %d on %s%s", row.Attempt, j.deviceText(), settingText(setting, said))
	spec := attempt.Spec{
		Path: j.places.program, Args: args, Dir: j.dir, Stdin: j.input(),
		Env:    attempt.Unbuffered(attempt.Environment(j.s.Environ, attempt.Device{CPU: setting.OnCPU, Index: j.claim.Index, UUID: setting.GPU}, env...)),
		Stdout: j.stdout, Stderr: j.stderr, Grace: j.o.Grace,
		Sampled: func(u attempt.Usage) { j.sampled(u) }, Warn: func(line string) { j.say("%s", line) },
	}
	spec.Together = j.together
	if j.s.Report != nil {
		spec.Stdout, spec.Together = j.stderr, true
	}
	if j.log != nil {
		spec.Log = j.logged
	}
	if !setting.OnCPU {
		spec.GPUMemory = j.gpuMemory
	}
	p, err := attempt.Start(spec)
	if err != nil {
		j.finish(row, attempt.Outcome{ExitCode: fail.ExitFailed}, err.Error())
		return attempt.Outcome{}, err
	}
	if err := j.ticket.Adjust(j.claim.Bytes, []int{p.PID()}); err != nil { // finds the process if swarm run is killed
		j.s.Logger.Debug("queue", "error", err)
	}
	j.row.State = store.JobRunning
	j.saveJob(ctx) // with ctx: a blocked database must not keep a Ctrl-C from the command
	j.saveAttempt(ctx, row)
	if err := j.await(ctx, p); err != nil {
		j.finish(row, attempt.Outcome{ExitCode: fail.ExitFailed, Stopped: true}, err.Error())
		return attempt.Outcome{}, err
	}
	outcome := p.Wait()
	j.finish(row, outcome, "")
	return outcome, nil
}

// await returns when the command has ended, and ends it if ctx ends. It returns an error if the process can't be
// killed.
func (j *Job) await(ctx context.Context, p *attempt.Process) error {
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
	}
	var stopped *interrupt.Error
	if errors.As(context.Cause(ctx), &stopped) {
		_ = p.Signal(stopped.Signal) // it may just have ended
	} else {
		_ = p.Signal(syscall.SIGTERM)
	}
	timer := time.NewTimer(j.o.Grace)
	defer timer.Stop()
	select {
	case <-p.Done():
		return nil
	case <-j.interrupts.Now:
		j.say("killing the command now")
	case <-timer.C:
		j.say("the command did not end within %s: killing it", j.o.Grace)
	}
	return p.Kill()
}

// gpuMemory returns the bytes that the command's processes hold on its GPU.
func (j *Job) gpuMemory(pids []int) (int64, bool) {
	j.pids = pids
	return j.devices.Used(j.claim.GPU, pids, j.before, j.claim.Exclusive)
}

// sampled records the used part of the claim in the queue.
func (j *Job) sampled(u attempt.Usage) {
	if j.onCPU() || len(j.pids) == 0 {
		return
	}
	bytes := j.claim.Bytes
	if !j.claim.Exclusive {
		bytes = max(bytes, u.GPUBytes)
	}
	if err := j.ticket.Adjust(bytes, j.pids); err != nil {
		j.s.Logger.Debug("queue", "error", err)
	}
}

// newAttempt returns the row of the next attempt.
func (j *Job) newAttempt(ctx context.Context, s retry.Setting, why string, values map[string]string) store.JobAttempt {
	j.attempts++
	text, err := json.Marshal(values)
	if err != nil {
		panic(fmt.Sprintf("values of an attempt: %v", err)) // strings always encode
	}
	row := store.JobAttempt{
		Job: j.row.Job, Attempt: j.attempts, Started: event.Now(), Device: "cuda", GPU: s.GPU, GPUName: j.claim.Name,
		GradientCheckpointing: s.GradientCheckpointing, Offload: s.Offload, Settings: text, Step: why,
	}
	if j.places.has(attempt.BatchSize) {
		row.BatchSize, row.Accumulate = s.BatchSize, max(1, s.Accumulate)
	}
	j.free, j.before = 0, 0
	if s.OnCPU {
		row.Device, row.GPU, row.GPUName = "cpu", "", ""
		return row
	}
	list, _ := j.devices.Look(ctx) // unreadable values are not recorded
	for _, device := range list {
		if device.GPU == s.GPU {
			row.GPUTotal, j.free, j.before = device.Total, device.Free, device.Total-device.Free
		}
	}
	return row
}

// finish records the result of an attempt.
func (j *Job) finish(row store.JobAttempt, o attempt.Outcome, message string) {
	row.Ended, row.Message = event.Now(), message
	row.PeakGPU, row.PeakHost = o.Peak.GPUBytes, o.Peak.HostBytes
	if o.Signal != 0 {
		row.Signal = unix.SignalName(o.Signal)
	} else {
		row.ExitCode = &o.ExitCode
	}
	switch {
	case o.Shortage != nil:
		s := o.Shortage
		row.Cause, row.Message = string(s.Kind), s.Line
		row.Asked, row.Free, row.Allocated = s.Asked, s.Free, s.Allocated
	case o.Stopped:
		row.Cause = store.CauseStopped
	case o.Status() == 0:
		row.Cause = store.CauseSucceeded
	default:
		row.Cause = store.CauseFailed
		if o.Fault != nil {
			row.Message = o.Fault.Line
		}
	}
	j.saveAttempt(context.Background(), row)
}

func (j *Job) saveAttempt(ctx context.Context, row store.JobAttempt) {
	if j.record(ctx, func(ctx context.Context) error { return j.store.SaveAttempt(ctx, row) }) {
		delete(j.unsaved, row.Attempt)
		return
	}
	if j.unsaved == nil {
		j.unsaved = map[int]store.JobAttempt{}
	}
	j.unsaved[row.Attempt] = row
}

// input returns the command's stdin: a pipe or a file of this process, never a terminal, because the command is not
// in the terminal's session.
func (j *Job) input() *os.File {
	file, ok := j.s.Stdin.(*os.File)
	if !ok || j.s.Announce != nil || term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}
