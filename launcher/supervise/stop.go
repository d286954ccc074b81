package supervise

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/node/protocol"
)

// ErrUnkillable says that a process survived SIGKILL: it hangs in the kernel. Its owner goroutine stays behind and
// reaps it if it ever ends.
var ErrUnkillable = errors.New("the process does not die")

// Ladder bounds the steps of a stop. Zero takes the default. All in all a stop takes the sum of these, of drainLimit,
// and of AnnounceLimit where there is a BeforeKill.
type Ladder struct {
	Grace time.Duration // from the stop command on: finish the step, checkpoint; 17 s
	Term  time.Duration // after SIGTERM and the end of stdin; 2 s
	Kill  time.Duration // after SIGKILL; 1 s
}

const (
	killLimit = time.Second
	endLimit  = 30 * time.Second // after SIGKILL, where nobody waits for the whole to stop: a full disk queue may hold a process as long
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

// Limit is the longest that Stop takes; announced says that there is a BeforeKill.
func (l Ladder) Limit(announced bool) time.Duration {
	l = l.withDefaults()
	sum := l.Grace + l.Term + l.Kill + drainLimit
	if announced {
		sum += AnnounceLimit
	}
	return sum
}

// Stop asks the child to finish, then insists: the stop command; SIGTERM to the group, and the end of its stdin;
// SIGKILL. When hurry is closed it goes straight to SIGKILL, without BeforeKill. It returns when the child is gone, or
// ErrUnkillable.
func (c *Child) Stop(l Ladder, hurry <-chan struct{}) error {
	l = l.withDefaults()
	begin := time.Now()
	c.mu.Lock()
	c.exit.Asked = true
	c.mu.Unlock()
	// A failure to send is no news here: the next steps follow in any case.
	_ = c.sendWithin(protocol.Command{Type: protocol.CommandStop}, min(l.Grace, time.Second))
	if c.goneWithin(l.Grace-time.Since(begin), hurry) {
		return nil
	}
	c.insist(l.Term, hurry)
	return c.killed(l.Kill, nil)
}

// End makes a child end that can't be asked: SIGTERM and the end of its stdin, SIGKILL. It returns when the child is
// gone, or ErrUnkillable: after half a minute or, once ctx has ended, as soon as Stop would.
func (c *Child) End(ctx context.Context, l Ladder, hurry <-chan struct{}) error {
	l = l.withDefaults()
	c.insist(l.Term, hurry)
	if err := c.killed(max(l.Kill, endLimit), ctx.Done()); err == nil || ctx.Err() == nil {
		return err
	}
	return c.killed(l.Kill, nil)
}

// insist does what a process that listens to anything ends by, and then kills it.
func (c *Child) insist(term time.Duration, hurry <-chan struct{}) {
	c.mu.Lock()
	c.exit.Forced = true
	c.mu.Unlock()
	c.kin.look(c.PID()) // once it is gone nobody can tell what it had started
	select {
	case <-hurry:
	default:
		c.announce()
		c.signal(syscall.SIGTERM)
		c.signal(syscall.SIGCONT) // a stopped process would keep the other one pending
		c.stdin.Close()
		if c.goneWithin(term, hurry) {
			return
		}
	}
	c.signal(syscall.SIGKILL)
}

// killed waits for the end of a child that was sent SIGKILL; once it is dead, draining its pipes, ending its kin and
// reaping it are bounded.
func (c *Child) killed(limit time.Duration, cut <-chan struct{}) error {
	if c.goneWithin(limit+drainLimit, cut) {
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
	if !c.doomed {
		c.doomed = true
		close(c.doom)
	}
	c.mu.Unlock()
	c.kin.look(c.PID())
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
