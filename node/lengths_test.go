package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/task"
)

// Completions that were cut off are in the mean length, and not in that of the terminated ones.
func TestTheTerminatedLengthLeavesOutWhatWasCutOff(t *testing.T) {
	of := func(terminated ...bool) event.Round {
		g := group{item: task.Item{}, completions: [][]int{{1, 2}, {1, 2, 3, 4}, {1, 2, 3, 4, 5, 6}}, texts: []string{"", "", ""},
			rewards: []float64{0, 0, 0}, terminated: terminated}
		var report event.Round
		describeOwn([]group{g}, &report)
		require.InDelta(t, 4.0, report.MeanLength, 0)
		return report
	}
	require.InDelta(t, 3.0, *of(true, true, false).MeanTerminatedLength, 0)
	require.InDelta(t, 6.0, *of(false, false, true).MeanTerminatedLength, 0)
	require.Nil(t, of(false, false, false).MeanTerminatedLength, "nothing ended")
}
