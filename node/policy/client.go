// Package policy is a node's model as the node sees it: the client of the engine, a small Python and PyTorch child
// process, and the protocol they speak. It owns that process (start, calls, end) and the engine's Python files, which
// are embedded. It knows token ids and tensors' sizes, not tasks or rewards, and imports nothing of this module but
// files.
package policy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Errors callers branch on.
var (
	ErrEngineGone    = errors.New("the engine process is gone")            // it ended, or was killed by an earlier call
	ErrEngineStalled = errors.New("the engine does not answer")            // it is stopped or does nothing, or takes longer than any should
	ErrProtocol      = errors.New("the engine does not keep the protocol") // an answer that makes no sense
)

const (
	closeGrace = 3 * time.Second // between closing stdin and SIGKILL
	pipeGrace  = 5 * time.Second // between a pipe's end and that of the process: a GPU's driver may take as long to clean up
	drainGrace = time.Second     // between the engine's end and that of reading what it wrote
	helloLimit = 2 * time.Minute // importing torch from a cold disk
	callLimit  = time.Hour       // an engine that takes longer over any call hangs
)

// Options start an engine.
type Options struct {
	Python string    // interpreter that can import torch
	Dir    string    // holds the engine package (see Extract)
	Env    []string  // the child's whole environment
	Stderr io.Writer // the engine's log
	// Host forks the engine, where it can (see Engine.Direct); nil: the engine is a process that imports torch for
	// itself.
	Host *HostClient
	// StallLimit is how long an engine may use no processor time within a call (0: five minutes), but for those that
	// wait for disks.
	StallLimit time.Duration
	// OnTrouble is told, in a line, what was done about an engine in trouble that lives on; it is called within a call
	// and must not call the engine. nil: nobody is told.
	OnTrouble func(string)
	// BeforeKill is called with the pid of an engine that is about to be killed, which may be within a kernel. It must
	// return within seconds. nil: nobody is told.
	BeforeKill func(pid int)

	every     time.Duration // between two looks at the engine's processes
	pipeGrace time.Duration
}

func (o Options) withDefaults() Options {
	if o.StallLimit == 0 {
		o.StallLimit = defaultStallLimit
	}
	if o.OnTrouble == nil {
		o.OnTrouble = func(string) {}
	}
	if o.BeforeKill == nil {
		o.BeforeKill = func(int) {}
	}
	if o.every == 0 {
		o.every, o.pipeGrace = watchPeriod, pipeGrace
	}
	return o
}

// Engine is a running engine process. One call is in flight at a time; Call is safe for concurrent use.
type Engine struct {
	child   child
	opts    Options
	stdin   *os.File
	stdout  *os.File
	answers chan answer   // one entry a line the engine wrote; closed when it is gone and all it wrote has been read
	exited  chan struct{} // closed after Wait
	exit    error         // valid after exited
	turn    chan struct{} // holds the one call in flight
	nextID  int64         // of the last request; its call's own
	killed  error         // why a call killed the engine; its call's own
	failed  *Error        // what the engine answered to the last call, where it was an error: it may have ended over it; its call's own
	Hello   HelloResult
	Direct  string // why no engine host forked it; empty: one did
}

// child is an engine's process: one that this process has started, or one that an engine host has forked.
type child interface {
	pid() int
	// wait is called once, and returns when the process is gone: nil where it exited with 0, else an *ExitError.
	wait() error
}

type answer struct {
	Response
	broken error // the engine wrote something else
}

// Start starts an engine and greets it. When it fails, no process is left.
func Start(ctx context.Context, opts Options) (*Engine, error) {
	e := &Engine{
		opts: opts.withDefaults(), turn: make(chan struct{}, 1), answers: make(chan answer, 1), exited: make(chan struct{}),
	}
	if err := e.spawn(ctx); err != nil {
		return nil, err
	}
	go e.wait()
	go e.read()
	ctx, cancel := context.WithTimeoutCause(ctx, helloLimit, fmt.Errorf("%w within %s", ErrEngineStalled, helloLimit))
	defer cancel()
	if err := e.Call(ctx, "hello", HelloParams{Protocol: ProtocolVersion}, &e.Hello); err != nil {
		e.Close()
		return nil, fmt.Errorf("greet the engine: %w", err)
	}
	if e.Hello.Protocol != ProtocolVersion {
		e.Close()
		return nil, fmt.Errorf("greet the engine: %w: it speaks version %d, this program %d", ErrProtocol, e.Hello.Protocol, ProtocolVersion)
	}
	return e, nil
}

// spawn makes the engine's process: a fork of the host, or one of its own.
func (e *Engine) spawn(ctx context.Context) error {
	err := e.begin(func(stdin, stdout *os.File) (child, error) { return fork(ctx, e.opts, stdin, stdout) })
	if !errors.Is(err, errNoHost) {
		return err
	}
	e.Direct = err.Error()
	// With pipes of its own: a host that was stopped may yet fork what it was asked for, and that fork must find its
	// pipes closed rather than read this engine's requests.
	return e.begin(func(stdin, stdout *os.File) (child, error) { return startDirectly(e.opts, stdin, stdout) })
}

// begin starts a process between new pipes, of which the engine keeps this end.
func (e *Engine) begin(start func(stdin, stdout *os.File) (child, error)) error {
	var ours, theirs [2]*os.File // stdin, stdout
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			closeFiles(append(ours[:], theirs[:]...))
			return fmt.Errorf("engine pipe: %w", err)
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	defer closeFiles(theirs[:])
	started, err := start(theirs[0], theirs[1])
	if err != nil {
		closeFiles(ours[:])
		return err
	}
	e.child, e.stdin, e.stdout = started, ours[0], ours[1]
	return nil
}

// fork has an engine host fork the process.
func fork(ctx context.Context, opts Options, stdin, stdout *os.File) (child, error) {
	if opts.Host == nil {
		return nil, fmt.Errorf("%w: there is no engine host", errNoHost)
	}
	stderr, logged, err := logFile(opts.Stderr)
	if err != nil {
		return nil, err
	}
	f, err := opts.Host.fork(ctx, opts, stdin, stdout, stderr.File)
	stderr.Close()
	if err != nil {
		return nil, err
	}
	return loggedChild{f, logged}, nil
}

// borrowed is a file that Close closes where it is not the caller's.
type borrowed struct {
	*os.File
	own bool
}

func (b borrowed) Close() {
	if b.own {
		b.File.Close()
	}
}

// logFile is a file whose content reaches w: w itself, or a pipe. logged waits for what came through the pipe, for
// drainGrace at most.
func logFile(w io.Writer) (file borrowed, logged func(), err error) {
	if f, ok := w.(*os.File); ok && f != nil {
		return borrowed{f, false}, func() {}, nil
	}
	if w == nil {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return borrowed{}, nil, fmt.Errorf("engine log: %w", err)
		}
		return borrowed{null, true}, func() {}, nil
	}
	r, theirs, err := os.Pipe()
	if err != nil {
		return borrowed{}, nil, fmt.Errorf("engine log: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.Close()
		_, _ = io.Copy(w, r) // ends at logged's deadline at the latest
	}()
	return borrowed{theirs, true}, func() {
		_ = r.SetReadDeadline(time.Now().Add(drainGrace)) // fails only where it is closed, at its end
		<-done
	}, nil
}

type loggedChild struct {
	child
	logged func()
}

func (c loggedChild) wait() error {
	err := c.child.wait()
	c.logged()
	return err
}

// direct is a process that this one has started.
type direct struct{ cmd *exec.Cmd }

func startDirectly(opts Options, stdin, stdout *os.File) (child, error) {
	cmd := exec.Command(opts.Python, "-u", "-m", "engine")
	cmd.Env = engineEnv(opts.Env, opts.Dir)
	cmd.Dir = opts.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, opts.Stderr
	cmd.WaitDelay = closeGrace
	// Its own group: a Ctrl-C at the terminal is the launcher's to act on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start engine with %s: %w", opts.Python, err)
	}
	return direct{cmd}, nil
}

func (d direct) pid() int { return d.cmd.Process.Pid }

func (d direct) wait() error {
	err := d.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok {
			return &ExitError{Status: status}
		}
	}
	return err
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// pathTail keeps a user's own PYTHONPATH behind ours.
func pathTail(env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if rest, ok := strings.CutPrefix(env[i], "PYTHONPATH="); ok && rest != "" {
			return ":" + rest
		}
	}
	return ""
}

// wait is the only caller of Wait. Once the engine is gone, its stdout is read for a grace at most: a process that it
// left behind may hold it open.
func (e *Engine) wait() {
	e.exit = e.child.wait()
	close(e.exited)
	_ = e.stdout.SetReadDeadline(time.Now().Add(drainGrace)) // fails only where it is closed, at its end
}

// read is the only reader of the engine's stdout.
func (e *Engine) read() {
	defer e.stdout.Close()
	r := bufio.NewReaderSize(e.stdout, 256<<10)
	for {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			e.answers <- answer{broken: err}
			break
		}
		var resp answer
		if err := json.Unmarshal(line, &resp.Response); err != nil {
			resp = answer{broken: fmt.Errorf("it wrote no JSON: %.80q", line)}
		}
		e.answers <- resp
	}
	select {
	case <-e.exited:
	case <-time.After(e.opts.pipeGrace):
		e.answers <- answer{broken: errors.New("it closed its stdout")}
		<-e.exited
	}
	close(e.answers)
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			return nil, fmt.Errorf("it wrote a line above %d bytes", MaxLine)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Call sends one request and waits for its answer, which it decodes into result (nil: ignored). It returns *Error when
// the engine refuses or fails the call and lives on, ErrEngineGone when its process has ended, ErrProtocol when it
// answers nonsense or closes its pipes, ErrEngineStalled when it is stopped for good or uses no processor time (see
// Options), and ctx's cause when ctx ends first (ErrEngineStalled after an hour). In the latter three cases the
// engine's state is unknown, so it is killed.
func (e *Engine) Call(ctx context.Context, name string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, fmt.Errorf("%w within %s", ErrEngineStalled, callLimit))
	defer cancel()
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return fmt.Errorf("engine call %s: %w", name, context.Cause(ctx)) // not sent: the engine lives on
	}
	if e.killed != nil {
		return fmt.Errorf("engine call %s: %w, killed because: %w", name, ErrEngineGone, e.killed)
	}
	e.nextID++
	line, err := json.Marshal(Request{ID: e.nextID, Call: name, Params: params})
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := e.stdin.Write(append(line, '\n'))
		sent <- err
	}()
	err = e.await(ctx, name, sent, result)
	var refused *Error
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return fmt.Errorf("engine call %s: %w", name, err)
}

// await waits for the answer to the last request and for the request to be sent, and decodes the answer.
func (e *Engine) await(ctx context.Context, name string, sent <-chan error, result any) error {
	watch, ticker := e.newWatch(name), time.NewTicker(e.opts.every)
	defer ticker.Stop()
	var err error
	var closed <-chan time.Time // when the engine has had its stdin closed for long enough
	answers := e.answers
	for answers != nil || sent != nil {
		var why error
		select {
		case resp, open := <-answers:
			err, answers = e.decode(resp, open, result), nil
		case broken := <-sent:
			if sent = nil; broken != nil && answers != nil {
				closed = time.After(e.opts.pipeGrace) // where the engine is gone, its exit says more
			}
		case <-closed:
			why = fmt.Errorf("%w: it closed its stdin", ErrProtocol)
		case <-ctx.Done():
			why = context.Cause(ctx)
		case now := <-ticker.C:
			why = e.look(watch, now)
		}
		if why != nil {
			e.kill(why)
			if sent != nil {
				<-sent
			}
			if answers != nil {
				err = why
			}
			return err
		}
	}
	return err
}

// look watches the engine while it hasn't been waited for: afterwards its number may be another's.
func (e *Engine) look(w *watch, now time.Time) error {
	select {
	case <-e.exited:
		return nil
	default:
		return w.look(now)
	}
}

// decode reads the answer to the last request. After nonsense it kills the engine.
func (e *Engine) decode(resp answer, open bool, result any) error {
	var nonsense error
	if open {
		e.failed = resp.Error
	}
	switch {
	case !open:
		if e.exit == nil && e.failed != nil {
			return fmt.Errorf("%w: it exited unexpectedly, after: %v", ErrEngineGone, e.failed) // not %w: an *Error is of an engine that lives on
		}
		if e.exit == nil {
			return fmt.Errorf("%w: it exited unexpectedly", ErrEngineGone)
		}
		return fmt.Errorf("%w: %w", ErrEngineGone, e.exit)
	case resp.broken != nil:
		nonsense = resp.broken
	case resp.ID != e.nextID:
		nonsense = fmt.Errorf("answer %d to request %d", resp.ID, e.nextID)
	case resp.Error != nil:
		return resp.Error
	case result == nil:
		return nil
	default:
		if nonsense = json.Unmarshal(resp.Result, result); nonsense == nil {
			return nil
		}
	}
	err := fmt.Errorf("%w: %w", ErrProtocol, nonsense)
	e.kill(err)
	return err
}

// PID is the engine's process id.
func (e *Engine) PID() int { return e.child.pid() }

// kill ends a call's engine and keeps why.
func (e *Engine) kill(why error) {
	e.killed = why
	e.end()
}

// end kills the engine, unless it is gone, after BeforeKill.
func (e *Engine) end() {
	select {
	case <-e.exited:
	default:
		e.opts.BeforeKill(e.PID())
		e.signal(syscall.SIGKILL)
	}
}

// signal reaches the engine's group: torch may have helpers. Once the engine has been waited for, its number may be
// another's.
func (e *Engine) signal(s syscall.Signal) {
	select {
	case <-e.exited:
	default:
		_ = syscall.Kill(-e.PID(), s) // fails where it is gone already
	}
}

// Close ends the engine: its stdin is closed, on which it exits; what has not exited after a grace is killed. It
// returns when the process is gone. It can be called again.
func (e *Engine) Close() {
	_ = e.stdin.Close()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	for {
		select {
		case _, open := <-e.answers: // let the reader reach EOF
			if !open {
				return
			}
		case <-timer.C:
			e.end()
		}
	}
}
