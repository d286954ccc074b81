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

// Process is a started attempt. Only its owner goroutine waits for the command.
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
	rush  chan struct{} // closed by Kill: the grace time is over
	ended chan struct{} // closed when the command has ended; its descendants may run, and it is not reaped
	done  chan struct{} // closed when all processes are gone

	mu     sync.Mutex
	reaped bool
	out    Outcome // complete after done
}

// Start starts a command and returns while it runs. The command has its own session: Ctrl-C reaches it only through
// Signal, and it has no controlling terminal, but may read a terminal's input. Its output streams are pipes, even if
// this process's are terminals. The command receives SIGTERM if this process dies. If Start fails, it leaves no
// process behind.
//
// Normally SIGPIPE ends a Go program that writes to a standard stream without a reader. While an attempt runs, it
// does not.
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

// own is the owner goroutine. It keeps its thread, because the kernel sends the death signal when the thread that
// started the command ends.
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
	if err != nil { // /proc is missing
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

// awaitOutput waits until all output has been passed on. After the command was told to end, it waits at most
// drainLimit.
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
		p.warn("the reader of the command's output has stopped reading: the rest is dropped")
	}
}

// finish reaps the command and completes the Outcome.
func (p *Process) finish(left []int, kernelKills int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Wait() // ProcessState has its error
	p.reaped = true
	state := p.cmd.ProcessState
	p.out.ExitCode = state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.out.Signal = status.Signal()
	}
	p.out.Seconds = time.Since(p.began).Seconds()
	p.out.Left = left
	p.out.Peak = p.meter.atMost(state.SysUsage())
	p.sink.mu.Lock() // a reader that hangs may block a pump
	defer p.sink.mu.Unlock()
	p.sink.scanner.Close()
	p.out.judge(p.sink.scanner, kernelKills)
}

// PID returns the process id, which is also the id of the session and the group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when all processes are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the command and all its descendants have ended and all output has been passed on.
func (p *Process) Wait() Outcome {
	<-p.done
	return p.out
}

// oneAtATime wraps a function, which may be nil, for concurrent use.
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
