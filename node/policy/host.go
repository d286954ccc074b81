package policy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	hostStopPatience = 5           // seconds that a host may be stopped before it is continued, and again before it is killed
	hostSteady       = time.Minute // after this run time, a host's death resets the restart wait
	hostFirstWait    = time.Second // before the first restart of a dead host; it doubles up to hostLongestWait
	hostLongestWait  = 30 * time.Second
)

// HostOptions configures the start of an engine host.
type HostOptions struct {
	Python string    // interpreter that can import torch
	Dir    string    // folder that holds the engine package (see Extract)
	Env    []string  // the host's environment; an engine is forked only if the variables that torch reads at import are equal
	Stderr io.Writer // the host's log; nil: none
}

// HostHello describes a host.
type HostHello struct {
	Torch   string `json:"torch"`
	CUDA    bool   `json:"cuda"` // torch was built for CUDA
	PID     int    `json:"pid"`
	Package string `json:"package"`
	Python  string `json:"python"`
	Error   string `json:"error"`
}

// Host is a process that imported torch once and forks engines. If it dies, a new one is started, and meanwhile
// engines start directly. Forked engines continue without it, because they belong to the owner of their pipes.
type Host struct {
	HostClient
	Hello HostHello // from the first process

	options HostOptions
	theirs  *os.File // the hosts' end of the socket
	watcher atomic.Pointer[hostWatcher]
	once    sync.Once // guards Close
	stop    chan struct{}
	done    chan struct{}
	process *hostProcess // the first process; keep owns later ones
	pid     atomic.Int64 // of the current process; 0: none
}

// hostWatcher receives the log messages and pids of a host.
type hostWatcher struct {
	logger  *slog.Logger
	started func(pid int)
}

// Watch makes the host log to logger. It calls started with the pid of the current process and of each later one.
func (h *Host) Watch(logger *slog.Logger, started func(pid int)) {
	h.watcher.Store(&hostWatcher{logger, started})
	if pid := h.pid.Load(); pid != 0 {
		started(int(pid))
	}
}

// hostProcess is one process of a host.
type hostProcess struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{}
	exit   error // valid after exited is closed
}

// StartHost starts a host and waits until it has imported torch. On an error, no process remains.
func StartHost(ctx context.Context, options HostOptions) (*Host, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("engine host: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "engine host"), os.NewFile(uintptr(pair[1]), "engine host")
	client, err := newHostClient(ours)
	if err != nil {
		theirs.Close()
		return nil, err
	}
	h := &Host{HostClient: *client, options: options, theirs: theirs, stop: make(chan struct{}), done: make(chan struct{})}
	h.watcher.Store(&hostWatcher{slog.New(slog.DiscardHandler), func(int) {}})
	if h.process, h.Hello, err = h.start(ctx); err != nil {
		h.HostClient.Close()
		theirs.Close()
		return nil, err
	}
	go h.keep()
	return h, nil
}

// start starts a process and waits for its hello.
func (h *Host) start(ctx context.Context) (*hostProcess, HostHello, error) {
	fail := func(err error) (*hostProcess, HostHello, error) {
		return nil, HostHello{}, fmt.Errorf("engine host: %w", err)
	}
	cmd := exec.Command(h.options.Python, "-u", "-m", "engine", "--host", "3", "--python", h.options.Python)
	// One thread, because a fork would lack the others. The fork applies an engine's own settings
	// (engine/inherit.py).
	cmd.Env = append(engineEnv(h.options.Env, h.options.Dir), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	cmd.Dir = h.options.Dir
	cmd.ExtraFiles = []*os.File{h.theirs}
	cmd.Stderr = h.options.Stderr
	var last tail
	if cmd.Stderr == nil {
		cmd.Stderr = &last
	} else {
		cmd.Stderr = io.MultiWriter(cmd.Stderr, &last)
	}
	cmd.WaitDelay = drainGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	p := &hostProcess{cmd: cmd, stdin: stdin, exited: make(chan struct{})}
	said := make(chan HostHello, 1)
	go func() {
		var hello HostHello
		line, _ := bufio.NewReader(io.LimitReader(stdout, 1<<16)).ReadBytes('\n')
		if err := json.Unmarshal(line, &hello); err != nil && hello.Error == "" {
			hello.Error = "it reported nothing"
		}
		said <- hello
		_, _ = io.Copy(io.Discard, stdout)
		p.exit = cmd.Wait()
		close(p.exited)
	}()
	limit := time.NewTimer(probeLimit)
	defer limit.Stop()
	select {
	case hello := <-said:
		if hello.Error == "" {
			h.pid.Store(int64(hello.PID))
			h.watcher.Load().started(hello.PID)
			return p, hello, nil
		}
		p.end()
		if line := last.line(); line != "" && hello.Torch == "" {
			hello.Error = line
		}
		return fail(errors.New(hello.Error))
	case <-limit.C:
		p.end()
		return fail(fmt.Errorf("importing torch took longer than %s", probeLimit))
	case <-ctx.Done():
		p.end()
		return fail(context.Cause(ctx))
	case <-h.stop:
		p.end()
		return fail(errors.New("closed"))
	}
}

// end closes the process's stdin, on which it exits. It kills the process after closeGrace.
func (p *hostProcess) end() {
	p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(closeGrace):
		_ = p.cmd.Process.Kill() // fails if it has just ended
		<-p.exited
	}
}

// keep supervises the host until Close. It starts a new process when one dies, and continues one that is stopped.
func (h *Host) keep() {
	defer close(h.done)
	p, wait := h.process, hostFirstWait
	for p != nil {
		began := time.Now()
		if !h.await(p) {
			p.end()
			return
		}
		h.pid.Store(0)
		h.watcher.Load().logger.Warn("the engine host has died; engines start directly until another one runs", "pid", p.cmd.Process.Pid, "exit", p.exit)
		if time.Since(began) > hostSteady {
			wait = hostFirstWait
		}
		p = h.again(&wait)
	}
}

// await waits for the end of a process. It returns false if Close came first.
func (h *Host) await(p *hostProcess) bool {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for stopped := 0; ; {
		select {
		case <-h.stop:
			return false
		case <-p.exited:
			return true
		case <-tick.C:
		}
		if state, _ := processState(p.cmd.Process.Pid); state != 'T' && state != 't' {
			stopped = 0
			continue
		}
		switch stopped++; stopped {
		case hostStopPatience:
			h.watcher.Load().logger.Warn("the engine host was suspended by another process; resumed it", "pid", p.cmd.Process.Pid)
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
		case 2 * hostStopPatience:
			_ = p.cmd.Process.Kill()
		}
	}
}

// again starts a process to replace a dead one. It refuses requests meanwhile. It returns nil after Close.
func (h *Host) again(wait *time.Duration) *hostProcess {
	refusing := make(chan struct{})
	var refuser sync.WaitGroup
	defer refuser.Wait()
	defer close(refusing)
	refuser.Go(func() { h.refuse(refusing) })
	for {
		select {
		case <-h.stop:
			return nil
		case <-time.After(*wait):
		}
		*wait = min(2**wait, hostLongestWait)
		p, hello, err := h.start(context.Background())
		if err == nil {
			h.watcher.Load().logger.Info("another engine host runs", "pid", hello.PID)
			return p
		}
		h.watcher.Load().logger.Warn("no engine host", "err", err)
	}
}

// refuse reads requests and drops them until stop is closed, so that their senders see at once that no host
// answers.
func (h *Host) refuse(stop <-chan struct{}) {
	conn, err := packetConn(h.theirs)
	if err != nil {
		return // senders wait until forkLimit
	}
	defer conn.Close()
	go func() {
		<-stop
		_ = conn.SetReadDeadline(time.Now())
	}()
	message, files := make([]byte, 1), make([]byte, 256)
	for {
		_, n, _, _, err := conn.ReadMsgUnix(message, files)
		if err != nil {
			return
		}
		closeRights(files[:n])
	}
}

// Close ends the host. Its engines continue. Repeated calls are allowed.
func (h *Host) Close() {
	if h == nil {
		return
	}
	h.once.Do(func() {
		close(h.stop)
		<-h.done
		h.theirs.Close()
		h.HostClient.Close()
	})
}

// closeRights closes the descriptors of a received message.
func closeRights(control []byte) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}
}

// engineEnv is the environment of an interpreter that runs the engine package in dir.
func engineEnv(env []string, dir string) []string {
	return slices.Concat(withoutHost(env), []string{"PYTHONPATH=" + dir + pathTail(env), "PYTHONDONTWRITEBYTECODE=1"})
}

// tail keeps the last 4096 bytes written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-4096):]
	return len(p), nil
}

// line returns the last line.
func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lastLine(string(t.text))
}
