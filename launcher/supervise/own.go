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

// own is the owner's goroutine. It drains both pipes, then reaps the process.
func (c *Child) own(stdout, stderr *os.File) {
	kills := NewKillMeter()
	var readers sync.WaitGroup
	readers.Go(func() { c.readEvents(stdout) })
	readers.Go(func() { c.log.drain(stderr) })
	readers.Go(func() { c.watch(kills) })
	AwaitEnd(c.PID())
	kernelKills := kills.Rise()
	close(c.ended)
	// The zombie still holds the group's id, so the signal can only reach what the child left behind.
	c.signal(syscall.SIGKILL)
	limit := time.Now().Add(min(c.patience, drainLimit))
	stdout.SetReadDeadline(limit)
	stderr.SetReadDeadline(limit)
	for _, id := range c.detached.end(c.announce) {
		c.warn(fmt.Sprintf("process %d, started by process %d, cannot be killed and still holds its memory", id.PID, c.PID()))
	}
	readers.Wait()
	stdout.Close()
	stderr.Close()
	c.stdin.Close()

	c.mu.Lock()
	c.cmd.Wait() // the result is in ProcessState
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
	c.detached.forget()
	close(c.done)
}

// AwaitEnd returns when a child of this process has ended. It does not reap the child, so the pid stays reserved.
func AwaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// owned reports whether the pid still belongs to the child.
func (c *Child) owned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.reaped
}

// signal sends a signal to the whole group, unless the id may belong to another process by now.
func (c *Child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		syscall.Kill(-c.PID(), s)
	}
}
