package tune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

// The same size in several notations: as a card's, in the GB of the profile's author, or exactly.
func TestTuneGPUMemory(t *testing.T) {
	t.Parallel()
	naics, err := configs.LoadWorkload("naics-embedder")
	require.NoError(t, err)
	guide0, err := configs.LoadWorkload("rl-swarm")
	require.NoError(t, err)
	for text, want := range map[string][2]int64{"24": {24 << 30, 24e9}, "24GB": {24 << 30, 24e9}, "24GiB": {24 << 30, 24 << 30}, "24000MB": {24e9, 24e9}} {
		got, err := gpuMemory(text, naics)
		require.NoError(t, err, text)
		require.Equal(t, want[0], got, text)
		got, err = gpuMemory(text, guide0)
		require.NoError(t, err, text)
		require.Equal(t, want[1], got, text)
	}
	_, err = gpuMemory("24576", guide0)
	require.EqualError(t, err, (&configs.Error{Key: "gpu-memory", Value: "24576", Allowed: units.SizeForms}).Error())
}
