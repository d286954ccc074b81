package supervise

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// own is the owner's goroutine: both pipes are drained, then the process is reaped.
func (c *Child) own(stdout, stderr *os.File) {
	kills := NewKillMeter()
	var readers sync.WaitGroup
	readers.Go(func() { c.readEvents(stdout) })
	readers.Go(func() { c.log.drain(stderr) })
	readers.Go(func() { c.watch(kills) })
	AwaitEnd(c.PID())
	kernelKills := kills.Rise()
	close(c.ended)
	// The zombie still holds the group's number, so that the signal can only meet what the child left behind.
	c.signal(syscall.SIGKILL)
	limit := time.Now().Add(min(c.patience, drainLimit))
	stdout.SetReadDeadline(limit)
	stderr.SetReadDeadline(limit)
	for _, id := range c.kin.end(c.announce) {
		c.warn(fmt.Sprintf("process %d, which process %d had started, does not die and keeps its memory", id.PID, c.PID()))
	}
	readers.Wait()
	stdout.Close()
	stderr.Close()
	c.stdin.Close()

	c.mu.Lock()
	c.cmd.Wait() // its error is in ProcessState
	c.reaped = true
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	c.exit.Code = c.cmd.ProcessState.ExitCode()
	if status.Signaled() {
		c.exit.Signal = status.Signal()
	}
	c.exit.Tail = c.log.Tail()
	c.exit.KernelKills = kernelKills
	c.mu.Unlock()
	c.log.Close()
	c.kin.forget()
	close(c.done)
}

// AwaitEnd returns when a child of this process has ended, and leaves it to be reaped, so that its number stays its
// own.
func AwaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// owned tells whether the child's pid is still its own.
func (c *Child) owned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.reaped
}

// signal sends to the whole group, never to a number that may have been given to someone else.
func (c *Child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		syscall.Kill(-c.PID(), s)
	}
}
