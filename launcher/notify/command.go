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

// shellCommand is a user's command with a time limit.
type shellCommand struct {
	text    string
	environ []string
	limit   time.Duration
	grace   time.Duration // between SIGTERM and SIGKILL
}

// textVariable passes the text to the shell.
const textVariable = "_SWARM_ON_COMPLETE"

// run runs the command to its end and copies its output to out. When the limit expires or ctx ends, its process
// group gets SIGTERM, and SIGKILL after the grace. The command has a session of its own and no terminal, so that a
// password prompt fails instead of waiting.
func (s shellCommand) run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("it took longer than %s", s.limit))
	defer cancel()
	// Other users can read a process's arguments, and the text may hold secrets. The environment passes the text to
	// the shell, which unsets the variable.
	cmd := exec.Command("/bin/sh", "-c", `_swarm_text=$`+textVariable+`; unset `+textVariable+`; eval "$_swarm_text"`)
	s.environ = append(s.environ[:len(s.environ):len(s.environ)], textVariable+"="+s.text)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.environ, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second // background processes of the command may keep the output open
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
			// Processes in the group that ignored SIGTERM outlive the shell.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
	return errors.Join(context.Cause(ctx), fmt.Errorf("process %d cannot be killed", cmd.Process.Pid))
}

// endOf returns the error of a command's Wait. Output that stays open after the command's end is not an error.
func endOf(err error) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}
