package swarmtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
)

// Patience bounds every wait of these tests. It measures nothing.
const Patience = 10 * time.Minute

// TinyRun returns the flags of a run that takes seconds: the tiny model, two nodes, I/J/G 2/2/4.
func TinyRun(more ...string) []string {
	return append([]string{
		"--model", TinyModel(), "--set", "tasks.file=" + Items(), "--device", "cpu", "--nodes", "2", "--num-train-samples", "2",
		"--num-transplant-trees", "2", "--num-generations", "4", "--set", "max_prompt_length=32", "--set", "max_completion_length=24",
		"--set", "barrier_deadline=60", "--set", "eval_questions=0",
	}, more...)
}

// Command returns a swarm process that is not yet started.
func Command(t testing.TB, home string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("swarm", append([]string{"--home", home}, args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SWARM_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "SWARM_PYTHON="+Python(t), policy.HostVariable+"="+os.Getenv(policy.HostVariable))
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Outcome is the result of a command.
type Outcome struct {
	Code           int
	Stdout, Stderr string
}

// Finish runs a command to its end, for at most Patience.
func Finish(t testing.TB, cmd *exec.Cmd) Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	return Outcome{WaitFor(t, cmd), stdout.String(), stderr.String()}
}

// WaitFor waits for a started command and returns its exit code, 128 + N if signal N ended it.
func WaitFor(t testing.TB, cmd *exec.Cmd) int {
	t.Helper()
	timer := time.AfterFunc(Patience, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !timer.Stop() {
		t.Fatalf("%v did not end within %s", cmd.Args, Patience)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}
