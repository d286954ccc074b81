package lifecycle

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestEngineHostIsTheProcessOfItsPIDFile(t *testing.T) {
	home, running := layout.Home(t.TempDir()), stats.Status{Run: "a-1", State: store.RunRunning}
	require.Nil(t, EngineHost(home, running), "without a file")
	child := exec.Command("sleep", "600")
	require.NoError(t, child.Start())
	defer child.Process.Kill() //nolint:errcheck // it may be gone
	path := filepath.Join(home.Run("a-1"), HostFolder, supervise.PIDFileName)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, supervise.Record(path, child.Process.Pid))
	host := EngineHost(home, running)
	require.NotNil(t, host)
	require.Equal(t, child.Process.Pid, host.PID)
	require.Positive(t, host.RSSBytes)
	require.Nil(t, EngineHost(home, stats.Status{Run: "a-1", State: store.RunStopped}), "of a run that has ended")
	require.NoError(t, child.Process.Kill())
	_, _ = child.Process.Wait()
	require.Nil(t, EngineHost(home, running), "its process is gone")
}
