package stats

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestRunRowHasNullForWhatIsNotKnown(t *testing.T) {
	row := NewRunRow(store.Totals{Run: store.Run{Run: "a-1", NumTrainSamples: 4, NumTransplantTrees: 2}}, Status{Run: "a-1"}, store.EvalTotal{})
	require.Equal(t, "4/2", row.Config)
	require.Nil(t, row.RewardPerNodeRound)
	require.Nil(t, row.EvalReward)
	require.Nil(t, row.Ended)
}

func TestRunRowMeans(t *testing.T) {
	row := NewRunRow(store.Totals{Run: store.Run{Ended: 9}, NodeRounds: 4, CumulativeReward: 3}, Status{},
		store.EvalTotal{Round: 7, Set: "s", Questions: 10, Generations: 4, RewardSum: 10})
	require.Equal(t, 0.75, *row.RewardPerNodeRound)
	require.Equal(t, 0.25, *row.EvalReward)
	require.Equal(t, 7, *row.EvalRound)
	require.Equal(t, 9.0, *row.Ended)
}
