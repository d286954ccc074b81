package supervise

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// ErrUnkillable says that a process survived SIGKILL: it hangs in the kernel. Its owner goroutine stays behind and reaps it if it ever ends.
var ErrUnkillable = errors.New("the process does not die")

// Ladder bounds the steps of a stop. Zero takes the default.
type Ladder struct {
	Grace time.Duration // after the stop command: finish the step, checkpoint; 20 s
	Term  time.Duration // after SIGTERM; 3 s
	Kill  time.Duration // after SIGKILL; 5 s
}

func (l Ladder) withDefaults() Ladder {
	if l.Grace <= 0 {
		l.Grace = 20 * time.Second
	}
	if l.Term <= 0 {
		l.Term = 3 * time.Second
	}
	if l.Kill <= 0 {
		l.Kill = 5 * time.Second
	}
	return l
}

// Stop asks the child to finish, then insists: the stop command, SIGTERM to the group, SIGKILL. When hurry is closed it goes straight to
// SIGKILL, without BeforeKill. It returns when the child is gone, or ErrUnkillable.
func (c *Child) Stop(l Ladder, hurry <-chan struct{}) error {
	l = l.withDefaults()
	c.mu.Lock()
	c.exit.Asked = true
	c.mu.Unlock()
	// A failure to send is no news here: the next steps follow in any case.
	_ = c.sendWithin(event.Command{Type: event.CommandStop}, min(l.Grace, time.Second))
	if c.goneWithin(l.Grace, hurry) {
		return nil
	}
	return c.end(l, hurry)
}

// End makes a child that can't be asked end: SIGTERM, SIGKILL. It returns when the child is gone, or ErrUnkillable.
func (c *Child) End(l Ladder, hurry <-chan struct{}) error { return c.end(l.withDefaults(), hurry) }

func (c *Child) end(l Ladder, hurry <-chan struct{}) error {
	c.mu.Lock()
	c.exit.Forced = true
	c.mu.Unlock()
	select {
	case <-hurry:
	default:
		c.announce()
		c.signal(syscall.SIGTERM)
		c.signal(syscall.SIGCONT) // a stopped process would keep the other one pending
		if c.goneWithin(l.Term, hurry) {
			return nil
		}
	}
	c.signal(syscall.SIGKILL)
	// Once dead, draining its pipes and reaping it are bounded.
	if c.goneWithin(l.Kill+c.patience, nil) {
		return nil
	}
	return fmt.Errorf("process %d: %w", c.PID(), ErrUnkillable)
}

// Condemn kills the child at once for a cause that its Exit then has.
func (c *Child) Condemn(cause, message string) {
	c.mu.Lock()
	if c.exit.Cause == "" {
		c.exit.Cause, c.exit.Message = cause, message
	}
	c.exit.Forced = true
	c.mu.Unlock()
	c.announce()
	c.signal(syscall.SIGKILL)
}

// Blame records why the child is about to be ended, for its Exit; the first cause stays.
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
