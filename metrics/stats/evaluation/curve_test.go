package evaluation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

func TestAnEvaluationCurveIsOfTheRoundsThatAllHave(t *testing.T) {
	run := func(seed int64, set string, rounds ...int) Document {
		e := Document{Run: fmt.Sprint("e-", seed), Seed: seed}
		for _, r := range rounds {
			e.Rows = append(e.Rows, Row{Round: r, Set: set, Pass: []Pass{{1, 0.1*float64(seed) + 0.01*float64(r)}, {8, 1}}})
		}
		return e
	}
	c := NewCurve("e", "s", 1, []Document{run(1, "s", 0, 5, 10), run(2, "s", 0, 10), run(3, "other", 0, 10), run(4, "s")})
	require.Equal(t, []any{2, []string{"e-1", "e-2"}}, []any{c.Seeds, c.Runs})
	require.Equal(t, stats.Values{0, 10}, c.X)
	require.InDeltaSlice(t, []float64{0.15, 0.25}, []float64(c.Mean), 1e-12)
	require.Empty(t, NewCurve("e", "s", 4, []Document{run(1, "s", 0)}).X)
}
