package study

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/screen"
)

// Times of the escalation if a run continues after the sweep was told to stop. childTerm is longer than an orderly
// stop may take. SIGTERM then reaches a run that never got the stop, and one that hangs.
const (
	childTerm = 26 * time.Second // until SIGTERM
	childKill = 15 * time.Second // until SIGKILL
)

// UpArguments returns the arguments of swarm up for a source and a seed. nodes = 0 lets up decide. passed are the
// user's flags.
func UpArguments(home layout.Home, source Source, seed int64, nodes int, passed []string, asJSON bool) []string {
	// --config is a list in CSV, in which quotes keep a name with commas together.
	config := `"` + strings.ReplaceAll(source.Config, `"`, `""`) + `"`
	args := append([]string{"up", "--home=" + string(home), "--config=" + config, "--seed=" + strconv.FormatInt(seed, 10)}, source.flags()...)
	args = append(args, passed...) // later flags take precedence
	if nodes > 0 {
		args = append(args, "--nodes="+strconv.Itoa(nodes)) // auto is resolved once for all runs
	}
	if asJSON {
		args = append(args, "--output=json")
	}
	return args
}

// child is a run of the sweep: swarm up in a process of its own.
type child struct {
	cmd      *exec.Cmd
	terminal bool // it had a terminal when it started
}

// startChild starts swarm up with this process's terminal and process group.
func startChild(h Host, args []string, quiet bool) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	c := &child{cmd: exec.Command(exe, args...), terminal: foreground() != 0}
	c.cmd.Args[0] = os.Args[0]
	c.cmd.Env = append(os.Environ(), h.Began)
	if stdin, ok := h.Stdin.(*os.File); ok {
		c.cmd.Stdin = stdin
	}
	_ = screen.Flush(h.Stdout, h.Stderr) // the run writes to the same files
	c.cmd.Stdout, c.cmd.Stderr = screen.Stream(h.Stdout), screen.Stream(h.Stderr)
	if quiet {
		c.cmd.Stdout = io.Discard
	}
	c.cmd.WaitDelay = 5 * time.Second
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start swarm up: %w", err)
	}
	return c, nil
}

// Signals returns the channel of signals that a sweep passes on to its run. It collects signals from the start, so
// that none is lost between two runs.
func Signals() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 8)
	wanted := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		wanted = append(wanted, syscall.SIGHUP)
	}
	signal.Notify(signals, wanted...)
	return signals, func() { signal.Stop(signals) }
}

// wait waits for the run's end and delivers each signal once. Signals from the keyboard and from a closed terminal
// reach the run directly. wait returns the exit code. For a killed process that is fail.ExitFailed, and why names
// the signal.
func (c *child) wait(signals <-chan os.Signal) (code int, why string) {
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	var limit <-chan time.Time
	next := syscall.SIGTERM
	for {
		select {
		case err := <-done:
			return c.verdict(err)
		case s := <-signals:
			if !c.reached(s.(syscall.Signal)) {
				_ = c.cmd.Process.Signal(s) // it may just have ended
			}
			if limit == nil {
				limit = time.After(childTerm)
			}
		case <-limit:
			_ = c.cmd.Process.Signal(next)
			limit, next = time.After(childKill), syscall.SIGKILL
		}
	}
}

func (c *child) verdict(err error) (code int, why string) {
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return c.cmd.ProcessState.ExitCode(), ""
	case !errors.As(err, &exit):
		return fail.ExitFailed, err.Error()
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fail.ExitFailed, "its process was killed by " + unix.SignalName(status.Signal())
	}
	return exit.ExitCode(), ""
}

// reached reports whether the terminal sent a signal to the run as well as to the sweep.
func (c *child) reached(s syscall.Signal) bool {
	switch s {
	case syscall.SIGINT:
		return foreground() == unix.Getpgrp()
	case syscall.SIGHUP:
		return c.terminal
	}
	return false
}

// foreground returns the process group that gets the keyboard signals of this process's terminal, or 0 without a
// terminal.
func foreground() int {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return 0
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}
