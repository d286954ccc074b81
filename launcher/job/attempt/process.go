package attempt

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/launcher/job/shortage"
	"github.com/sapo-swarm/swarm/launcher/supervise"
)

const defaultGrace = 10 * time.Second

// Process is an attempt that was started. It has one owner goroutine, which is the only one to wait for the command.
type Process struct {
	cmd     *exec.Cmd
	grace   time.Duration
	began   time.Time
	tree    *tree
	meter   *meter
	sink    *sink
	streams []*stream // one or two
	kills   *supervise.KillMeter
	warn    func(string)

	asked func()        // closes asks
	hurry func()        // closes rush
	asks  chan struct{} // closed when the command was told to end
	rush  chan struct{} // closed when it has no more time for that
	ended chan struct{} // closed when the command has ended; others of its tree may run, and it is not reaped
	done  chan struct{} // closed when all of it is gone

	mu     sync.Mutex
	reaped bool
	out    Outcome // complete after done
}

// Start starts a command and returns while it runs. It runs in a session of its own: Ctrl-C reaches it only as Signal,
// and it may read a terminal's input but has none of its own. Its output streams are pipes, even where ours are
// terminals. It gets SIGTERM should this program die. When Start fails no process is left.
//
// A write to a standard stream whose reader is gone ends a Go program; while an attempt runs it does not.
func Start(spec Spec) (*Process, error) {
	mark, err := newMark()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	warn := oneAtATime(spec.Warn)
	p := &Process{
		cmd: exec.Command(spec.Path, spec.Args...), grace: spec.Grace, kills: supervise.NewKillMeter(), warn: warn,
		sink: &sink{log: spec.Log, scanner: shortage.NewScanner()},
		asks: make(chan struct{}), rush: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}),
	}
	p.asked, p.hurry = sync.OnceFunc(func() { close(p.asks) }), sync.OnceFunc(func() { close(p.rush) })
	if p.grace <= 0 {
		p.grace = defaultGrace
	}
	env := spec.Env
	if env == nil {
		env = os.Environ()
	}
	p.cmd.Env, p.cmd.Dir = set(env, markVariable, mark), spec.Dir
	if spec.Stdin != nil {
		p.cmd.Stdin = spec.Stdin
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}

	var theirs []*os.File
	closeAll := func() {
		for i, file := range theirs {
			file.Close()
			p.streams[i].from.Close()
		}
	}
	outputs := []stream{{name: "output", to: spec.Stdout}, {name: "error output", to: spec.Stderr}}
	if spec.Together {
		outputs = outputs[:1]
	}
	for _, s := range outputs {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("start %s: %w", spec.Path, err)
		}
		s.from, s.sink, s.warn = r, p.sink, warn
		theirs, p.streams = append(theirs, w), append(p.streams, &s)
	}
	p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[len(theirs)-1]

	started := make(chan error)
	go p.own(spec, mark, started)
	if err := <-started; err != nil {
		closeAll()
		return nil, startError(spec, err)
	}
	for _, file := range theirs {
		file.Close()
	}
	return p, nil
}

// own is the owner's goroutine. It keeps its thread: the kernel sends the death signal when the thread dies that
// started the command.
func (p *Process) own(spec Spec, mark string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	release := adoptOrphans()
	defer release()
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	pipeSignals := make(chan os.Signal, 1)
	signal.Notify(pipeSignals, syscall.SIGPIPE) // not Ignore, which the command would inherit
	defer signal.Stop(pipeSignals)
	id, err := supervise.Identify(p.PID())
	if err != nil { // /proc is not there
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		started <- err
		return
	}
	p.tree = newTree(id, mark)
	p.meter = newMeter(spec, p.tree, p.kills)
	started <- nil

	gone := make(chan struct{})
	var pumps, sampling sync.WaitGroup
	for _, s := range p.streams {
		pumps.Go(s.pump)
	}
	sampling.Go(func() { p.meter.run(gone) })
	supervise.AwaitEnd(p.PID())
	killed := p.kills.Rise()
	close(p.ended)
	left := p.endLeft()
	close(gone)
	p.awaitOutput(&pumps)
	sampling.Wait()
	p.finish(left, killed)
	close(p.done)
}

// awaitOutput waits until everything written has been passed on: as long as it takes, unless the command was told to
// end.
func (p *Process) awaitOutput(pumps *sync.WaitGroup) {
	for _, s := range p.streams {
		s.drain()
	}
	passed := make(chan struct{})
	go func() {
		pumps.Wait()
		close(passed)
	}()
	select {
	case <-passed:
		return
	case <-p.asks:
	}
	select {
	case <-passed:
	case <-time.After(drainLimit):
		p.warn("the reader of the command's output does not read: the rest of it is dropped")
	}
}

// finish reaps the command and says what became of it.
func (p *Process) finish(left []int, kernelKills int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Wait() // its error is in ProcessState
	p.reaped = true
	state := p.cmd.ProcessState
	p.out.ExitCode = state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.out.Signal = status.Signal()
	}
	p.out.Seconds = time.Since(p.began).Seconds()
	p.out.Left = left
	p.out.Peak = p.meter.atMost(state.SysUsage())
	p.sink.mu.Lock() // a reader that hangs may hold a pump back
	defer p.sink.mu.Unlock()
	p.sink.scanner.Close()
	p.out.judge(p.sink.scanner, kernelKills)
}

// PID is the process's id, which is also its session's and its group's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when all of it is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the command has ended, nothing that it started runs any more, and all its output is passed on.
func (p *Process) Wait() Outcome {
	<-p.done
	return p.out
}

// oneAtATime makes a function that may be nil one that may be called by several.
func oneAtATime(f func(string)) func(string) {
	var mu sync.Mutex
	return func(line string) {
		if f == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		f(line)
	}
}
