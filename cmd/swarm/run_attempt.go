package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// attempt starts the command once and waits for its end.
func (j *job) attempt(ctx context.Context, setting retry.Setting, why string) (attempt.Outcome, error) {
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
		said = "" // with the shortage before it
	}
	j.say("attempt %d on %s%s", row.Attempt, j.roomText(), settingText(setting, said))
	spec := attempt.Spec{
		Path: j.places.program, Args: args, Dir: j.dir, Stdin: j.input(),
		Env:    attempt.Unbuffered(attempt.Environment(os.Environ(), attempt.Device{CPU: setting.OnCPU, Index: j.claim.Index, UUID: setting.GPU}, env...)),
		Stdout: j.stdout, Stderr: j.stderr, Grace: j.o.grace,
		Sampled: func(u attempt.Usage) { j.sampled(u) }, Warn: func(line string) { j.say("%s", line) },
	}
	spec.Together = j.together
	if j.o.output == "json" {
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
	if err := j.ticket.Adjust(j.claim.Bytes, []int{p.PID()}); err != nil { // should we be killed, it is found by this
		j.g.logger.Debug("queue", "error", err)
	}
	j.row.State = store.JobRunning
	j.saveJob(ctx) // with ctx: a database that is held up must not keep a Ctrl-C from the command
	j.saveAttempt(ctx, row)
	if err := j.await(ctx, p); err != nil {
		j.finish(row, attempt.Outcome{ExitCode: fail.ExitFailed, Stopped: true}, err.Error())
		return attempt.Outcome{}, err
	}
	outcome := p.Wait()
	j.finish(row, outcome, "")
	return outcome, nil
}

// await returns when the command has ended, and ends it where the user wants that. Its error is that of a process that can't be ended.
func (j *job) await(ctx context.Context, p *attempt.Process) error {
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
	timer := time.NewTimer(j.o.grace)
	defer timer.Stop()
	select {
	case <-p.Done():
		return nil
	case <-j.interrupts.Now:
		j.say("ending the command at once")
	case <-timer.C:
		j.say("the command has not ended within %s: it is killed", j.o.grace)
	}
	return p.Kill()
}

// gpuMemory is what the command's processes hold of its GPU.
func (j *job) gpuMemory(pids []int) (int64, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), sampleLimit)
	defer cancel()
	j.pids = pids
	return j.rooms.used(ctx, j.claim.GPU, pids, j.before, j.claim.Exclusive)
}

// sampled tells the others of the queue what of the claim is in use.
func (j *job) sampled(u attempt.Usage) {
	if j.onCPU() || len(j.pids) == 0 {
		return
	}
	bytes := j.claim.Bytes
	if !j.claim.Exclusive {
		bytes = max(bytes, u.GPUBytes)
	}
	if err := j.ticket.Adjust(bytes, j.pids); err != nil {
		j.g.logger.Debug("queue", "error", err)
	}
}

// newAttempt is the row of an attempt that is about to begin.
func (j *job) newAttempt(ctx context.Context, s retry.Setting, why string, values map[string]string) store.JobAttempt {
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
	list, _ := j.rooms.look(ctx) // what can't be read isn't recorded
	for _, room := range list {
		if room.GPU == s.GPU {
			row.GPUTotal, j.free, j.before = room.Total, room.Free, room.Total-room.Free
		}
	}
	return row
}

// finish writes what became of an attempt.
func (j *job) finish(row store.JobAttempt, o attempt.Outcome, message string) {
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

func (j *job) saveAttempt(ctx context.Context, row store.JobAttempt) {
	if j.record(ctx, func(ctx context.Context) error { return j.store.SaveAttempt(ctx, row) }) {
		delete(j.unsaved, row.Attempt)
		return
	}
	if j.unsaved == nil {
		j.unsaved = map[int]store.JobAttempt{}
	}
	j.unsaved[row.Attempt] = row
}

// shortageText is a shortage in numbers.
func shortageText(s shortage.Report) string {
	parts := []string{"the GPU's, says " + string(s.Kind)}
	switch {
	case s.Kind == shortage.HostKilled:
		parts[0] = "the host's: its processes were killed"
	case s.Kind == shortage.HostAllocation:
		parts[0] = "the host's"
	case s.OnHost:
		parts[0] = "the host's, says " + string(s.Kind)
	}
	for _, n := range []struct {
		what  string
		bytes int64
	}{{"asked for", s.Asked}, {"free", s.Free}, {"of", s.Total}} {
		if n.bytes > 0 {
			parts = append(parts, n.what+" "+units.Bytes(n.bytes))
		}
	}
	return strings.Join(parts, ", ")
}
