package main

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// What keeps a worker from a shared folder's swarm is said: another experiment's folder, or nobody there when it is stopped.
func TestReachThroughAFolderSaysWhatIsWrong(t *testing.T) {
	shared := t.TempDir()
	dir, err := sharedir.Folder(shared, "mine")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, sharedir.Announce(dir, membership.Welcome{Protocol: membership.Protocol, Run: "theirs-1", Experiment: "theirs"}))
	var log bytes.Buffer
	g := &globals{home: layout.Home(t.TempDir()), logger: slog.New(slog.NewTextHandler(&log, nil))}
	o := joinOptions{shared: shared, experiment: "mine", name: "w"}
	_, err = o.connect(t.Context(), g)
	require.ErrorContains(t, err, "is of experiment theirs, not of mine")

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o.experiment = "nobodys"
	_, err = o.connect(ctx, g)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "experiment nobodys isn't in "+shared)
}

// A coordinator in the background says the invitation's secret to who started it, and writes it nowhere that others may read.
func TestInBackgroundTheInvitationIsNotLogged(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	a := detached(t, home, "--nodes", "0", "--listen", "127.0.0.1:0")
	require.Contains(t, a.Join, "swarm join 'tls://127.0.0.1:")
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
