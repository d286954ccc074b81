package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
)

// sharedCard is a T4 whose free memory can change while programs read it.
type sharedCard struct {
	t    *testing.T
	file string
	tmp  string
}

func newSharedCard(t *testing.T, freeMiB string) *sharedCard {
	c := &sharedCard{t: t, tmp: t.TempDir()}
	c.file = filepath.Join(c.tmp, "gpus")
	c.set(freeMiB)
	return c
}

func (c *sharedCard) set(freeMiB string) {
	c.t.Helper()
	fresh := c.file + ".new"
	require.NoError(c.t, os.WriteFile(fresh, []byte("Tesla T4:15360:"+freeMiB+"\n"), 0o644))
	require.NoError(c.t, os.Rename(fresh, c.file))
}

// plan returns a swarm plan command that waits for the card.
func (c *sharedCard) plan(args ...string) *exec.Cmd {
	cmd := swarmCommand(c.t, c.t.TempDir(), append([]string{"plan", "--model", "gpt2", "-o", "json", "--gpu-check-interval", "50ms"}, args...)...)
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(c.t), "FAKE_NVML_FILE="+c.file, "TMPDIR="+c.tmp)
	return cmd
}

// started runs a command and returns its stdout and a channel with the lines of its stderr.
func started(t *testing.T, cmd *exec.Cmd) (stdout *strings.Builder, lines <-chan string) {
	t.Helper()
	stdout = &strings.Builder{}
	cmd.Stdout = stdout
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	written := make(chan string)
	go func() {
		defer close(written)
		for scan := bufio.NewScanner(stderr); scan.Scan(); {
			select {
			case written <- scan.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	return stdout, written
}

func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(patience):
		t.Fatal("no line")
		return ""
	}
}

func TestWaitForGPUUntilMemoryIsFree(t *testing.T) {
	t.Parallel()
	card := newSharedCard(t, "2000")
	cmd := card.plan("--wait-for-gpu", "10m")
	stdout, lines := started(t, cmd)
	require.Regexp(t, `^Waiting for a GPU, for up to (10m0s|9m59s) more: GPU 0 has 2\.1 GB free of 16\.1 GB\.$`, next(t, lines))
	card.set("15000")
	for range lines {
	}
	require.NoError(t, cmd.Wait())
	var plan fit.Plan
	require.NoError(t, json.Unmarshal([]byte(stdout.String()), &plan))
	require.Equal(t, 1, plan.Nodes)
	require.Equal(t, int64(15000)<<20, plan.GPUs[0].MemoryFree)
}

func TestWaitForGPUGivesUp(t *testing.T) {
	t.Parallel()
	card := newSharedCard(t, "2000")
	o := finish(t, card.plan("--wait-for-gpu", "200ms"))
	require.Equal(t, 3, o.code)
	require.Contains(t, o.stderr, "Error: does not fit: waited 200ms for a GPU: a gpt2 node takes at least 3.4 GB and Tesla T4 has 2.1 GB free of 16.1 GB")
	require.Contains(t, o.stderr, "\nTry: a longer --wait-for-gpu, or a larger GPU, ")
}

// A need that waiting can't meet is an error at once.
func TestWaitForGPUIsNotInVain(t *testing.T) {
	t.Parallel()
	card := newSharedCard(t, "2000")
	for _, tt := range []struct{ args, err string }{
		{"--nodes 8", "enough for 6"},
		{"--min-gpu-memory 17GB", "none has 17 GB free"},
	} {
		o := finish(t, card.plan(append([]string{"--wait-for-gpu", "24h"}, strings.Fields(tt.args)...)...))
		require.Equal(t, 3, o.code)
		require.Contains(t, o.stderr, tt.err)
		require.NotContains(t, o.stderr, "Waiting")
	}
	card.set("15000")
	o := finish(t, card.plan("--wait-for-gpu", "24h", "--device", "cpu", "--model", "nano"))
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, `"device": "cpu"`)
}

// --wait-for-gpu waits for --min-gpu-memory, too.
func TestWaitForGPUWithMinimum(t *testing.T) {
	t.Parallel()
	card := newSharedCard(t, "9000")
	o := finish(t, card.plan("--wait-for-gpu", "100ms", "--min-gpu-memory", "10GB"))
	require.Equal(t, 3, o.code)
	require.Contains(t, o.stderr, "none has 10 GB free (--min-gpu-memory); Tesla T4 has 9.4 GB")
	o = finish(t, card.plan("--wait-for-gpu", "100ms", "--min-gpu-memory", "9GB"))
	require.Equal(t, 0, o.code, o.stderr)
}

func TestWaitForGPUStopsInOrder(t *testing.T) {
	t.Parallel()
	card := newSharedCard(t, "2000")
	cmd := card.plan("--wait-for-gpu", "10m")
	_, lines := started(t, cmd)
	next(t, lines)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	for range lines {
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode())
}

// A waiting plan does not use memory that another process is about to fill.
func TestWaitForGPUTakesTurns(t *testing.T) {
	card := newSharedCard(t, "15000")
	t.Setenv("TMPDIR", card.tmp)
	turn, err := plan.TakeTurn()
	require.NoError(t, err)
	cmd := card.plan("--wait-for-gpu", "10m")
	stdout, lines := started(t, cmd)
	require.Contains(t, next(t, lines), "GPU 0 has 15.7 GB free", "enough, but it is another's turn")
	turn.Release()
	for range lines {
	}
	require.NoError(t, cmd.Wait())
	require.Contains(t, stdout.String(), `"nodes": 1`)
}

func TestWaitFlagsRefuse(t *testing.T) {
	t.Parallel()
	for args, err := range map[string]string{
		"--wait-for-gpu soon":          `invalid argument "soon" for "--wait-for-gpu"`,
		"--wait-for-gpu -1m":           `bad wait-for-gpu "-1m0s": allowed: a time such as 60m, or 0 not to wait`,
		"--gpu-check-interval 0s":      `bad gpu-check-interval "0s": allowed: a time above 0, such as 30s`,
		"--min-gpu-memory lots":        `bad min-gpu-memory "lots": allowed: a size such as 40GB, 24576MiB or 512MB; a number without a unit is GB, up to 4096`,
		"--gpu-memory 40GB --nodes -1": `bad request: nodes "-1": allowed: auto, max or a number from 1`,
	} {
		o := finish(t, swarmCommand(t, t.TempDir(), append([]string{"plan"}, strings.Fields(args)...)...))
		require.Equal(t, 2, o.code)
		require.Contains(t, o.stderr, err)
	}
}
