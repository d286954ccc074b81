package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A copy holds what the database held, is a database of its own, and a failed one leaves nothing.
func TestCopyTo(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), filepath.Join(dir, "swarm.db"), Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.StartRun(t.Context(), Run{Run: "a-1", Experiment: "a", Rounds: 2, NodeIDs: []string{"node_0"}, Started: 1}))
	r, err := OpenReader(t.Context(), filepath.Join(dir, "swarm.db"))
	require.NoError(t, err)
	defer r.Close()

	path := filepath.Join(dir, "copy.db")
	require.NoError(t, r.CopyTo(t.Context(), path))
	require.ErrorIs(t, r.CopyTo(t.Context(), path), os.ErrExist)
	copied, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer copied.Close()
	want, err := r.Snapshot(t.Context(), "a-1")
	require.NoError(t, err)
	got, err := copied.Snapshot(t.Context(), "a-1")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)) // NaN is not equal to itself

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, r.CopyTo(ctx, filepath.Join(dir, "never.db")))
	_, err = os.Stat(filepath.Join(dir, "never.db"))
	require.True(t, errors.Is(err, os.ErrNotExist))
}
