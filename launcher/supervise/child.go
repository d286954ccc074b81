// Package supervise owns child processes: it starts one in its own process group, reads its events and its log, stops
// it within bounds, says why it ended, and decides whether to start it again. It takes argv, an environment and paths;
// what the processes mean to a swarm is package launcher's. It imports metrics/event only.
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
	sendLimit        = 5 * time.Second // a child that reads nothing for so long is stuck
	defaultPatience  = 5 * time.Second
	defaultStopLimit = 5 * time.Second
	drainLimit       = 2 * time.Second // from a child's end to that of reading its pipes and of ending its kin

	// AnnounceLimit bounds Process.BeforeKill.
	AnnounceLimit = 3 * time.Second
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
	// Patience bounds the time between the end of stdout and the process's; 0: 5 s. What is left in a dead child's
	// pipes, which others may hold open, is read for as long, but for drainLimit at most.
	Patience time.Duration
	// StopLimit is how long the child may be stopped, as by SIGSTOP, before it is continued, and again before it is
	// condemned; 0: 5 s.
	StopLimit time.Duration
	// Files are inherited, the first as descriptor 3.
	Files []*os.File
	// BeforeKill, if set, is called before the first signal that ends the child, unless there is no time for it: with
	// the pids of the child and its descendants. It must return within AnnounceLimit.
	BeforeKill func(pids []int)
}

// Child is a started process. It has one owner goroutine, which is the only one to wait for it.
type Child struct {
	cmd       *exec.Cmd
	stdin     *os.File
	commands  *event.Writer
	log       *Log
	patience  time.Duration
	stopLimit time.Duration
	announce  func() // BeforeKill, once

	emitMu  sync.Mutex // events come from the reader and from the watch
	onEvent func(event.Event)

	ended chan struct{} // closed when the process has exited; it may still be a zombie
	done  chan struct{} // closed when it is reaped and all its output is read
	doom  chan struct{} // closed when it is condemned

	kin kin

	mu     sync.Mutex
	reaped bool
	doomed bool
	exit   Exit // complete after done
}

// Start starts a process and returns while it runs. Its events go to onEvent, in order, one at a time, all of them
// before Done; lines that are no event of a node become warnings, as does what the watch over the process has to do.
// When Start fails no process is left.
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
	// Its own group: a Ctrl-C at the terminal is ours to act on, and signals reach its children too.
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
	pidErr := c.kin.begin(p.PIDPath, cmd.Process.Pid)
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

// PID is the process's id, which is also its group's.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the process is gone and everything it wrote has been handled.
func (c *Child) Done() <-chan struct{} { return c.done }

// Condemned is closed once Condemn was called, by whomever: a child that can't die would never be Done.
func (c *Child) Condemned() <-chan struct{} { return c.doom }

// Exit says how the process ended; valid after Done.
func (c *Child) Exit() Exit {
	<-c.done
	return c.exit
}

// Send writes one command. It is bounded in time: a child that doesn't read is condemned, for half a command may be in
// its stdin.
func (c *Child) Send(cmd protocol.Command) error {
	err := c.sendWithin(cmd, sendLimit)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.Condemn(event.CauseStalled, fmt.Sprintf("read no command for %s", sendLimit))
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
