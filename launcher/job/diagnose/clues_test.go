package diagnose

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
)

// "Larger batch_size = faster training" is prose. The batch comes from the training's file.
func TestWordsOfALogAreNoNumbers(t *testing.T) {
	t.Parallel()
	require.True(t, alike("64", "45"))
	require.True(t, alike("1e-4", "0.1"))
	require.True(t, alike("True", "False"))
	require.False(t, alike("faster", "45"))
}

// swarm doctor reads the files like swarm tune: it ignores computed values, and names places that differ.
func TestValuesOfTheFilesAreThoseThatTuneReads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("length: ${model.length}\na: 8\nb: 16\n"), 0o600))
	w, err := configs.ParseWorkload("p.yaml", []byte("name: p\nvalues:\n  - {name: batch, role: batch, start: 4}\n"+
		"  - {name: length, start: 1024, place: 'c.yaml:length'}\n  - {name: width, start: 1, place: ['c.yaml:a', 'c.yaml:b']}\n"))
	require.NoError(t, err)
	require.Equal(t, []Value{
		{Name: "batch", Value: "4", From: "presumed: the profile's start"},
		{Name: "length", Value: "1024", From: "presumed: the profile's start", Note: "c.yaml:1 has ${model.length}, which is not a plain number"},
		{Name: "width", Value: "16", From: "c.yaml:3", Note: "c.yaml:2 has 8 and c.yaml:3 has 16"},
	}, newClues([]configs.Workload{w}).values(w, dir))
}
