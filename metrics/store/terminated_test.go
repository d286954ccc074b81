package store

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A database of schema 11 is readable as it is and migrated when it is opened, and its run can continue.
func TestMigrationKeepsADatabaseOfSchema11(t *testing.T) {
	path := databaseOf(t, 11)
	r, err := OpenReader(t.Context(), path)
	require.NoError(t, err, "it can be read as it is")
	defer r.Close()
	lengths := func() []float64 {
		t.Helper()
		values, err := r.RoundValues(t.Context(), "run-1", "completions_mean_terminated_length", 0)
		require.NoError(t, err)
		var out []float64
		for _, v := range values {
			out = append(out, v.Value)
		}
		return out
	}
	require.Len(t, lengths(), 1)
	require.True(t, math.IsNaN(lengths()[0]))
	before, err := r.NodeRounds(t.Context(), "run-1", "node_0", 0, 10)
	require.NoError(t, err)

	s := openStore(t, path, Options{})
	requireIntact(t, s)
	after, err := r.NodeRounds(t.Context(), "run-1", "node_0", 0, 10)
	require.NoError(t, err)
	require.Equal(t, before, after)
	next := aRound("node_0", 1, 107, 0.75)
	next.Run = "run-1"
	length := 12.5
	next.Round.MeanTerminatedLength = &length
	record(t, s, next)
	require.InDelta(t, 12.5, lengths()[1], 0)
	require.Nil(t, after[0].MeanTerminatedLength)
}
