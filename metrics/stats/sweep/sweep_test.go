package sweep

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestSweepStatus(t *testing.T) {
	four := 4.0
	rows := []Row{
		{Experiment: "8loc0ext", Config: "8loc0ext", Seed: 1, State: store.RunDone, Round: 10, Rounds: 10, ActiveSeconds: 100, SecondsPerRound: &four},
		{Experiment: "4loc4ext", Config: "4loc4ext", Seed: 1, State: store.RunFailed, Round: 2, Rounds: 10, ActiveSeconds: 20},
		{Experiment: "8loc0ext", Config: "8loc0ext", Seed: 2, State: store.RunRunning, Round: 5, Rounds: 10, ActiveSeconds: 30, SecondsPerRound: &four},
		{Experiment: "4loc4ext", Config: "4loc4ext", Seed: 2, State: Pending, Rounds: 10},
		{Experiment: "8loc0ext", Config: "8loc0ext", Seed: 3, State: Pending, Rounds: 20},
	}
	x := New(rows, 36, "$")
	require.Equal(t, []int{5, 1, 1, 3}, []int{x.Runs, x.Done, x.Failed, x.Left})
	require.InDelta(t, 20, *x.Rows[2].ETASeconds, 0, "its own pace")
	require.InDelta(t, 20*7, *x.Rows[4].ETASeconds, 0, "mean of 10 with loading and 4, of its configuration")
	require.InDelta(t, 10*7, *x.Rows[3].ETASeconds, 0, "nothing is known of its configuration: of all")
	require.InDelta(t, 0, *x.Rows[1].ETASeconds, 0)
	require.InDelta(t, 230, *x.ETASeconds, 0)
	require.InDelta(t, 150, x.ActiveSeconds, 0)
	require.InDelta(t, 1.5, *x.Cost, 1e-12)
	require.InDelta(t, 3.8, *x.ProjectedCost, 1e-12)
	require.InDelta(t, 1, *x.Rows[0].Cost, 1e-12)
	require.Nil(t, rows[2].ETASeconds, "what was given stays as it was")

	stopped := Row{Experiment: "4loc4ext", Config: "4loc4ext", State: store.RunStopped, Round: 5, Rounds: 10, SecondsPerRound: &four, StoppedByAlarm: true}
	x = New(append(rows[:2:2], stopped), 36, "$")
	require.Equal(t, []int{3, 1, 1, 0, 1}, []int{x.Runs, x.Done, x.Failed, x.Left, x.StoppedByAlarm})
	require.InDelta(t, 0, *x.ETASeconds, 0, "the sweep does not continue it")

	x = New(rows[3:], 0, "$")
	require.Nil(t, x.ETASeconds, "no pace is known")
	require.Nil(t, x.Cost)
	require.Nil(t, x.ProjectedCost)
	require.Empty(t, x.PriceCurrency)

	text, err := json.Marshal(New(nil, 1, ""))
	require.NoError(t, err)
	require.Contains(t, string(text), `"rows":[]`)
	require.Contains(t, string(text), `"eta_seconds":0`)
}
