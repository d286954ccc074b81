package runs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOtherRunsAreNamed(t *testing.T) {
	require.Equal(t, "1 other run is running, too: a. swarm ls lists all runs.", othersText([]string{"a"}))
	require.Equal(t, "5 other runs are running, too: a, b, c and 2 more. swarm ls lists all runs.", othersText([]string{"a", "b", "c", "d", "e"}))
	require.Empty(t, othersText(nil))
}
