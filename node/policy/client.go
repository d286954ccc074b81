// Package policy is the client of a node's engine, a small Python and PyTorch child process that holds the model,
// and defines their protocol. It owns that process (start, calls, end) and the engine's embedded Python files. It
// handles token ids and tensor sizes, not tasks or rewards. Of this module it imports only internal/files.
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

// Errors that callers distinguish.
var (
	ErrEngineGone    = errors.New("the engine process is gone")       // it ended, or an earlier call killed it
	ErrEngineStalled = errors.New("the engine does not answer")       // it is stopped or idle, or a call took too long
	ErrProtocol      = errors.New("the engine violates the protocol") // an invalid answer
)

const (
	closeGrace = 3 * time.Second // from closing stdin to SIGKILL
	pipeGrace  = 5 * time.Second // from a closed pipe to the process's end: a GPU driver may need that long to clean up
	drainGrace = time.Second     // from the engine's end to the end of reading its output
	helloLimit = 2 * time.Minute // includes the import of torch from a cold disk
	callLimit  = time.Hour       // an engine that takes longer over one call hangs
)

// Options configures the start of an engine.
type Options struct {
	Python string    // interpreter that can import torch
	Dir    string    // folder that holds the engine package (see Extract)
	Env    []string  // the child's whole environment
	Stderr io.Writer // the engine's log
	// Host forks the engine if it can (see Engine.Direct). nil: start a process that imports torch itself.
	Host *HostClient
	// StallLimit is the maximum time without processor use during a call, except for calls that wait for disks. 0:
	// five minutes.
	StallLimit time.Duration
	// OnTrouble receives a line after the client has fixed a problem of an engine that continues. It runs within a call
	// and must not call the engine. May be nil.
	OnTrouble func(string)
	// BeforeKill is called with the pid of an engine before it is killed, possibly inside a GPU kernel. It must
	// return within seconds. May be nil.
	BeforeKill func(pid int)

	every     time.Duration // interval of checks on the engine's processes
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

// Engine is a running engine process. It handles one call at a time. Call is safe for concurrent use.
type Engine struct {
	child   child
	opts    Options
	stdin   *os.File
	stdout  *os.File
	answers chan answer   // one entry per line of the engine; closed after its end when all its output has been read
	exited  chan struct{} // closed after Wait
	exit    error         // valid after exited
	turn    chan struct{} // holds the one call in flight
	nextID  int64         // id of the last request; owned by the current call
	killed  error         // why a call killed the engine; owned by the current call
	failed  *Error        // the engine's error answer to the last call, which may explain its end; owned by the current call
	Hello   HelloResult
	Direct  string // why no engine host forked it; empty: one did
}

// child is an engine's process, started by this process or forked by an engine host.
type child interface {
	pid() int
	// wait returns when the process has ended: nil after exit code 0, else an *ExitError. Call it once.
	wait() error
}

type answer struct {
	Response
	broken error // the engine's output was not a valid line
}

// Start starts an engine and exchanges hello with it. On an error, no process remains.
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
		return nil, fmt.Errorf("greet the engine: %w: it uses version %d, this program %d", ErrProtocol, e.Hello.Protocol, ProtocolVersion)
	}
	return e, nil
}

// spawn creates the engine's process: forked by the host, or started directly.
func (e *Engine) spawn(ctx context.Context) error {
	err := e.begin(func(stdin, stdout *os.File) (child, error) { return fork(ctx, e.opts, stdin, stdout) })
	if !errors.Is(err, errNoHost) {
		return err
	}
	e.Direct = err.Error()
	// Use new pipes. A host that was stopped may still fork the process later. That fork must find its pipes
	// closed, and not read this engine's requests.
	return e.begin(func(stdin, stdout *os.File) (child, error) { return startDirectly(e.opts, stdin, stdout) })
}

// begin starts a process with new pipes and keeps the engine client's ends.
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

// fork asks an engine host to fork the process.
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

// borrowed is a file that Close closes only if own is set.
type borrowed struct {
	*os.File
	own bool
}

func (b borrowed) Close() {
	if b.own {
		b.File.Close()
	}
}

// logFile returns a file whose content reaches w: w itself, or a pipe. logged waits until the pipe's content is
// copied, for at most drainGrace.
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
		_ = r.SetReadDeadline(time.Now().Add(drainGrace)) // fails only after r is closed at its end
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

// direct is a process that this process started.
type direct struct{ cmd *exec.Cmd }

func startDirectly(opts Options, stdin, stdout *os.File) (child, error) {
	cmd := exec.Command(opts.Python, "-u", "-m", "engine")
	cmd.Env = engineEnv(opts.Env, opts.Dir)
	cmd.Dir = opts.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, opts.Stderr
	cmd.WaitDelay = closeGrace
	// A separate process group, so that only the launcher receives a Ctrl-C at the terminal.
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

// pathTail returns the user's own PYTHONPATH, to append it after ours.
func pathTail(env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if rest, ok := strings.CutPrefix(env[i], "PYTHONPATH="); ok && rest != "" {
			return ":" + rest
		}
	}
	return ""
}

// wait is the only caller of child.wait. After the engine's end, it bounds the reading of stdout, because a process
// that the engine left behind may hold it open.
func (e *Engine) wait() {
	e.exit = e.child.wait()
	close(e.exited)
	_ = e.stdout.SetReadDeadline(time.Now().Add(drainGrace)) // fails only after stdout is closed at its end
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
			resp = answer{broken: fmt.Errorf("its output is not JSON: %.80q", line)}
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

// Call sends one request, waits for its answer, and decodes it into result, unless result is nil. Errors:
//
//   - *Error: the engine refused or failed the call, and still runs
//   - ErrEngineGone: its process has ended
//   - ErrProtocol: its answer is invalid, or it closed its pipes
//   - ErrEngineStalled: it stays stopped, uses no processor time (see Options), or has not answered within an hour
//   - the cause of ctx, if ctx ended first
//
// After the last three the engine's state is unknown, so that Call kills it.
func (e *Engine) Call(ctx context.Context, name string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, fmt.Errorf("%w within %s", ErrEngineStalled, callLimit))
	defer cancel()
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return fmt.Errorf("engine call %s: %w", name, context.Cause(ctx)) // not sent: the engine continues
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

// await waits until the last request is sent and answered, and decodes the answer.
func (e *Engine) await(ctx context.Context, name string, sent <-chan error, result any) error {
	watch, ticker := e.newWatch(name), time.NewTicker(e.opts.every)
	defer ticker.Stop()
	var err error
	var closed <-chan time.Time // fires when the engine's stdin has been closed for too long
	answers := e.answers
	for answers != nil || sent != nil {
		var why error
		select {
		case resp, open := <-answers:
			err, answers = e.decode(resp, open, result), nil
		case broken := <-sent:
			if sent = nil; broken != nil && answers != nil {
				closed = time.After(e.opts.pipeGrace) // a dead engine's exit status is more informative
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

// look checks the engine while nobody has waited for its process. After the wait, another process may have its pid.
func (e *Engine) look(w *watch, now time.Time) error {
	select {
	case <-e.exited:
		return nil
	default:
		return w.look(now)
	}
}

// decode reads the answer to the last request. It kills the engine after an invalid answer.
func (e *Engine) decode(resp answer, open bool, result any) error {
	var nonsense error
	if open {
		e.failed = resp.Error
	}
	switch {
	case !open:
		if e.exit == nil && e.failed != nil {
			// Not %w: an *Error means that the engine still runs.
			return fmt.Errorf("%w: it exited unexpectedly, after: %v", ErrEngineGone, e.failed)
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

// kill kills a call's engine and records the reason.
func (e *Engine) kill(why error) {
	e.killed = why
	e.end()
}

// end calls BeforeKill and kills the engine, unless it has ended.
func (e *Engine) end() {
	select {
	case <-e.exited:
	default:
		e.opts.BeforeKill(e.PID())
		e.signal(syscall.SIGKILL)
	}
}

// signal signals the engine's process group, because torch may have helper processes. It sends nothing after the
// wait, when another process may have the pid.
func (e *Engine) signal(s syscall.Signal) {
	select {
	case <-e.exited:
	default:
		_ = syscall.Kill(-e.PID(), s) // fails if the process has already ended
	}
}

// Close closes the engine's stdin, on which it exits. It kills the engine if that takes longer than closeGrace. It
// returns when the process has ended. Repeated calls are allowed.
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
