package report_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePathOfAnAdaptiveRunIsDrawn(t *testing.T) {
	fixed := synthetic{experiment: "fixed", own: 8, seed: 1, nodes: 2, rounds: 8, gain: 0.2}
	adaptive := synthetic{experiment: "adaptive", own: 4, external: 4, seed: 1, nodes: 2, rounds: 8, gain: 0.2, adaptive: true}
	type drawing struct {
		Options struct {
			Series []struct {
				Label  string
				Values []float64
			}
		}
		Curves []struct {
			Experiment      string
			Mean, Low, High []float64
		}
	}
	var charts map[string]drawing
	page := write(t, database(t, fixed, adaptive), options())
	require.NoError(t, json.Unmarshal([]byte(element(t, page, "charts")), &charts))
	require.Contains(t, page, `data-chart="splits"`)
	splits := charts["splits"].Curves
	require.Len(t, splits, 1)
	require.Equal(t, "adaptive", splits[0].Experiment)
	require.Equal(t, []float64{0, 0, 1, 1, 2, 2, 3, 3}, splits[0].Mean)
	require.Equal(t, splits[0].Mean, splits[0].High)
	require.Len(t, charts["path-1"].Options.Series, 2)
	path := charts["path-0"].Options.Series
	require.Equal(t, []string{"I chosen", "J chosen"}, []string{path[2].Label, path[3].Label})
	for i := range path[2].Values {
		require.InDelta(t, 8, path[2].Values[i]+path[3].Values[i], 1e-9, "their sum stays")
	}
	require.NotContains(t, write(t, database(t, fixed), options()), `data-chart="splits"`)
}
