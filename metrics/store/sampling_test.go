package store

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// apart sets the difference between sampler and trainer of a round's event.
func apart(e event.Event, largest, mean float64) event.Event {
	e.Round.SamplingLogpDifferenceMax, e.Round.SamplingLogpDifferenceMean = &largest, &mean
	return e
}

func TestADifferenceToTheSamplerIsNullWhereThereIsNone(t *testing.T) {
	s := startedStore(t, Options{})
	odd := apart(aRound("node_0", 2, 106, 0.5), 0, 0.25) // as encoded in JSON
	odd.Round.NonFinite = map[string]string{"sampling_logp_difference_max": "NaN"}
	record(t, s, aRound("node_0", 0, 104, 0.25), apart(aRound("node_0", 1, 105, 0.5), 0, 0), odd, apart(aRound("node_1", 1, 106, 0.5), 0.5, 0.125))
	r := readerOf(t, s)
	values, err := r.RoundValues(t.Context(), testRun, "sampling_logp_difference_max", 0)
	require.NoError(t, err)
	require.True(t, math.IsNaN(values[0].Value))
	require.Equal(t, []RoundValue{{1, "node_0", 105, 0}, {1, "node_1", 106, 0.5}}, values[1:3])
	require.True(t, math.IsNaN(values[3].Value))
	var reasons string
	require.NoError(t, s.db.QueryRow(`SELECT group_concat(non_finite, ',') FROM rounds WHERE node = 'node_0'`).Scan(&reasons))
	require.Equal(t, ",,sampling_logp_difference_max=nan", reasons, "that there is none is no failure")
	bands, err := r.RoundBands(t.Context(), testRun, "sampling_logp_difference_mean", 1)
	require.NoError(t, err)
	require.Equal(t, RoundBand{Round: 1, Nodes: 2, End: 106, Mean: 0.0625, Min: 0, Max: 0.125}, bands[0])
}

func TestMigrationKeepsADatabaseOfSchema8(t *testing.T) {
	path := databaseOf(t, 8)
	r, err := OpenReader(t.Context(), path)
	require.NoError(t, err, "it can be read as it is")
	defer r.Close()
	check := func(want ...float64) {
		t.Helper()
		for _, metric := range []string{"sampling_logp_difference_max", "sampling_logp_difference_mean"} {
			values, err := r.RoundValues(t.Context(), "run-1", metric, 0)
			require.NoError(t, err)
			require.True(t, math.IsNaN(values[0].Value))
			for i, v := range values[1:] {
				require.InDelta(t, want[i], v.Value, 0)
			}
		}
		rounds, err := r.NodeRounds(t.Context(), "run-1", "node_0", 0, 10)
		require.NoError(t, err)
		require.Len(t, rounds, 1+len(want))
		require.Nil(t, rounds[0].SamplingLogpDifferenceMax)
		require.InDelta(t, 0.5, rounds[0].Reward, 0)
	}
	check()
	digest := func() string {
		sum := sha256.New()
		_, err := digestTable(t.Context(), r, "rounds", "run-1", sum)
		require.NoError(t, err)
		return hex.EncodeToString(sum.Sum(nil))
	}
	before := digest()

	s := openStore(t, path, Options{})
	requireIntact(t, s)
	check()
	require.Equal(t, before, digest(), "what was imported before is not imported again")
	again := apart(aRound("node_0", 1, 107, 0.75), 1e-6, 1e-6)
	again.Run = "run-1"
	record(t, s, again)
	check(1e-6)
	require.NotEqual(t, before, digest())
}

// Rounding in an extract must not turn small differences into 0.
func TestAnExtractKeepsSmallDifferencesToTheSampler(t *testing.T) {
	s := startedStore(t, Options{})
	record(t, s, aRound("node_0", 0, 104, 0.25), apart(aRound("node_0", 1, 105, 0.5), 1.1e-6, 2.3e-7))
	path := filepath.Join(t.TempDir(), "small.db")
	_, err := readerOf(t, s).Extract(t.Context(), path, []string{testRun})
	require.NoError(t, err)
	small, err := OpenFile(t.Context(), path)
	require.NoError(t, err)
	defer small.Close()
	rounds, err := small.NodeRounds(t.Context(), testRun, "node_0", 0, 10)
	require.NoError(t, err)
	require.Nil(t, rounds[0].SamplingLogpDifferenceMean)
	require.InDelta(t, 1.1e-6, *rounds[1].SamplingLogpDifferenceMax, 1e-9)
	require.InDelta(t, 2.3e-7, *rounds[1].SamplingLogpDifferenceMean, 1e-9)
}
