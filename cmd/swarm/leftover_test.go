package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// suspended leaves a suspended process of a killed coordinator in a home. It returns a GPU whose memory the process
// holds.
func suspended(t *testing.T, home string) (gpu string) {
	t.Helper()
	start := func() (*exec.Cmd, supervise.Identity) {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		id, err := supervise.Identify(cmd.Process.Pid)
		require.NoError(t, err)
		return cmd, id
	}
	node, nodeID := start()
	coordinator, coordinatorID := start()
	require.NoError(t, coordinator.Process.Kill())
	_ = coordinator.Wait()
	require.NoError(t, node.Process.Signal(syscall.SIGSTOP))
	record, err := json.Marshal(map[string]supervise.Identity{"process": nodeID, "parent": coordinatorID})
	require.NoError(t, err)
	dir := filepath.Join(home, "runs", "killed-1", "node_0")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	writeFile(t, filepath.Join(dir, supervise.PIDFileName), string(record))
	return fmt.Sprintf("%s:held=%d/14900", t4, nodeID.PID)
}

// Orphans of a killed coordinator end before the plan counts free memory, so that the same nodes fit again. swarm plan
// leaves the orphans alone.
func TestOrphansEndBeforePlanning(t *testing.T) {
	t.Parallel()
	onGPU := func(home, gpu string, args ...string) outcome {
		cmd := withGPUs(t, swarmCommand(t, home, args...), gpu)
		cmd.Env = append(cmd.Env, enginesOnCPU+"=1")
		return finish(t, cmd)
	}
	t.Run("up", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		gpu := suspended(t, home)
		planned := onGPU(home, gpu, append([]string{"plan"}, tinyRun("--device", "cuda")...)...)
		require.Equal(t, 3, planned.code, planned.stdout)
		require.Contains(t, planned.stderr, "free")
		o := onGPU(home, gpu, append([]string{"up", "--rounds", "1"}, tinyRun("--device", "cuda")...)...)
		require.Equal(t, 0, o.code, o.stderr)
		require.Contains(t, o.stderr, "ended a leftover process of an earlier run")
	})
	t.Run("join", func(t *testing.T) {
		t.Parallel()
		home, host := t.TempDir(), t.TempDir()
		up := swarmCommand(t, host, append([]string{"up", "--rounds", "3", "--listen", "127.0.0.1:0"}, tinyRun("--nodes", "0")...)...)
		require.NoError(t, up.Start())
		t.Cleanup(func() { _ = up.Process.Kill() })
		file := filepath.Join(host, "workers", "invitation")
		require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, patience, pollEvery)
		o := onGPU(home, suspended(t, home), "join", "--url-file", file, "--model", tinyModel(), "--tasks-file", items(), "--device", "cuda", "--nodes", "1")
		require.Equal(t, 0, o.code, o.stderr)
		require.Contains(t, o.stderr, "ended a leftover process of an earlier run")
		require.Zero(t, waitFor(t, up))
	})
}
