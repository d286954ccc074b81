package node

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

// What NVIDIA MPS goes by, in the environment of a node whose GPU is shared through it.
const (
	mpsProgram = "nvidia-cuda-mps-control"
	mpsPipe    = "CUDA_MPS_PIPE_DIRECTORY"
	mpsLimit   = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
)

// mpsAnswers bounds what the control daemon may take before a kill, all its answers together.
const mpsAnswers = 3 * time.Second

// mpsLimits tells whether MPS limits the memory of processes with this environment. The driver then tells them what is
// left of the limit as free, instead of what the GPU has.
func mpsLimits(environ []string) bool { return value(environ, mpsLimit) != "" }

// BeforeKill is policy.Options.BeforeKill of engines with this environment, nil without MPS. Under MPS a client that is
// killed within a kernel can take its server and all other clients with it. So the server ends the client's work first
// (terminate_client). That is bounded by mpsAnswers. trouble gets a line where it fails: the kill follows in any case.
func BeforeKill(environ []string, trouble func(string)) func(pid int) {
	if value(environ, mpsPipe) == "" {
		return nil
	}
	return func(pid int) {
		ctx, cancel := context.WithTimeout(context.Background(), mpsAnswers)
		defer cancel()
		if err := terminate(ctx, environ, pid); err != nil {
			trouble(fmt.Sprintf("MPS did not let go of the engine that is about to be killed: %v", err))
		}
	}
}

// terminate has each server of the daemon (one a user) end the work of a client. Servers of which it is none refuse.
func terminate(ctx context.Context, environ []string, pid int) error {
	servers, err := askMPS(ctx, environ, "get_server_list")
	if err != nil {
		return err
	}
	for server := range strings.FieldsSeq(servers) {
		if _, err := strconv.Atoi(server); err != nil {
			continue // an answer in words
		}
		if _, err := askMPS(ctx, environ, fmt.Sprintf("terminate_client %s %d", server, pid)); err != nil {
			return err
		}
	}
	return nil
}

// askMPS sends one command to the daemon, and returns what it answers.
func askMPS(ctx context.Context, environ []string, command string) (string, error) {
	cmd := exec.CommandContext(ctx, mpsProgram)
	var stdout bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout = environ, strings.NewReader(command+"\n"), &stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C at the terminal is not for it
	cmd.WaitDelay = 100 * time.Millisecond
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", mpsAnswers)
		}
		return "", fmt.Errorf("%s: %s: %w", mpsProgram, command, err)
	}
	return stdout.String(), nil
}

// value is a variable's in an environment; of several the last counts, as for a process.
func value(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if text, found := strings.CutPrefix(entry, name+"="); found {
			return text
		}
	}
	return ""
}
