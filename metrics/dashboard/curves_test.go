package dashboard

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Updated curves equal curves that are read in full, for any order of rounds: with a node far behind, with rounds
// repeated after a restart, with a new attempt.
func TestCurvesKeptAreThoseReadWhole(t *testing.T) {
	const nodes = 4
	rng := rand.New(rand.NewPCG(1, 2))
	s := newSwarm(t)
	s.open()
	s.start("a-1", "a", nodes, 2000)
	reader, err := store.OpenReader(t.Context(), s.path)
	require.NoError(t, err)
	defer reader.Close()
	done := [nodes]int{}
	for step := range 150 {
		switch rng.IntN(8) {
		case 0: // restart from a checkpoint
			n := rng.IntN(nodes)
			done[n] = max(0, done[n]-rng.IntN(100))
			s.record("a-1", event.Event{Type: event.TypeRestart, Node: fmt.Sprint("node_", n)})
		case 1:
			s.start("a-1", "a", nodes, 2000)
		default:
			for range 1 + rng.IntN(80) {
				n := min(rng.IntN(nodes+2), nodes-1) // the last node is the fastest
				node := fmt.Sprint("node_", n)
				s.record("a-1", event.Event{Type: event.TypeState, Node: node, State: event.StateGenerating, RoundIndex: done[n]})
				if rng.IntN(8) > 0 {
					s.record("a-1", event.Event{Type: event.TypeRound, Node: node, Round: &event.Round{Round: done[n], Reward: rng.Float64()}})
					done[n]++
				}
			}
		}
		require.NoError(t, s.store.Flush(t.Context()))
		run, err := reader.FindRun(t.Context(), "a", 42)
		require.NoError(t, err)
		want, err := query.Curve(t.Context(), reader, *run, "reward", stats.CurveOptions{Window: 1})
		require.NoError(t, err)
		text, err := json.Marshal(want)
		require.NoError(t, err)
		require.True(t, string(text) == s.get("/api/runs/a-1/curve?window=1&points=0").Body.String(), "step %d", step)
	}
}

func TestSeriesNotAskedForAreForgotten(t *testing.T) {
	c := newCurves()
	first := c.get(seriesKey{"a", "reward"})
	for i := range seriesKept - 1 {
		c.get(seriesKey{fmt.Sprint(i), "reward"})
	}
	require.Same(t, first, c.get(seriesKey{"a", "reward"}))
	c.get(seriesKey{"b", "reward"})
	require.Len(t, c.series, seriesKept)
	require.Same(t, first, c.get(seriesKey{"a", "reward"}), "but not what was asked for")
}

func TestLongSeriesAreForgottenSooner(t *testing.T) {
	c := newCurves()
	for i := range 10 {
		c.get(seriesKey{fmt.Sprint(i), "reward"}).length.Store(valuesKept / 4)
	}
	last := c.get(seriesKey{"9", "reward"})
	require.LessOrEqual(t, len(c.series), 4)
	last.length.Store(2 * valuesKept)
	require.Same(t, last, c.get(seriesKey{"9", "reward"}), "one alone is kept, however long")
	require.Len(t, c.series, 1)
}

func TestACacheCountsWhatItsKeysTake(t *testing.T) {
	c := newCache()
	long := strings.Repeat("x", 1<<20)
	for i := range 100 {
		c.put(fmt.Sprint(i), long, []byte("{}"))
	}
	require.LessOrEqual(t, c.order.Len(), cacheBytes>>20)
}
