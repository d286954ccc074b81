// Package supervise owns child processes. It starts a process in its own process group, reads its events and its
// log, stops it within time limits, classifies its end, and decides whether to restart it. It depends on argv, an
// environment and paths, not on what the processes do. It must not import other packages of the launcher.
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

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

const (
	sendLimit        = 5 * time.Second // a child that does not read stdin for so long is stuck
	defaultPatience  = 5 * time.Second
	defaultStopLimit = 5 * time.Second
	drainLimit       = 2 * time.Second // from a child's end to the end of its pipes and its detached processes

	// AnnounceLimit bounds the duration of Process.BeforeKill.
	AnnounceLimit = 3 * time.Second
)

// ErrGone reports that the child has ended or closed its stdin.
var ErrGone = errors.New("the process is gone")

// Process describes a process to start.
type Process struct {
	Path     string
	Args     []string // without the program's name
	Env      []string // the complete environment
	LogPath  string   // stderr is appended to this file
	LogLimit int64    // bytes before the log is rotated, keeping one old file; 0: 32 MiB
	PIDPath  string   // records the process for SweepOrphans; removed after its end
	// Patience bounds the time between the end of stdout and the end of the process; 0: 5 s. It also bounds,
	// together with drainLimit, the time for reading a dead child's pipes, which other processes may hold open.
	Patience time.Duration
	// StopLimit is how long the child may be suspended, as by SIGSTOP, before it is continued, and then again before it
	// is killed; 0: 5 s.
	StopLimit time.Duration
	// Files are inherited, starting with descriptor 3.
	Files []*os.File
	// BeforeKill, if set, is called with the pids of the child and its descendants before the first signal that
	// ends the child, unless there is no time for it. It must return within AnnounceLimit.
	BeforeKill func(pids []int)
}

// Child is a started process. One owner goroutine is the only one that waits for it.
type Child struct {
	cmd       *exec.Cmd
	stdin     *os.File
	commands  *event.Writer
	log       *Log
	patience  time.Duration
	stopLimit time.Duration
	announce  func() // calls BeforeKill once

	emitMu  sync.Mutex // events come from the reader and from the watch
	onEvent func(event.Event)

	ended chan struct{} // closed when the process has exited; it may still be a zombie
	done  chan struct{} // closed when it has been reaped and all its output read
	doom  chan struct{} // closed when it has been condemned

	detached detached

	mu     sync.Mutex
	reaped bool
	doomed bool
	exit   Exit // valid after done
}

// Start starts a process and returns while it runs. onEvent gets the events in order, one at a time, all before
// Done. Lines that are not a node's events become warnings, and so do actions of the watch, such as continuing a
// suspended process. If Start fails, it leaves no process.
func Start(p Process, onEvent func(event.Event)) (*Child, error) {
	if err := files.MakeFolder(filepath.Dir(p.LogPath), 0o700); err != nil {
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
	cmd.ExtraFiles = p.Files
	// In its own group, signals reach its children too, and a Ctrl-C at the terminal is left to this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	closeAll(theirs)
	c := &Child{
		cmd: cmd, stdin: ours[0], commands: event.NewWriter(ours[0]), onEvent: onEvent, log: log,
		patience: p.Patience, stopLimit: p.StopLimit,
		ended: make(chan struct{}), done: make(chan struct{}), doom: make(chan struct{}),
	}
	if c.patience <= 0 {
		c.patience = defaultPatience
	}
	if c.stopLimit <= 0 {
		c.stopLimit = defaultStopLimit
	}
	c.announce = sync.OnceFunc(func() {
		if p.BeforeKill != nil && c.owned() {
			p.BeforeKill(c.family())
		}
	})
	pidErr := c.detached.begin(p.PIDPath, cmd.Process.Pid)
	if pidErr != nil {
		c.onEvent = func(event.Event) {}
		c.signal(syscall.SIGKILL)
	}
	go c.own(ours[1], ours[2])
	if pidErr != nil {
		c.goneWithin(killLimit+drainLimit, nil)
		return nil, fmt.Errorf("start %s: %w", p.Path, pidErr)
	}
	return c, nil
}

// PID returns the process's id, which is also its group's.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the process has ended and all its output has been handled.
func (c *Child) Done() <-chan struct{} { return c.done }

// Condemned is closed after a call of Condemn. A child that cannot be killed would never be Done.
func (c *Child) Condemned() <-chan struct{} { return c.doom }

// Exit returns how the process ended. It waits for Done.
func (c *Child) Exit() Exit {
	<-c.done
	return c.exit
}

// Send writes a command within sendLimit. A child that does not read it is condemned, because half a command may be
// in its stdin.
func (c *Child) Send(cmd protocol.Command) error {
	err := c.sendWithin(cmd, sendLimit)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.Condemn(event.CauseStalled, fmt.Sprintf("did not read a command for %s", sendLimit))
	}
	return err
}

func (c *Child) sendWithin(cmd protocol.Command, limit time.Duration) error {
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
