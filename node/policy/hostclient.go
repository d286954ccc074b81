package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// HostVariable tells a process which engine host it has inherited: "FD:INODE", the descriptor of the socket and its
// inode. The inode shows whether the descriptor has been reused. A trailing "+" keeps the descriptor open for all
// child processes. "off" disables engine hosts.
const HostVariable = "SWARM_ENGINE_HOST"

const (
	forkLimit   = 2 * time.Second // for a fork, which takes milliseconds; a stopped host delays a start by this
	statusGrace = time.Second     // from an engine's end to the host's report of its status
)

// errNoHost reports that no host can fork the engine, and why. The engine is then started directly.
var errNoHost = errors.New("not forked")

// HostClient requests engines from an engine host. Several processes may have a client of the same host. A nil
// client forks nothing.
type HostClient struct {
	file *os.File
	conn *net.UnixConn
}

// newHostClient takes ownership of file, the clients' end of a host's socket.
func newHostClient(file *os.File) (*HostClient, error) {
	conn, err := packetConn(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return &HostClient{file, conn}, nil
}

// InheritHost returns a client of the host in the HostVariable of environ, nil if there is none.
func InheritHost(environ []string) *HostClient {
	at := slices.IndexFunc(environ, func(v string) bool { return strings.HasPrefix(v, HostVariable+"=") })
	if at < 0 {
		return nil
	}
	number, inode, _ := strings.Cut(strings.TrimPrefix(environ[at], HostVariable+"="), ":")
	inode, left := strings.CutSuffix(inode, "+")
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil
	}
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFSOCK || strconv.FormatUint(stat.Ino, 10) != inode {
		return nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3) // the descriptor stays open for later calls
	if err != nil {
		return nil
	}
	if !left {
		unix.CloseOnExec(fd)
	}
	// Otherwise os.File.Fd, which passes it to a child, would make the socket blocking for all that share it.
	_ = unix.SetNonblock(own, false)
	client, err := newHostClient(os.NewFile(uintptr(own), "engine host"))
	if err != nil {
		return nil
	}
	return client
}

// Share returns what a child process needs to inherit the host: a file to pass as descriptor fd, and a variable.
// For a nil client it returns no file, and a variable without a host.
func (c *HostClient) Share(fd int) (files []*os.File, variable string) {
	if c == nil {
		return nil, HostVariable + "="
	}
	var stat unix.Stat_t
	if unix.Fstat(int(c.file.Fd()), &stat) != nil {
		return nil, HostVariable + "="
	}
	return []*os.File{c.file}, fmt.Sprintf("%s=%d:%d", HostVariable, fd, stat.Ino)
}

// Leave makes every process that this one starts later inherit the host, through its environment. It is for tests.
func (c *HostClient) Leave() error {
	fd, err := unix.FcntlInt(c.file.Fd(), unix.F_DUPFD, 100) // above the numbers of a child's files
	if err != nil {
		return fmt.Errorf("leave the engine host: %w", err)
	}
	_, variable := c.Share(fd)
	name, value, _ := strings.Cut(variable, "=")
	return os.Setenv(name, value+"+")
}

// Close closes the client's descriptors.
func (c *HostClient) Close() {
	if c != nil {
		c.conn.Close()
		c.file.Close()
	}
}

// Describe requests the host's description.
func (c *HostClient) Describe(ctx context.Context) (HostHello, error) {
	var hello HostHello
	reply, theirs, err := packetPair()
	if err != nil {
		return hello, err
	}
	defer reply.Close()
	err = c.send(ctx, []byte("{}"), theirs)
	theirs.Close()
	if err != nil {
		return hello, err
	}
	line, err := receive(ctx, reply)
	if err != nil {
		return hello, err
	}
	if err := json.Unmarshal(line, &hello); err != nil {
		return hello, fmt.Errorf("engine host: %w", err)
	}
	return hello, nil
}

// hostAnswer is one message of a host or of an engine that it forked.
type hostAnswer struct {
	PID     int    `json:"pid"`
	Refused string `json:"refused"`
	Status  *int   `json:"status"` // as from wait(2)
}

// fork requests a fork of the host. On an error that wraps errNoHost, no process remains.
func (c *HostClient) fork(ctx context.Context, opts Options, stdin, stdout, stderr *os.File) (*forked, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is no engine host", errNoHost)
	}
	request, err := json.Marshal(map[string]any{
		"owner": os.Getpid(), "package": opts.Dir, "python": opts.Python, "environ": environ(withoutHost(opts.Env)),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoHost, err)
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("%w: pidfd_open: %w", errNoHost, err) // Linux before 5.3, or a sandbox
	}
	owner := os.NewFile(uintptr(self), "pidfd")
	defer owner.Close()
	reply, theirs, err := packetPair()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoHost, err)
	}
	ctx, cancel := context.WithTimeout(ctx, forkLimit)
	defer cancel()
	err = c.send(ctx, request, stdin, stdout, stderr, theirs, owner)
	theirs.Close()
	var line []byte
	if err == nil {
		line, err = receive(ctx, reply)
	}
	var answer hostAnswer
	if err == nil {
		err = json.Unmarshal(line, &answer)
	}
	switch {
	case err != nil:
	case answer.Refused != "":
		err = errors.New(answer.Refused)
	case answer.PID <= 1:
		err = fmt.Errorf("it answers %.80q", line)
	}
	if err != nil {
		reply.Close()
		return nil, fmt.Errorf("%w: %w", errNoHost, err)
	}
	f, err := newForked(answer.PID, reply)
	if err != nil {
		reply.Close()
		return nil, fmt.Errorf("%w: %w", errNoHost, err)
	}
	return f, nil
}

// send sends a message with descriptors before the deadline of ctx.
func (c *HostClient) send(ctx context.Context, message []byte, files ...*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd())) // Fd makes a pipe blocking, as the engine expects
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(forkLimit)
	}
	_ = c.conn.SetWriteDeadline(deadline)
	if _, _, err := c.conn.WriteMsgUnix(message, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("ask the engine host: %w", err)
	}
	return nil
}

// receive reads one message.
func receive(ctx context.Context, conn *net.UnixConn) ([]byte, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(forkLimit)
	}
	_ = conn.SetReadDeadline(deadline)
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	message := make([]byte, 1<<16)
	n, err := conn.Read(message)
	if err == nil && n == 0 {
		err = errors.New("no answer")
	}
	if err != nil {
		return nil, fmt.Errorf("the engine host: %w", err)
	}
	return message[:n], nil
}

// forked is an engine that a host forked for this process.
type forked struct {
	id    int
	pidfd *os.File
	reply *net.UnixConn // the host keeps the engine's pid until this is closed
}

func newForked(pid int, reply *net.UnixConn) (*forked, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	_ = unix.SetNonblock(fd, true) // so that os.NewFile can poll it
	return &forked{pid, os.NewFile(uintptr(fd), "pidfd"), reply}, nil
}

func (f *forked) pid() int { return f.id }

// wait returns when the engine has ended: nil after exit code 0, else an *ExitError.
func (f *forked) wait() error {
	defer f.pidfd.Close()
	defer f.reply.Close()
	told := make(chan *int, 1)
	_ = f.reply.SetReadDeadline(time.Time{})
	go func() {
		var answer hostAnswer
		message := make([]byte, 256)
		if n, err := f.reply.Read(message); err == nil && n > 0 {
			_ = json.Unmarshal(message[:n], &answer)
		}
		told <- answer.Status
	}()
	f.gone()
	_ = f.reply.SetReadDeadline(time.Now().Add(statusGrace))
	status := <-told
	switch {
	case status == nil:
		return &ExitError{Unknown: true}
	case *status == 0:
		return nil
	}
	return &ExitError{Status: syscall.WaitStatus(*status)}
}

// gone waits for the engine's end.
func (f *forked) gone() {
	raw, err := f.pidfd.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, _ := unix.Poll(ready, 0)
			return n > 0
		})
	}
	for ; err != nil; time.Sleep(10 * time.Millisecond) { // if pidfds cannot be polled
		if state, ok := processState(f.id); !ok || state == 'Z' {
			return
		}
	}
}

// ExitError is the status of an engine that did not exit with 0.
type ExitError struct {
	Status  syscall.WaitStatus
	Unknown bool // the engine host, which alone gets the status, had died before
}

func (e *ExitError) Error() string {
	switch {
	case e.Unknown:
		return "it has ended; its exit status is unknown, because the engine host has ended, too"
	case e.Status.Signaled():
		return "signal: " + e.Status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", e.Status.ExitStatus())
}

// packetPair returns a connected pair of sockets that preserve message boundaries.
func packetPair() (*net.UnixConn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "answers"), os.NewFile(uintptr(pair[1]), "answers")
	conn, err := packetConn(ours)
	ours.Close()
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// packetConn returns a separate connection on a file's socket.
func packetConn(file *os.File) (*net.UnixConn, error) {
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("socket: not a Unix socket")
	}
	return unixConn, nil
}

// environ returns env as a process sees it: of several values of a variable, the last counts.
func environ(env []string) []string {
	last := map[string]string{}
	for _, item := range env {
		if name, value, ok := strings.Cut(item, "="); ok && name != "" {
			last[name] = value
		}
	}
	list := make([]string, 0, len(last))
	for name, value := range last {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// withoutHost returns env without HostVariable, because engines do not inherit the host's socket.
func withoutHost(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, HostVariable+"=") })
}
