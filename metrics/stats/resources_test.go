package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func watts(uuid string, at, power float64) store.DeviceSample {
	return store.DeviceSample{Time: at, Device: event.Device{UUID: uuid, PowerWatts: power}}
}

func TestEnergy(t *testing.T) {
	samples := []store.DeviceSample{
		watts("a", 0, 100), watts("b", 0, 50), watts("a", 10, 200), watts("b", 10, 50), watts("a", 20, 200),
		watts("a", 80, 200), watts("a", 90, -1), watts("a", 100, 300), watts("a", 110, 100),
	}
	require.InDelta(t, 1500+2000+2000+500, Energy(samples, math.Inf(1)), 1e-9, "not over a minute unseen, nor where the driver doesn't tell")
	require.InDelta(t, 1500+500, Energy(samples, 15), 1e-9)
	require.True(t, math.IsNaN(Energy(samples[:2], math.Inf(1))), "one sample a GPU is no integral")
	require.True(t, math.IsNaN(Energy(nil, 0)))
}

func TestResources(t *testing.T) {
	run := store.Run{PricePerHour: 2, PriceCurrency: "$"}
	attempts := []store.Attempt{{Started: 0, Ended: 3600}, {Started: 7200, Seen: 9000}}
	x := NewResources(run, Elapsed(attempts, math.Inf(1)), []store.DeviceSample{watts("a", 0, -1), watts("b", 0, -1)}, math.Inf(1))
	require.InDelta(t, 5400, x.ActiveSeconds, 0, "the pause isn't work")
	require.InDeltaSlice(t, []float64{3, 3}, []float64{*x.GPUHours, *x.Cost}, 1e-12)
	require.Nil(t, x.EnergyJoules)
	require.InDelta(t, 3600+100, Elapsed(attempts, 7300), 0)
	require.InDelta(t, 3600, Elapsed(attempts, 5000), 0)
	require.Nil(t, NewResources(store.Run{}, 1, nil, 0).Cost)
	require.Nil(t, NewResources(run, 1, nil, 0).GPUHours)
}

func bands(rewards ...float64) []store.RoundBand {
	out := make([]store.RoundBand, len(rewards))
	for i, r := range rewards {
		out[i] = store.RoundBand{Round: i, Nodes: 2, End: float64(10 * (i + 1)), Mean: r}
	}
	return out
}

func TestReach(t *testing.T) {
	attempts := []store.Attempt{{Started: 0, Ended: 1000}}
	x := NewReach(store.Run{}, bands(0.8, 0.1, nan, 0.2, 0.6, 0.8), attempts, nil, 0.5, 3)
	require.Equal(t, []any{true, 6}, []any{x.Reached, x.Rounds}, "(0.2+0.6+0.8)/3; one lucky first round is no window")
	require.InDelta(t, 60, x.Resources.ActiveSeconds, 0)
	x = NewReach(store.Run{}, bands(0.9, 0.9), attempts, nil, 0.5, 3)
	require.Equal(t, []any{false, 2}, []any{x.Reached, x.Rounds})
	require.False(t, NewReach(store.Run{}, nil, nil, nil, 0.5, 3).Reached)
}

func TestTargetRowNeverAveragesInWhatHasNotReached(t *testing.T) {
	at := func(reached bool, rounds int, seconds float64, price *float64) Reach {
		return Reach{Reached: reached, Rounds: rounds, Resources: Resources{ActiveSeconds: seconds, Cost: price}}
	}
	five := 5.0
	row := func(reaches ...Reach) *TargetRow {
		g, byRun := group{}, map[string]Reach{}
		for i, x := range reaches {
			key := string(rune('a' + i))
			g.runs = append(g.runs, store.Totals{Run: store.Run{Run: key}})
			byRun[key] = x
		}
		return newTargetRow(g, byRun, CompareOptions{Target: 0.5})
	}
	x := row(at(true, 100, 10, &five), at(false, 200, 20, nil), at(true, 140, 14, &five))
	require.Equal(t, []any{2, 3, PaperWindow}, []any{x.Reached, x.Runs, x.Window})
	require.InDelta(t, 140, *x.Rounds, 0, "the later of the two: the third comes after both")
	require.InDelta(t, 5, *x.Cost, 0)
	require.Nil(t, x.GPUHours, "no run says")
	x = row(at(true, 100, 10, &five), at(false, 5, 20, nil))
	require.Nil(t, x.Rounds, "the median lies beyond")
	require.Equal(t, 1, x.Reached)
	require.InDelta(t, 120, *row(at(true, 100, 10, nil), at(true, 140, 10, nil)).Rounds, 0)
	require.Nil(t, row(at(true, 100, 10, nil)).Cost)
}
