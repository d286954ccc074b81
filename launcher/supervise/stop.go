package supervise

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/node/protocol"
)

// ErrUnkillable reports that a process survived SIGKILL because it hangs in the kernel. Its owner goroutine
// remains, and reaps the process if it ends later.
var ErrUnkillable = errors.New("the process cannot be killed")

// Ladder bounds the steps of a stop. Zero values mean the defaults. The total duration of a stop is the sum of
// these values and drainLimit, plus AnnounceLimit with a BeforeKill.
type Ladder struct {
	Grace time.Duration // after the stop command, to finish the step and write a checkpoint; default 17 s
	Term  time.Duration // after SIGTERM and the end of stdin; default 2 s
	Kill  time.Duration // after SIGKILL; default 1 s
}

const (
	killLimit = time.Second
	// after SIGKILL outside of a run's stop: a busy disk queue may hold a process this long
	endLimit = 30 * time.Second
)

func (l Ladder) withDefaults() Ladder {
	if l.Grace <= 0 {
		l.Grace = 17 * time.Second
	}
	if l.Term <= 0 {
		l.Term = 2 * time.Second
	}
	if l.Kill <= 0 {
		l.Kill = killLimit
	}
	return l
}

// Limit returns the maximum duration of Stop. announced means that there is a BeforeKill.
func (l Ladder) Limit(announced bool) time.Duration {
	l = l.withDefaults()
	sum := l.Grace + l.Term + l.Kill + drainLimit
	if announced {
		sum += AnnounceLimit
	}
	return sum
}

// Stop ends the child in steps: the stop command, then SIGTERM to the group and the end of its stdin, then SIGKILL.
// When hurry is closed, it skips to SIGKILL without BeforeKill. It returns when the child has ended, or
// ErrUnkillable.
func (c *Child) Stop(l Ladder, hurry <-chan struct{}) error {
	l = l.withDefaults()
	begin := time.Now()
	c.mu.Lock()
	c.exit.Asked = true
	c.mu.Unlock()
	// Ignore a failure to send: the next steps follow anyway.
	_ = c.sendWithin(protocol.Command{Type: protocol.CommandStop}, min(l.Grace, time.Second))
	if c.goneWithin(l.Grace-time.Since(begin), hurry) {
		return nil
	}
	c.insist(l.Term, hurry)
	return c.killed(l.Kill, nil)
}

// End ends a child that cannot handle a stop command: SIGTERM and the end of its stdin, then SIGKILL. It returns
// when the child has ended, or ErrUnkillable after half a minute. Once ctx has ended, it returns as soon as Stop
// would.
func (c *Child) End(ctx context.Context, l Ladder, hurry <-chan struct{}) error {
	l = l.withDefaults()
	c.insist(l.Term, hurry)
	if err := c.killed(max(l.Kill, endLimit), ctx.Done()); err == nil || ctx.Err() == nil {
		return err
	}
	return c.killed(l.Kill, nil)
}

// insist sends SIGTERM and closes stdin, and later sends SIGKILL.
func (c *Child) insist(term time.Duration, hurry <-chan struct{}) {
	c.mu.Lock()
	c.exit.Forced = true
	c.mu.Unlock()
	c.detached.look(c.PID()) // after its end, its children can no longer be found
	select {
	case <-hurry:
	default:
		c.announce()
		c.signal(syscall.SIGTERM)
		c.signal(syscall.SIGCONT) // in a suspended process, SIGTERM would stay pending
		c.stdin.Close()
		if c.goneWithin(term, hurry) {
			return
		}
	}
	c.signal(syscall.SIGKILL)
}

// killed waits for the end of a child after SIGKILL. Draining its pipes, ending its detached processes and reaping it
// take a bounded time.
func (c *Child) killed(limit time.Duration, cut <-chan struct{}) error {
	if c.goneWithin(limit+drainLimit, cut) {
		return nil
	}
	return fmt.Errorf("process %d: %w", c.PID(), ErrUnkillable)
}

// Condemn kills the child at once and records the cause for its Exit.
func (c *Child) Condemn(cause, message string) {
	c.mu.Lock()
	if c.exit.Cause == "" {
		c.exit.Cause, c.exit.Message = cause, message
	}
	c.exit.Forced = true
	if !c.doomed {
		c.doomed = true
		close(c.doom)
	}
	c.mu.Unlock()
	c.detached.look(c.PID())
	c.announce()
	c.signal(syscall.SIGKILL)
}

// Blame records for the Exit why the child is about to be ended. The first cause stays.
func (c *Child) Blame(cause, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exit.Cause == "" {
		c.exit.Cause, c.exit.Message = cause, message
	}
}

func (c *Child) goneWithin(limit time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-hurry:
	case <-timer.C:
	}
	return false
}
