// Package supervise owns child processes: it starts one in its own process group, reads its events and its log, stops it within
// bounds, says why it ended, and decides whether to start it again. It takes argv, an environment and paths; what the
// processes mean to a swarm is package launcher's. It imports metrics/event only.
package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	sendLimit       = 5 * time.Second // a child that reads nothing for so long is stuck
	defaultPatience = 5 * time.Second
)

// ErrGone is returned by Send when the child has ended or closed its stdin.
var ErrGone = errors.New("the process is gone")

// Process is what to start.
type Process struct {
	Path     string
	Args     []string // without the program's name
	Env      []string // whole environment
	LogPath  string   // stderr is appended here
	LogLimit int64    // bytes before the log is rotated, one old file kept; 0: 32 MiB
	PIDPath  string   // who runs, for SweepOrphans; removed when the child has ended
	// Patience bounds the time between the end of stdout and the process's, and what it takes to read the rest of a dead child's
	// pipes, which others may hold open; 0: 5 s.
	Patience time.Duration
	// BeforeKill, if set, is called before the first signal that ends the child, unless there is no time for it: with the pids of the child
	// and its descendants. It must return within seconds.
	BeforeKill func(pids []int)
}

// Child is a started process. It has one owner goroutine, which is the only one to wait for it.
type Child struct {
	cmd      *exec.Cmd
	stdin    *os.File
	commands *event.Writer
	onEvent  func(event.Event)
	pidPath  string
	log      *Log
	patience time.Duration
	announce func() // BeforeKill, once

	ended chan struct{} // closed when the process has exited; it may still be a zombie
	done  chan struct{} // closed when it is reaped and all its output is read

	mu     sync.Mutex
	reaped bool
	exit   Exit // complete after done
}

// Start starts a process and returns while it runs. Its events go to onEvent, in order, from one goroutine, all of them before Done; lines
// that are no event of a node become warnings. When Start fails no process is left.
func Start(p Process, onEvent func(event.Event)) (*Child, error) {
	if err := os.MkdirAll(filepath.Dir(p.LogPath), 0o755); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	log, err := OpenLog(p.LogPath, p.LogLimit)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	var ours, theirs [3]*os.File // stdin, stdout, stderr
	closeAll := func(files [3]*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	fail := func(err error) (*Child, error) {
		closeAll(ours)
		closeAll(theirs)
		log.Close()
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Env = p.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	// Its own group: a Ctrl-C at the terminal is ours to act on, and signals reach its children too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	closeAll(theirs)
	c := &Child{
		cmd: cmd, stdin: ours[0], commands: event.NewWriter(ours[0]), onEvent: onEvent, pidPath: p.PIDPath, log: log,
		patience: p.Patience,
		ended:    make(chan struct{}), done: make(chan struct{}),
	}
	if c.patience <= 0 {
		c.patience = defaultPatience
	}
	c.announce = sync.OnceFunc(func() {
		if p.BeforeKill != nil && c.owned() {
			p.BeforeKill(family(c.PID()))
		}
	})
	pidErr := writePIDFile(p.PIDPath, cmd.Process.Pid)
	if pidErr != nil {
		c.onEvent = func(event.Event) {}
		c.signal(syscall.SIGKILL)
	}
	go c.own(ours[1], ours[2])
	if pidErr != nil {
		<-c.done
		return nil, fmt.Errorf("start %s: %w", p.Path, pidErr)
	}
	return c, nil
}

// PID is the process's id, which is also its group's.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the process is gone and everything it wrote has been handled.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit says how the process ended; valid after Done.
func (c *Child) Exit() Exit {
	<-c.done
	return c.exit
}

// Send writes one command. It is bounded in time: a child that doesn't read is condemned, for half a command may be in its stdin.
func (c *Child) Send(cmd event.Command) error {
	err := c.sendWithin(cmd, sendLimit)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.Condemn(event.CauseStalled, fmt.Sprintf("read no command for %s", sendLimit))
	}
	return err
}

func (c *Child) sendWithin(cmd event.Command, limit time.Duration) error {
	select {
	case <-c.ended:
		return ErrGone
	default:
	}
	if err := c.stdin.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return fmt.Errorf("send %s: %w", cmd.Type, ErrGone)
	}
	err := c.commands.Write(cmd)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("send %s: %w", cmd.Type, ErrGone)
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", cmd.Type, err)
	}
	return nil
}

// own is the owner's goroutine: both pipes are drained, then the process is reaped.
func (c *Child) own(stdout, stderr *os.File) {
	var readers sync.WaitGroup
	readers.Go(func() { c.readEvents(stdout) })
	readers.Go(func() { c.log.drain(stderr) })
	c.awaitEnd()
	close(c.ended)
	// The zombie still holds the group's number, so that the signal can only meet what the child left behind.
	c.signal(syscall.SIGKILL)
	limit := time.Now().Add(c.patience)
	stdout.SetReadDeadline(limit)
	stderr.SetReadDeadline(limit)
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
	c.mu.Unlock()
	c.log.Close()
	if c.pidPath != "" {
		os.Remove(c.pidPath)
	}
	close(c.done)
}

// awaitEnd returns when the process has ended, and leaves it to be reaped.
func (c *Child) awaitEnd() {
	for {
		err := unix.Waitid(unix.P_PID, c.PID(), nil, unix.WEXITED|unix.WNOWAIT, nil)
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
