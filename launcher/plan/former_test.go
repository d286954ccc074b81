package plan

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/node/model"
)

// A run that began with an earlier program's embedded weights finds them where that program left them, if they are
// complete. Otherwise the remedy names the place.
func TestFormerWeightsAreFound(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "[home]") // not a glob pattern
	nano, err := configs.LoadModel("nano")
	require.NoError(t, err)
	dir, err := model.Resolve(nano, home)
	require.NoError(t, err)
	old := filepath.Join(home, "models", "nano-0123456789abcdef")
	require.NoError(t, os.CopyFS(old, os.DirFS(dir)))
	weights, err := os.ReadFile(filepath.Join(old, "model.safetensors"))
	require.NoError(t, err)
	weights[len(weights)-1] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(old, "model.safetensors"), weights, 0o644))
	hashes, err := InputHashes(t.Context(), old, configs.Tasks{})
	require.NoError(t, err)

	p := Planned{Model: nano}
	find := func(p Planned, began map[string]string) (dirs, inputs map[string]string, found []string) {
		dirs = map[string]string{nano.Key(): dir}
		inputs, err := InputsOf(t.Context(), p, dirs)
		require.NoError(t, err)
		found, err = Former(t.Context(), layout.Home(home), p, dirs, inputs, began)
		require.NoError(t, err)
		return dirs, inputs, found
	}
	dirs, inputs, found := find(p, hashes)
	require.Equal(t, []string{"nano"}, found)
	require.Equal(t, old, dirs[nano.Key()])
	require.Equal(t, hashes["model"], inputs["model"])

	for name, began := range map[string]map[string]string{"nothing recorded": {}, "nobody's": {"model": "beef"}} {
		dirs, _, found = find(p, began)
		require.Empty(t, found, name)
		require.Equal(t, dir, dirs[nano.Key()], name)
	}
	require.Equal(t, "the original files, "+home+"/models/nano-* of the program version that began the run", FormerFiles(p, layout.Home(home), "model"))
	require.Equal(t, "the original files", FormerFiles(p, layout.Home(home), "tasks.file"))

	require.NoError(t, os.Remove(filepath.Join(old, "config.json")))
	_, _, found = find(p, hashes)
	require.Empty(t, found, "it is not whole")
}
