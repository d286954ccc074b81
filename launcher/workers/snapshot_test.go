package workers

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// Everyone with access to the shared folder can read its content. It contains the records of the run that it
// carries, and nothing else from the home.
func TestOnlyTheRunGoesIntoTheSharedFolder(t *testing.T) {
	const canary = "canary-5f21c0de"
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "swarm.db"), store.Options{})
	require.NoError(t, err)
	defer s.Close()
	for _, run := range []string{"mine-1", "other-1"} {
		message := ""
		if run == "other-1" {
			message = canary
		}
		require.NoError(t, s.StartRun(t.Context(), store.Run{
			Run: run, Experiment: run[:len(run)-2], Rounds: 1, Nodes: 1, NodeIDs: []string{"node_0"}, Config: []byte("{}"), Plan: []byte("{}"),
			Versions: []byte("{}"), Started: 1000, Message: message, Host: canary, Command: &store.Command{Folder: "/" + canary, Arguments: []string{"--key", canary}},
		}))
	}
	_, err = s.StartJob(t.Context(), store.Job{Name: "job", Key: "k", Command: []string{"train", "--api-key", canary}, State: store.JobRunning, Started: 1000})
	require.NoError(t, err)
	require.NoError(t, s.Flush(t.Context()))
	reader, err := store.OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer reader.Close()

	shared := t.TempDir()
	dir, err := sharedir.Folder(shared, "mine")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "swarm"), 0o700))
	a := NewAdmission(Options{Shared: shared})
	a.run = Run{Name: "mine-1", Config: configs.Config{Experiment: "mine"}, Reader: reader, Store: s}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // leaves only the copy at the end
	a.snapshots(ctx, &folderTransport{dir: dir, run: "mine-1"}, slog.New(slog.DiscardHandler))

	found := 0
	require.NoError(t, filepath.Walk(shared, func(path string, info os.FileInfo, err error) error {
		require.NoError(t, err)
		if info.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.False(t, bytes.Contains(data, []byte(canary)), path)
		if filepath.Ext(path) == ".db" {
			found++
			copied, err := store.OpenFile(t.Context(), path)
			require.NoError(t, err)
			runs, err := copied.Runs(t.Context(), store.Filter{})
			require.NoError(t, err)
			require.NoError(t, copied.Close())
			require.Len(t, runs, 1)
			require.Equal(t, "mine-1", runs[0].Run.Run)
		}
		return nil
	}))
	require.Equal(t, 1, found)
}
