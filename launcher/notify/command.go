package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// shellCommand is a user's command, bounded in time.
type shellCommand struct {
	text    string
	environ []string
	limit   time.Duration
	grace   time.Duration // between SIGTERM and SIGKILL
}

// textVariable holds the text until the shell has it.
const textVariable = "_SWARM_ON_COMPLETE"

// run runs the command to its end, its output copied to out. When the limit is over, or ctx ends, all of it gets
// SIGTERM and after the grace SIGKILL. It has a session of its own and no terminal, so that what asks for a password
// fails instead of waiting for it.
func (s shellCommand) run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("it took longer than %s", s.limit))
	defer cancel()
	// Others can read a process's arguments, and the text may hold secrets: it comes in the environment, and is taken
	// out of that.
	cmd := exec.Command("/bin/sh", "-c", `_swarm_text=$`+textVariable+`; unset `+textVariable+`; eval "$_swarm_text"`)
	s.environ = append(s.environ[:len(s.environ):len(s.environ)], textVariable+"="+s.text)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.environ, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second // what it left running in the background may keep the output open
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return endOf(err)
	case <-ctx.Done():
	}
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, s.grace}, {syscall.SIGKILL, 5 * time.Second}} {
		_ = syscall.Kill(-cmd.Process.Pid, step.signal) // it may have ended
		timer := time.NewTimer(step.wait)
		select {
		case <-done:
			timer.Stop()
			// What was in its group and ignored SIGTERM outlives the shell.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
	return errors.Join(context.Cause(ctx), fmt.Errorf("process %d does not die", cmd.Process.Pid))
}

// endOf is the error of a command's Wait; output that was kept open after its end is none.
func endOf(err error) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}
