package sapo

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdvantagesOfAPeer compares Advantages with those that another trainer computed. SWARM_TEST_ADVANTAGES names a
// JSON file with them, which `make peers` writes. epsilon is what that trainer adds to the standard deviation.
func TestAdvantagesOfAPeer(t *testing.T) {
	path := os.Getenv("SWARM_TEST_ADVANTAGES")
	if path == "" {
		t.Skip("SWARM_TEST_ADVANTAGES names no file with a peer's advantages")
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var peer struct {
		Epsilon, Tolerance float64
		Groups             []struct{ Rewards, Advantages []float64 }
	}
	require.NoError(t, json.Unmarshal(data, &peer))
	require.NotEmpty(t, peer.Groups)
	var largest float64
	for _, g := range peer.Groups {
		ours, err := Advantages(g.Rewards, ScaleGroup)
		require.NoError(t, err)
		require.Len(t, g.Advantages, len(ours))
		std := Std(g.Rewards)
		for i, theirs := range g.Advantages {
			if ours[i] == 0 {
				require.InDelta(t, 0, theirs, peer.Tolerance)
				continue
			}
			require.InEpsilon(t, ours[i]*std/(std+peer.Epsilon), theirs, peer.Tolerance)
			largest = max(largest, math.Abs(theirs/ours[i]-1))
		}
	}
	t.Logf("largest relative difference %.3g", largest)
}
