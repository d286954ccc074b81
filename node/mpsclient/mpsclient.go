// Package mpsclient handles an engine as a client of NVIDIA MPS, by the environment that the launcher gave its node:
// the memory that MPS allows it, how it is ended without harm to other clients, and how it stays away from others'
// daemons.
package mpsclient

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names that NVIDIA MPS uses in the environment of a node that shares its GPU through MPS.
const (
	program = "nvidia-cuda-mps-control"
	pipe    = "CUDA_MPS_PIPE_DIRECTORY"
	limit   = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	nowhere = "/dev/null" // value of pipe that no daemon can use; engine/ending.py has it, too
)

// answers bounds the time for all answers of the control daemon before a kill.
const answers = 3 * time.Second

// Limits reports whether MPS limits the memory of processes with this environment. The driver then reports the
// rest of the limit as free, instead of the GPU's free memory.
func Limits(environ []string) bool { return value(environ, limit) != "" }

// Apart keeps an engine without a pipe directory away from every MPS daemon. Without the variable, the CUDA driver
// connects to a daemon at the default path, and may wait there for another user's clients. After a failed connection it
// runs without MPS. Nodes without MPS are never on a GPU in compute mode EXCLUSIVE_PROCESS (plan.Describe), which could
// require that daemon.
func Apart(environ []string) []string {
	if value(environ, pipe) != "" {
		return environ
	}
	return slices.Concat(environ, []string{pipe + "=" + nowhere})
}

// BeforeKill returns policy.Options.BeforeKill for engines with this environment, nil without MPS. Under MPS, a
// client that is killed inside a kernel can crash its server and all other clients. So the server ends the client's
// work first (terminate_client), within answers. If that fails, trouble receives a line, and the kill follows
// anyway.
func BeforeKill(environ []string, trouble func(string)) func(pid int) {
	if set := value(environ, pipe); set == "" || set == nowhere {
		return nil
	}
	return func(pid int) {
		ctx, cancel := context.WithTimeout(context.Background(), answers)
		defer cancel()
		if err := terminate(ctx, environ, pid); err != nil {
			trouble(fmt.Sprintf("MPS did not release the engine before its kill: %v", err))
		}
	}
}

// terminate asks each server of the daemon (one a user) to end the work of a client. Servers that do not have the
// client refuse.
func terminate(ctx context.Context, environ []string, pid int) error {
	servers, err := ask(ctx, environ, "get_server_list")
	if err != nil {
		return err
	}
	for server := range strings.FieldsSeq(servers) {
		if _, err := strconv.Atoi(server); err != nil {
			continue // an answer in words
		}
		if _, err := ask(ctx, environ, fmt.Sprintf("terminate_client %s %d", server, pid)); err != nil {
			return err
		}
	}
	return nil
}

// ask sends one command to the daemon and returns its answer.
func ask(ctx context.Context, environ []string, command string) (string, error) {
	cmd := exec.CommandContext(ctx, program)
	var stdout bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout = environ, strings.NewReader(command+"\n"), &stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // do not pass a Ctrl-C at the terminal on to it
	cmd.WaitDelay = 100 * time.Millisecond
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", answers)
		}
		return "", fmt.Errorf("%s: %s: %w", program, command, err)
	}
	return stdout.String(), nil
}

// value returns a variable of an environment. The last entry counts, as in a process.
func value(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if text, found := strings.CutPrefix(entry, name+"="); found {
			return text
		}
	}
	return ""
}
