package mps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

const (
	pollPause     = 20 * time.Millisecond
	programPrefix = "nvidia-cuda-mps-" // control, server

	// socketLimit is the longest path of a Unix socket, without the final zero (unix(7)). With a longer path the
	// daemon starts and ends without an error message.
	socketLimit = 107
	longestName = "nvidia-cuda-mps-control.pid" // longest name of a file in the pipe directory
)

// daemon is one control daemon that this process started, with its servers.
type daemon struct {
	control control
	device  string // UUID of the GPU
	pipe    string // private directory for sockets; short path
	logs    string // directory of control.log (bounded by trimLog), server.log, start.log
	path    string // of the record that Sweep reads
	id      supervise.Identity
}

// start starts a daemon for one GPU. The folder dir receives the daemon's logs and the record that Sweep reads. If
// start fails, it leaves no daemon behind.
func start(ctx context.Context, program, dir, device string, p pace) (*daemon, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("mps: %w", err)
	}
	pipe, err := makePipe(os.TempDir(), "/tmp")
	if err != nil {
		return nil, err
	}
	d := &daemon{control: newControl(program, pipe, dir, device, p), device: device, pipe: pipe, logs: dir, path: filepath.Join(dir, recordName)}
	if err := d.launch(ctx); err != nil {
		return nil, errors.Join(err, d.stop(context.WithoutCancel(ctx)))
	}
	return d, nil
}

// makePipe makes a private directory in the first place with a path short enough for a socket.
func makePipe(places ...string) (string, error) {
	for _, place := range places {
		if len(place)+len("/swarm-mps-4294967295/")+len(longestName) > socketLimit {
			continue
		}
		dir, err := os.MkdirTemp(place, "swarm-mps-") // mode 0700
		if err != nil {
			return "", fmt.Errorf("mps: pipe directory: %w. Try: TMPDIR=/tmp", err)
		}
		return dir, nil
	}
	return "", fmt.Errorf("mps: pipe directory: the path %s is too long for a socket. Try: TMPDIR=/tmp", strings.Join(places, ", "))
}

// launch runs the daemon and returns once the daemon answers. It writes the record first. If this process dies in
// between, Sweep finds the daemon by its pipe directory.
func (d *daemon) launch(ctx context.Context) error {
	d.id = supervise.Identity{}
	if err := d.record(); err != nil {
		return err
	}
	said, err := d.run(ctx)
	if err != nil {
		return unavailable("%s -d failed: %s", Program, oneLine(said, err))
	}
	ctx, cancel := context.WithTimeout(ctx, d.control.pace.start)
	defer cancel()
	for {
		pid, pidErr := d.readPID()
		if pidErr == nil {
			if _, err = d.control.ask(ctx, "get_server_list"); err == nil {
				if d.id, err = supervise.Identify(pid); err != nil {
					return unavailable("the control daemon ended right after its start: %s", oneLine(d.lastWords(), err))
				}
				return d.record()
			}
		}
		if pause(ctx, pollPause) != nil {
			return unavailable("the control daemon did not answer within %s: %s", d.control.pace.start, oneLine(d.lastWords(), errors.Join(pidErr, err)))
		}
	}
}

// run starts the daemon in the background. Its output goes to a file, because the daemon may keep a pipe open
// forever.
func (d *daemon) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.control.pace.start)
	defer cancel()
	path := filepath.Join(d.logs, "start.log")
	output, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("mps: %w", err)
	}
	defer output.Close()
	cmd := exec.CommandContext(ctx, d.control.program, "-d")
	cmd.Env = d.control.env
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Run()
	said, _ := os.ReadFile(path)
	return string(said), err
}

// readPID returns the process id in the pid file of the pipe directory.
func (d *daemon) readPID() (int, error) {
	text, err := os.ReadFile(filepath.Join(d.pipe, longestName))
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("pid file of the MPS control daemon: %.40q", text)
	}
	return pid, nil
}

// lastWords returns the last line of the daemon's logs, for an error message.
func (d *daemon) lastWords() string {
	for _, name := range []string{"server.log", controlLog, "start.log"} {
		if line := lastLine(filepath.Join(d.logs, name)); line != "" {
			return line
		}
	}
	return ""
}

// lastLine returns the last line of a log, or its end if the line is long.
func lastLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	const most = 4096
	text, _ := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-most), most))
	lines := strings.Split(strings.Trim(string(text), "\x00\n "), "\n") // trimLog can leave zero bytes at the start
	return lines[len(lines)-1]
}

const (
	controlLog      = "control.log"
	controlLogBytes = 8 << 20
)

// trimLog empties control.log once it takes more than controlLogBytes on the disk. The daemon logs every command and
// its answer there, and never truncates it. If the daemon does not append but writes at its own offset, which NVIDIA
// does not document, the file's size stays and its start is a hole, which takes no space.
func (d *daemon) trimLog() {
	path := filepath.Join(d.logs, controlLog)
	info, err := os.Stat(path)
	if err != nil {
		return
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Blocks*512 > controlLogBytes {
		_ = os.Truncate(path, 0) // tried again after the next poll
	}
}

// stop ends the daemon and its servers in any state, and removes the pipe directory and the record. End the clients
// first.
func (d *daemon) stop(ctx context.Context) error {
	if err := d.halt(ctx); err != nil {
		return err // keep the record for Sweep
	}
	return errors.Join(os.RemoveAll(d.pipe), removeFile(d.path))
}

// restart replaces a broken daemon by a new one in the same directories, which the nodes' environment names.
func (d *daemon) restart(ctx context.Context) error {
	if err := d.halt(ctx); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.pipe)
	if err != nil {
		return fmt.Errorf("mps: %w", err)
	}
	for _, entry := range entries { // files of the dead daemon would look like a running one
		if err := os.RemoveAll(filepath.Join(d.pipe, entry.Name())); err != nil {
			return fmt.Errorf("mps: %w", err)
		}
	}
	return d.launch(ctx)
}

// oneLine returns a program's output, or the error if there is none, on one line of at most 200 bytes.
func oneLine(said string, err error) string {
	if said = strings.Join(strings.Fields(said), " "); said != "" {
		return fmt.Sprintf("%.200s", said)
	}
	return fmt.Sprintf("%.200s", strings.Join(strings.Fields(fmt.Sprint(err)), " "))
}
