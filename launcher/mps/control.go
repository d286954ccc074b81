// Package mps runs NVIDIA's Multi-Process Service for one run. Each GPU gets its own control daemon in a private pipe
// directory. The package sets the environment of client processes, proves that the limits really hold, and handles
// server faults. The facts are from NVIDIA's documentation, https://docs.nvidia.com/deploy/mps (the interface that it
// calls Legacy MPS v2, which every driver supports). The package never imports node or metrics/store.
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

// Program is NVIDIA's control daemon, which is also the client that sends commands to the daemon.
const Program = "nvidia-cuda-mps-control"

// Environment variables of MPS.
const (
	pipeVariable    = "CUDA_MPS_PIPE_DIRECTORY"
	logVariable     = "CUDA_MPS_LOG_DIRECTORY"
	memoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	visibleVariable = "CUDA_VISIBLE_DEVICES"
)

// pace bounds every wait. Tests use shorter bounds.
type pace struct {
	ask      time.Duration // one command to the daemon; a healthy daemon answers within milliseconds
	start    time.Duration // from the start of the daemon to its first answer
	quit     time.Duration // for the daemon and its servers to end after quit
	kill     time.Duration // for them to end after SIGKILL
	canary   time.Duration // a cold driver takes seconds to open a GPU
	listed   time.Duration // from a client's first allocation to its entry in the client list
	look     time.Duration // between two looks at a daemon's processes and log; well within launch.Spec.FaultSettle
	rest     time.Duration // between two polls of a daemon whose processes and log do not change; it logs every command
	patience time.Duration // from a fault until the server recovers without help; then the daemon is restarted
	regroup  time.Duration // from the loss of a daemon to its restart; its clients are stopped meanwhile
}

var normalPace = pace{
	ask: 5 * time.Second, start: 15 * time.Second, quit: 8 * time.Second, kill: 3 * time.Second,
	canary: time.Minute, listed: 10 * time.Second,
	look: time.Second, rest: 10 * time.Second, patience: 20 * time.Second, regroup: 10 * time.Second,
}

// errDown reports that no daemon serves the pipe directory.
var errDown = errors.New("no MPS control daemon answers")

// control sends commands to the daemon of one pipe directory.
type control struct {
	program string
	env     []string // the whole environment of the daemon and the commands
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

// ask sends one command within pace.ask and returns the answer. The error wraps errDown if no daemon runs.
func (c control) ask(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.pace.ask)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.program)
	cmd.Env = c.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(command+"\n"), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // keeps a Ctrl-C at the terminal away from it
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
	status  string // statusActive, statusFault, or another state that the daemon reports, such as INITIALIZING
	clients []int  // process ids
}

// States of a server.
const (
	statusActive = "ACTIVE"
	statusFault  = "FAULT" // after a fatal GPU error, until all its clients have exited
)

// servers lists the daemon's servers: none before the first client, then one per user.
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

// terminate makes a server end the GPU work of a client, busy or not. Only after terminate can the client be killed
// without harm to the others. The daemon answers when it is done: 0, or a CUDA error.
func (c control) terminate(ctx context.Context, server, client int) error {
	answer, err := c.ask(ctx, fmt.Sprintf("terminate_client %d %d", server, client))
	if err == nil && answer != "" && answer != "0" && answer != "CUDA_SUCCESS" {
		err = fmt.Errorf("mps: client %d was not terminated: %.200s", client, answer)
	}
	return err
}

// pids reads an answer with one process id per line. It skips other lines, such as error messages.
func pids(answer string) []int {
	var found []int
	for line := range strings.Lines(answer) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			found = append(found, pid)
		}
	}
	return found
}
