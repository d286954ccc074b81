package plan

import (
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
)

// A GPU whose nodes were all given up is free for jobs.
func TestAGPUWithoutNodesIsFreeForJobs(t *testing.T) {
	h := Host{Home: layout.Home(t.TempDir()), Logger: slog.New(slog.DiscardHandler)}
	zero, one := 0, 1
	p := fit.Plan{Expected: 9e9, Placement: []fit.Placement{{Node: "node_0", GPU: &zero}, {Node: "node_1", GPU: &zero}, {Node: "node_2", GPU: &zero}, {Node: "node_3", GPU: &one}}}
	c := Claim(h, "run", p, []gpu.GPU{{Index: 0, UUID: "GPU-0", MemoryTotal: 16e9, MemoryFree: 16e9}, {Index: 1, UUID: "GPU-1", MemoryTotal: 16e9, MemoryFree: 16e9}})
	q, err := queue.Open(h.Home.Queue())
	require.NoError(t, err)
	claimed := func() map[string]int64 {
		entries, err := q.List()
		require.NoError(t, err)
		of := map[string]int64{}
		for _, e := range entries {
			of[e.Claim.GPU] = e.Claim.Bytes
		}
		return of
	}
	require.Equal(t, map[string]int64{"GPU-0": 9e9, "GPU-1": 9e9}, claimed())
	c.Loaded("node_0", os.Getpid())
	require.Equal(t, map[string]int64{"GPU-0": 9e9, "GPU-1": 9e9}, claimed())
	c.GivenUp("node_0")
	c.GivenUp("node_3")
	require.Equal(t, map[string]int64{"GPU-0": 9e9, "GPU-1": 0}, claimed(), "the others share what node_0 had")
	c.GivenUp("node_1")
	c.GivenUp("node_2")
	require.Equal(t, map[string]int64{"GPU-0": 0, "GPU-1": 0}, claimed())
	c.Release()
	require.Empty(t, claimed())
}
