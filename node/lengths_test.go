package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/task"
)

// The mean length includes completions that were cut off. The mean length of the terminated ones does not.
func TestTheTerminatedLengthLeavesOutWhatWasCutOff(t *testing.T) {
	of := func(terminated ...bool) ownFigures {
		g := group{item: task.Item{}, completions: [][]int{{1, 2}, {1, 2, 3, 4}, {1, 2, 3, 4, 5, 6}}, texts: []string{"", "", ""},
			rewards: []float64{0, 0, 0}, terminated: terminated}
		own := describeOwn([]group{g})
		require.InDelta(t, 4.0, own.meanLength, 0)
		return own
	}
	require.InDelta(t, 3.0, *of(true, true, false).meanTerminatedLength, 0)
	require.InDelta(t, 6.0, *of(false, false, true).meanTerminatedLength, 0)
	require.Nil(t, of(false, false, false).meanTerminatedLength, "nothing ended")
}
