package attempt

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

const (
	settle     = 500 * time.Millisecond // time for workers to end after the command has
	termLimit  = 2 * time.Second        // from SIGTERM to SIGKILL, for remaining processes
	killLimit  = 5 * time.Second        // time for the kernel to end killed processes
	drainLimit = 2 * time.Second
)

// Signal passes a signal on to the command's whole group. A signal that tells the command to end marks the attempt as
// stopped.
func (p *Process) Signal(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v does not exist on this system", s)
	}
	asksToEnd := slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL}, number)
	if asksToEnd {
		p.stop()
	}
	err := p.group(number)
	if err == nil && asksToEnd && number != syscall.SIGKILL {
		err = p.group(syscall.SIGCONT) // a stopped process would not act on the other signal
	}
	return err
}

// Stop ends the command: SIGTERM to its group and, after Grace, SIGKILL to the remaining processes. It returns when
// all of them are gone and their output is passed on. It returns supervise.ErrUnkillable if a process hangs in the
// kernel.
func (p *Process) Stop() error {
	p.stop()
	p.asked()
	_ = p.group(syscall.SIGTERM) // fails if the group is gone
	_ = p.group(syscall.SIGCONT) // a stopped process would not act on the other signal
	if p.doneWithin(p.grace) {
		return nil
	}
	return p.Kill()
}

// Kill ends the command and its processes at once. See Stop.
func (p *Process) Kill() error {
	p.stop()
	p.asked()
	p.hurry()
	p.tree.look() // after the command's end its descendants can't be found
	_ = p.group(syscall.SIGKILL)
	signalAll(p.tree.others(), syscall.SIGKILL)
	if p.doneWithin(killLimit + killLimit + drainLimit) {
		return nil
	}
	return fmt.Errorf("process %d: %w", p.PID(), supervise.ErrUnkillable)
}

func (p *Process) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended: // ended without Stop
	default:
		p.out.Stopped = true
	}
}

// group signals the command's group, and never a reused process id.
func (p *Process) group(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return fmt.Errorf("signal %s: %w", s, os.ErrProcessDone)
	}
	if err := syscall.Kill(-p.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", s, err)
	}
	return nil
}

func (p *Process) doneWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
	}
	return false
}

// endLeft ends the command's remaining processes. It returns the pids of the processes that it had to signal.
func (p *Process) endLeft() (ended []int) {
	left := p.tree.goneBy(time.Now().Add(settle), p.rush)
	if len(left) == 0 {
		return nil
	}
	if !p.wasAsked() {
		p.warn(fmt.Sprintf("the command ended but left %s, which may hold memory; stopping them within %s. Try: run it in the foreground",
			names(left), p.grace))
		left = p.tree.goneBy(time.Now().Add(p.grace), p.asks)
	}
	if len(left) > 0 {
		ended = pids(left)
		signalAll(left, syscall.SIGTERM)
		signalAll(left, syscall.SIGCONT)
		left = p.tree.goneBy(time.Now().Add(termLimit), p.rush)
	}
	for limit := time.Now().Add(killLimit); len(left) > 0 && time.Now().Before(limit); {
		for _, pid := range pids(left) { // also processes that a dying process has just started
			if !slices.Contains(ended, pid) {
				ended = append(ended, pid)
			}
		}
		signalAll(left, syscall.SIGKILL)
		left = p.tree.goneBy(time.Now().Add(5*poll), nil)
	}
	if len(left) > 0 {
		p.warn(fmt.Sprintf("%s cannot be killed and still holds its memory", names(left)))
	}
	return ended
}

func (p *Process) wasAsked() bool {
	select {
	case <-p.asks:
		return true
	default:
		return false
	}
}
