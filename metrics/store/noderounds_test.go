package store

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Rounds read back bit for bit, including non-finite figures.
func TestNodeRoundsReadBack(t *testing.T) {
	path := t.TempDir() + "/swarm.db"
	s, err := Open(t.Context(), path, Options{})
	require.NoError(t, err)
	require.NoError(t, s.StartRun(t.Context(), Run{Run: "r", Experiment: "e", NodeIDs: []string{"a", "b"}, Started: 1}))
	third := 1.0 / 3
	var want []event.Round
	for round := range 5 {
		x := event.Round{
			Round: round, Reward: third, RewardStd: math.Nextafter(third, 1), TrainingReward: 2 * third, FracRewardZeroStd: 0.5, FormatRate: 0.25,
			Completions: 8, MeanLength: 7.1, ClippedRatio: 0.125, Loss: -1e-17, KL: 1e-300, GradNorm: 3, Entropy: 2.2, ClipLow: 0.1, ClipHigh: 0.2,
			Steps: 2, TrainedOwn: 3, TrainedExternal: 4, Late: round == 1,
		}
		if round == 2 {
			x.Loss, x.NonFinite = 0, map[string]string{"loss": "NaN"}
		}
		if round > 2 {
			largest, mean := 1e-6*third, float64(round-3) // 0 is also a value
			x.SamplingLogpDifferenceMax, x.SamplingLogpDifferenceMean = &largest, &mean
			x.ExternalClipRatio, x.ExternalDropped, x.ExternalESS = &third, &mean, &third
		}
		require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeRound, Run: "r", Node: "a", Time: 10 + float64(round), Round: &x}))
		if round == 2 {
			x.NonFinite = map[string]string{"loss": "nan"}
		}
		want = append(want, x)
	}
	require.NoError(t, s.Close())
	reader, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer reader.Close()
	got, err := reader.NodeRounds(t.Context(), "r", "a", 0, 100)
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = reader.NodeRounds(t.Context(), "r", "a", 1, 2)
	require.NoError(t, err)
	require.Equal(t, want[1:3], got)
	got, err = reader.NodeRounds(t.Context(), "r", "b", 0, 2)
	require.NoError(t, err)
	require.Empty(t, got)
}
