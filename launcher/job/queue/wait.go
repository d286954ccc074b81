package queue

import (
	"context"
	"fmt"
	"time"
)

const (
	wakePoll  = 200 * time.Millisecond // between checks whether another ticket has returned memory
	wakeFirst = 16                     // positions that a change wakes; later tickets look at their interval
)

// Wait tries at every interval, and soon after another ticket has returned memory, until it takes a device. The
// function report, which may be nil, receives the first verdict and each later one with a different text. The
// function look describes the GPUs. After timeout, Wait tries once more and returns ErrTimeout with the last verdict
// in the text. With a timeout of 0 it tries once. A need that no GPU can ever meet is ErrTimeout at once. If ctx
// ends, Wait returns the cause of ctx. It retries after an error of look, such as a driver that does not answer, and
// returns that error at the deadline.
func (t *Ticket) Wait(
	ctx context.Context, interval, timeout time.Duration, look func(context.Context) ([]Device, error), report func(Verdict),
) (Claim, error) {
	interval = min(max(interval, wakePoll), intervalLimit)
	until := time.Now().Add(timeout)
	for told := ""; ; {
		if ctx.Err() != nil {
			return Claim{}, context.Cause(ctx)
		}
		seen := t.q.watch() // before the look, so that later changes wake the ticket
		last := !time.Now().Before(until)
		devices, err := look(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return Claim{}, context.Cause(ctx)
			}
			if last {
				return Claim{}, err
			}
			told = reportOnce(Verdict{Need: t.Need(), Blind: err}, told, report)
			t.q.pause(ctx, min(interval, time.Until(until)), seen, false)
			continue
		}
		claim, verdict, err := t.try(devices, interval)
		if err != nil || verdict.Granted {
			return claim, err
		}
		switch {
		case verdict.Never:
			return Claim{}, fmt.Errorf("%w, and none is large enough: it %s. Try: a smaller --memory or --min-gpu-memory, or --cpu fallback",
				ErrTimeout, verdict.needs())
		case last && timeout <= 0:
			return Claim{}, fmt.Errorf("%w: it %s. Try: --wait-for-gpu 60m, %s, or --cpu fallback", ErrTimeout, verdict.needs(), verdict.less())
		case last:
			return Claim{}, fmt.Errorf("%w: after %s it still %s. Try: a longer --wait-for-gpu, or --cpu fallback", ErrTimeout, timeout, verdict)
		}
		told = reportOnce(verdict, told, report)
		t.q.pause(ctx, min(interval, time.Until(until)), seen, verdict.Position <= wakeFirst)
	}
}

// reportOnce reports a verdict unless its text equals told, and returns the text.
func reportOnce(v Verdict, told string, to func(Verdict)) string {
	line := v.String()
	if line != told && to != nil {
		to(v)
	}
	return line
}

// pause waits for the time long, or until ctx ends. If wake is set, it also ends when the number of changes differs
// from seen.
func (q *Queue) pause(ctx context.Context, long time.Duration, seen uint64, wake bool) {
	timer, tick := time.NewTimer(max(0, long)), time.NewTicker(wakePoll)
	defer timer.Stop()
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-tick.C:
			if wake && q.watch() != seen {
				return
			}
		}
	}
}
