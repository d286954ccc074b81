package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// A worker whose name was taken goes by another one, and the same command is that worker again, not a third.
func TestTheSameCommandIsTheSameWorkerAlsoWhereItsNameWasTaken(t *testing.T) {
	t.Parallel()
	home, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	up := start(t, home, "--listen", "127.0.0.1:0", "--nodes", "0", "--rounds", "200")
	invitation := invitationOf(t, up)
	for _, home := range []string{first, second, second} {
		worker := joinTiny(t, home, invitation, "--name", "anna")
		worker.await("its node", func(e event.Event) bool { return e.Type == event.TypeJoin })
		require.NoError(t, worker.cmd.Process.Signal(os.Interrupt))
		worker.wait()
	}
	listed := swarm(t, home, "workers")
	require.Contains(t, listed.stdout, "anna-2", listed.stderr)
	require.NotContains(t, listed.stdout, "anna-3")
	require.NoError(t, up.cmd.Process.Signal(os.Interrupt))
	up.wait()

	kept, err := filepath.Glob(filepath.Join(second, "joined", "*.json"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	info, err := os.Stat(kept[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "credentials are for their owner alone")
}
