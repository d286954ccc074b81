package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/fit"
)

// Waiting for a GPU that shares the host's memory is waiting for host memory.
func TestWhenFree(t *testing.T) {
	for _, unified := range []bool{true, false} {
		busy := fit.Request{Memory: 1e9, GPUs: []fit.GPU{{MemoryTotal: 128e9, MemoryFree: 1e9, Unified: unified}}}
		free := WhenFree(busy)
		require.EqualValues(t, 128e9, free.GPUs[0].MemoryFree)
		require.EqualValues(t, 1e9, busy.GPUs[0].MemoryFree)
		require.Equal(t, unified, free.Memory == 128e9)
	}
}
