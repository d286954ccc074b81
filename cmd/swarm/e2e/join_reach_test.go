package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/workers"
)

// A coordinator in the background writes the invitation's secret to no file that others may read, and prints the
// file's path.
func TestInBackgroundTheInvitationIsNotLogged(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	a := detached(t, home, "--nodes", "0", "--listen", "127.0.0.1:0")
	require.Equal(t, filepath.Join(home, "workers", "invitation"), a.JoinFile)
	require.Equal(t, "swarm join --url-file "+a.JoinFile, a.Join)
	invitation, err := workers.ReadInvitation(layout.Home(home))
	require.NoError(t, err)
	found := 0
	require.NoError(t, filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(invitation.Token)) {
			found++
			require.Equal(t, filepath.Join(home, "workers"), filepath.Dir(path))
		}
		return err
	}))
	require.NotZero(t, found)
	info, err := os.Stat(filepath.Join(home, "workers"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	require.Zero(t, swarm(t, home, "down", "e").code)
}
