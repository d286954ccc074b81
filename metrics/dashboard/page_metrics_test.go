package dashboard

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// The page's charts of a run draw existing metrics.
func TestThePageDrawsMetricsOfTheTable(t *testing.T) {
	data, err := os.ReadFile("page/run-charts.js")
	require.NoError(t, err)
	found := regexp.MustCompile(`\["([a-z]+(?:_[a-z]+)*)", "[^"]+"\]`).FindAllStringSubmatch(string(data), -1)
	require.Greater(t, len(found), 15)
	for _, pair := range found {
		_, ok := event.MetricNamed(pair[1])
		require.True(t, ok, pair[0])
	}
}
