package study

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// An adaptive run's configuration does not tell what its rounds computed.
func TestAnAdaptiveRunIsNoMeasurement(t *testing.T) {
	t.Parallel()
	fixed := configs.Default()
	adaptive := fixed
	adaptive.Split = configs.SplitBandit
	require.True(t, sameRate(fixed, fixed))
	require.True(t, sameRate(fixed, adaptive))
	require.False(t, sameRate(adaptive, fixed))
}

func TestAPauseIsNoLoading(t *testing.T) {
	t.Parallel()
	run := store.Totals{Run: store.Run{Started: 1000, Attempts: 1}}
	require.InDelta(t, 20, loadingOf(run, store.RoundBand{End: 1030}, 10), 0)
	require.Zero(t, loadingOf(run, store.RoundBand{Round: 1, End: 1030}, 10), "its first round isn't recorded")
	require.Zero(t, loadingOf(run, store.RoundBand{End: 1030}, 40))
	run.Attempts = 2
	require.Zero(t, loadingOf(run, store.RoundBand{End: 90_000}, 10), "it was stopped for a day")
}
