package store

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A database of the schema before the correction metrics is readable as it is and migrated when it is opened, and its
// run can continue.
func TestMigrationKeepsADatabaseOfSchema12(t *testing.T) {
	path := databaseOf(t, 12)
	r, err := OpenReader(t.Context(), path)
	require.NoError(t, err, "it can be read as it is")
	defer r.Close()
	shares := func() []float64 {
		t.Helper()
		values, err := r.RoundValues(t.Context(), "run-1", "external_ess", 0)
		require.NoError(t, err)
		var out []float64
		for _, v := range values {
			out = append(out, v.Value)
		}
		return out
	}
	require.Len(t, shares(), 1)
	require.True(t, math.IsNaN(shares()[0]))
	before, err := r.NodeRounds(t.Context(), "run-1", "node_0", 0, 10)
	require.NoError(t, err)

	s := openStore(t, path, Options{})
	requireIntact(t, s)
	after, err := r.NodeRounds(t.Context(), "run-1", "node_0", 0, 10)
	require.NoError(t, err)
	require.Equal(t, before, after)
	next := aRound("node_0", 1, 107, 0.75)
	next.Run = "run-1"
	share := 0.25
	next.Round.ExternalESS = &share
	record(t, s, next)
	require.InDelta(t, 0.25, shares()[1], 0)
	require.Nil(t, after[0].ExternalESS)
}
