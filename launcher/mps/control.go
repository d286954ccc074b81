// Package mps owns NVIDIA's Multi-Process Service for one run: a control daemon of its own for each GPU in a private
// pipe directory, what a client process needs in its environment, the proof that clients really are governed, and what
// to do when a server faults. Facts are from NVIDIA's documentation, https://docs.nvidia.com/deploy/mps (the interface
// that it calls Legacy MPS v2, which every driver speaks). It imports launcher and supervise, never node or
// metrics/store.
package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Program is NVIDIA's control daemon, which also is the client that talks to it.
const Program = "nvidia-cuda-mps-control"

// Environment names of MPS.
const (
	pipeVariable    = "CUDA_MPS_PIPE_DIRECTORY"
	logVariable     = "CUDA_MPS_LOG_DIRECTORY"
	memoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	visibleVariable = "CUDA_VISIBLE_DEVICES"
)

// pace bounds every wait. Tests hurry.
type pace struct {
	ask      time.Duration // one command to the daemon, which answers within milliseconds when it is well
	start    time.Duration // from the start of the daemon to its first answer
	quit     time.Duration // of the daemon and its servers, when asked
	kill     time.Duration // and when not
	canary   time.Duration // a cold driver takes seconds to open a GPU
	listed   time.Duration // from a client's first allocation to its place in the list
	look     time.Duration // between two looks at a daemon; well within launch.Spec.FaultSettle
	patience time.Duration // from a fault to the server's recovery by itself; then the daemon is restarted
	regroup  time.Duration // from the loss of a daemon to its restart: its clients are ended meanwhile
}

var normalPace = pace{
	ask: 5 * time.Second, start: 15 * time.Second, quit: 8 * time.Second, kill: 3 * time.Second,
	canary: time.Minute, listed: 10 * time.Second,
	look: time.Second, patience: 20 * time.Second, regroup: 10 * time.Second,
}

// errDown says that no daemon serves the pipe directory.
var errDown = errors.New("no MPS control daemon answers")

// control talks to the daemon of one pipe directory.
type control struct {
	program string
	env     []string // the whole environment of daemon and commands
	pace    pace
}

func newControl(program, pipe, logs, device string, p pace) control {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CUDA_MPS_") && !strings.HasPrefix(v, visibleVariable+"=") {
			env = append(env, v)
		}
	}
	return control{program, append(env, pipeVariable+"="+pipe, logVariable+"="+logs, visibleVariable+"="+device), p}
}

// ask sends one command and returns the answer. It wraps errDown when there is no daemon, and is bounded.
func (c control) ask(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.pace.ask)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.program)
	cmd.Env = c.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(command+"\n"), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C at the terminal is not for it
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	said := strings.TrimSpace(stdout.String() + stderr.String())
	switch {
	case strings.Contains(said, "Cannot find MPS control daemon"):
		return "", fmt.Errorf("mps: %s: %w", command, errDown)
	case ctx.Err() != nil:
		return "", fmt.Errorf("mps: %s: no answer within %s: %w", command, c.pace.ask, context.Cause(ctx))
	case err != nil:
		return "", fmt.Errorf("mps: %s: %w: %.200s", command, err, said)
	}
	return strings.TrimSpace(stdout.String()), nil
}

// server is an nvidia-cuda-mps-server as the daemon describes it.
type server struct {
	pid     int
	status  string // statusActive, statusFault, or whatever else it says, such as INITIALIZING
	clients []int  // process ids
}

// States of a server.
const (
	statusActive = "ACTIVE"
	statusFault  = "FAULT" // after a fatal GPU error, until all its clients have exited
)

// servers lists the daemon's servers: none before the first client, then one a user.
func (c control) servers(ctx context.Context) ([]server, error) {
	list, err := c.ask(ctx, "get_server_list")
	if err != nil {
		return nil, err
	}
	var servers []server
	for _, pid := range pids(list) {
		status, err := c.ask(ctx, fmt.Sprintf("get_server_status %d", pid))
		if err != nil {
			return nil, err
		}
		clients, err := c.ask(ctx, fmt.Sprintf("get_client_list %d", pid))
		if err != nil {
			return nil, err
		}
		servers = append(servers, server{pid: pid, status: strings.ToUpper(status), clients: pids(clients)})
	}
	return servers, nil
}

// terminate makes a server end the GPU work of a client, busy or not. After that, and not before, the client may be
// killed without harm to the others. The daemon answers once it is done: 0, or a CUDA error.
func (c control) terminate(ctx context.Context, server, client int) error {
	answer, err := c.ask(ctx, fmt.Sprintf("terminate_client %d %d", server, client))
	if err == nil && answer != "" && answer != "0" && answer != "CUDA_SUCCESS" {
		err = fmt.Errorf("mps: client %d was not terminated: %.200s", client, answer)
	}
	return err
}

// pids reads an answer of one process id a line; other lines, such as errors in words, are none.
func pids(answer string) []int {
	var found []int
	for line := range strings.Lines(answer) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			found = append(found, pid)
		}
	}
	return found
}
