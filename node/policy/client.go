// Package policy is a node's model as the node sees it: the client of the engine, a small Python and PyTorch child
// process, and the protocol they speak. It owns that process (start, calls, end) and the engine's Python files, which are
// embedded. It knows token ids and tensors' sizes, not tasks or rewards, and imports nothing of ours.
package policy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrEngineGone is returned by calls on an engine whose process ended or was stopped.
var ErrEngineGone = errors.New("the engine process is gone")

const (
	closeGrace = 3 * time.Second // between closing stdin and SIGKILL
	helloLimit = 2 * time.Minute // importing torch from a cold disk
	callLimit  = time.Hour       // an engine that takes longer over any call hangs
)

// Options start an engine.
type Options struct {
	Python string    // interpreter that can import torch
	Dir    string    // holds the engine package (see Extract)
	Env    []string  // the child's whole environment
	Stderr io.Writer // the engine's log
}

// Engine is a running engine process. One call is in flight at a time; Call is safe for concurrent use.
type Engine struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers chan answer   // one entry a line the engine wrote; closed at EOF
	exited  chan struct{} // closed after Wait
	exit    error         // valid after exited
	calls   sync.Mutex
	nextID  int64
	Hello   HelloResult
}

type answer struct {
	Response
	broken error // the engine wrote something else
}

// Start starts an engine and greets it. When it fails, no process is left.
func Start(ctx context.Context, opts Options) (*Engine, error) {
	cmd := exec.Command(opts.Python, "-u", "-m", "engine")
	cmd.Env = append(opts.Env, "PYTHONPATH="+opts.Dir+pathTail(opts.Env), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Dir = opts.Dir
	cmd.Stderr = opts.Stderr
	cmd.WaitDelay = closeGrace
	// Its own group: a Ctrl-C at the terminal is the launcher's to act on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("engine stdin: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("engine stdout: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start engine with %s: %w", opts.Python, err)
	}
	e := &Engine{cmd: cmd, stdin: stdin, answers: make(chan answer, 1), exited: make(chan struct{})}
	go e.read(stdout)
	ctx, cancel := context.WithTimeout(ctx, helloLimit)
	defer cancel()
	if err := e.Call(ctx, "hello", HelloParams{Protocol: ProtocolVersion}, &e.Hello); err != nil {
		e.Close()
		return nil, fmt.Errorf("engine does not answer: %w", err)
	}
	return e, nil
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

// read is the only reader of the engine's stdout and the only caller of Wait.
func (e *Engine) read(stdout io.Reader) {
	r := bufio.NewReaderSize(stdout, 256<<10)
	for {
		line, err := readLine(r)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				e.answers <- answer{broken: err}
			}
			break
		}
		var resp answer
		if err := json.Unmarshal(line, &resp.Response); err != nil {
			resp = answer{broken: fmt.Errorf("engine wrote no JSON: %.80q", line)}
		}
		e.answers <- resp
	}
	e.exit = e.cmd.Wait()
	close(e.exited)
	close(e.answers)
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			return nil, fmt.Errorf("engine wrote a line above %d bytes", MaxLine)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Call sends one request and waits for its answer, which it decodes into result (nil: ignored). It returns *Error when the
// engine refuses or fails the call and lives on, ErrEngineGone when its process has ended, and ctx's cause when ctx ends
// first: then the engine's state is unknown, so it is killed.
func (e *Engine) Call(ctx context.Context, name string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, fmt.Errorf("no answer within %s", callLimit))
	defer cancel()
	e.calls.Lock()
	defer e.calls.Unlock()

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
	select {
	case resp, open := <-e.answers:
		<-sent // the pipe is drained or broken by now
		return e.decode(name, resp, open, result)
	case <-ctx.Done():
		e.kill()
		<-sent
		return fmt.Errorf("engine call %s: %w", name, context.Cause(ctx))
	}
}

func (e *Engine) decode(name string, resp answer, open bool, result any) error {
	switch {
	case !open:
		return fmt.Errorf("engine call %s: %w (%s)", name, ErrEngineGone, e.exitText())
	case resp.broken != nil:
		e.kill()
		return fmt.Errorf("engine call %s: %w", name, resp.broken)
	case resp.ID != e.nextID:
		e.kill()
		return fmt.Errorf("engine call %s: answer %d to request %d", name, resp.ID, e.nextID)
	case resp.Error != nil:
		return resp.Error
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(resp.Result, result); err != nil {
		return fmt.Errorf("engine call %s: decode result: %w", name, err)
	}
	return nil
}

func (e *Engine) exitText() string {
	if e.exit == nil {
		return "it exited by itself"
	}
	return e.exit.Error()
}

// PID is the engine's process id.
func (e *Engine) PID() int { return e.cmd.Process.Pid }

// ExitSignal is the signal that ended the process, 0 if none did or it still runs.
func (e *Engine) ExitSignal() syscall.Signal {
	select {
	case <-e.exited:
	default:
		return 0
	}
	if ws, ok := e.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal()
	}
	return 0
}

func (e *Engine) kill() {
	// The group: torch may have helpers. An error means that it is gone already.
	_ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL)
}

// Close ends the engine: its stdin is closed, on which it exits; what has not exited after a grace is killed. It returns
// when the process is gone.
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
			e.kill()
		}
	}
}
