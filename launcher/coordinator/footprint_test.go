package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// gptPlan returns a plan for GPT-2 nodes with CUDA graphs that take turns on a GPU with this many bytes of memory.
func gptPlan(t *testing.T, memory int64) fit.Plan {
	t.Helper()
	gpt2, err := configs.LoadModel("gpt2")
	require.NoError(t, err)
	p, err := fit.New(fit.Request{
		GPUMemory: memory, Model: gpt2, Nodes: "8", SwarmSize: 8, Share: fit.ShareLease,
		Settings: fit.Settings{Prompts: 4, PromptTokens: 768, NewTokens: 256, CUDAGraphs: true, AutoBatchSize: true},
	})
	require.NoError(t, err)
	return p
}

// A node frees cached memory only if the plan does not keep it. Its cap is what the plan allots to torch's
// allocator.
func TestAssignMemory(t *testing.T) {
	for memory, trims := range map[int64]bool{40e9: true, 141e9: false} {
		p := gptPlan(t, memory)
		start := protocol.Start{Index: 3}
		assignMemory(&start, p)
		require.Equal(t, trims, start.TrimAfter, "%d", memory)
		require.True(t, start.Leased)
		require.Equal(t, p.PerNode.Budget-p.PerNode.Context, start.BudgetBytes)
		require.Equal(t, protocol.Transient{GenerateBytes: p.PerNode.Generate, UpdateBytes: p.PerNode.Update}, start.Transient)
		require.Equal(t, p.Others(3), start.OthersBytes)
	}
}

// Memory of a generation that nodes keep between their phases does not raise a footprint's resident memory, because
// plans count it separately.
func TestKeptMemoryIsTheGenerations(t *testing.T) {
	p := gptPlan(t, 141e9)
	resident := p.PerNode.Resident - p.PerNode.Context
	require.Positive(t, p.Kept())
	for more, raised := range map[int64]int64{0: 0, p.Kept() / 2: 0, p.Kept() + 7: 7} {
		seen := peaks{resident: resident + more, generate: 100, update: 200}
		seen.attribute(p)
		require.Equal(t, peaks{resident: resident + raised, generate: 100, update: 200}, seen)
	}
	seen := peaks{resident: resident + 50, generate: 100}
	seen.attribute(gptPlan(t, 40e9))
	require.Equal(t, peaks{resident: resident + 50, generate: 100}, seen, "nothing was kept")
}
