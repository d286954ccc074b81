package sharedir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// costs returns the operations of a Dir since the last call.
func costs(d *Dir) (lists, names, reads, writes int64) {
	c := &d.base.counts
	return c.lists.Swap(0), c.names.Swap(0), c.reads.Swap(0), c.writes.Swap(0)
}

// fillRounds puts the batches of eight nodes for many rounds into a folder, without the slow syncs.
func fillRounds(t *testing.T, dir string, rounds int) {
	t.Helper()
	data, err := exchange.Encode(batchOf("node_0", 0, "")) // the content doesn't affect the cost
	require.NoError(t, err)
	packed := pack(data)
	end := fmt.Sprintf("-%d-%s.json.zst", len(packed), hashOf(packed))
	for round := range rounds {
		folder := filepath.Join(dir, base, blockPath(testRun, blockOf(round)))
		require.NoError(t, os.MkdirAll(folder, 0o755))
		for i := range 8 {
			name := rolloutStem(fmt.Sprintf("node_%d", i), round, "0123abcd") + end
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), packed, 0o600))
		}
	}
}

// At a barrier, round 2000 costs as much as round 0. Publishing takes one listing of at most one block's names.
// Gathering takes one listing, plus one read per peer.
func TestCostOfARound(t *testing.T) {
	dir := folderIn(t, quickDir(t))
	fillRounds(t, dir, 2000)
	reader := open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
	lists, names, _, _ := costs(reader)
	require.LessOrEqual(t, lists, int64(joinBlocks+4), "to open")
	require.LessOrEqual(t, names, int64(125+joinBlocks*8*blockRounds+8), "to open")
	peers := make([]string, 8)
	for i := range peers {
		peers[i] = fmt.Sprintf("node_%d", i)
	}
	_, err := reader.Gather(t.Context(), 0, peers, exchange.Barrier{})
	require.NoError(t, err)
	costs(reader)
	for _, round := range []int{0, 15, 16, 1000, 1999} {
		share(t, reader, round)
		got, err := reader.Gather(t.Context(), round, peers, exchange.Barrier{})
		require.NoError(t, err)
		require.NotContains(t, got, (*exchange.Received)(nil))
		lists, names, reads, writes := costs(reader)
		t.Logf("round %d: %d listings, %d names, %d reads, %d writes", round, lists, names, reads, writes)
		require.LessOrEqual(t, lists, int64(2), round)
		require.LessOrEqual(t, names, int64(2*9*blockRounds), round)
		require.LessOrEqual(t, reads, int64(8), round)
		require.Equal(t, int64(1), writes, round)
	}
	asyncRounds(t, dir)
}

// Without a barrier, a look lists the blocks and the content of a few, however many blocks there are.
func asyncRounds(t *testing.T, dir string) {
	reader := open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
	peers := []string{"node_0", "node_1", "node_2", "node_3", "node_4", "node_5", "node_6", "node_7"}
	for round := 2000; round < 2010; round++ {
		costs(reader)
		share(t, reader, round)
		_, err := reader.Recent(t.Context(), exchange.Window{Round: round, Staleness: 4, Peers: peers, Limit: 8})
		require.NoError(t, err)
		lists, names, reads, _ := costs(reader)
		t.Logf("round %d: %d listings, %d names, %d reads", round, lists, names, reads)
		require.LessOrEqual(t, lists, int64(10))
		require.LessOrEqual(t, names, int64(2*(130+4*9*blockRounds)))
		require.LessOrEqual(t, reads, int64(8), "what was read is kept")
		fillRound(t, dir, round)
	}
}

func fillRound(t *testing.T, dir string, round int) {
	t.Helper()
	for i := range 8 {
		s := &folderSwarm{dir: dir}
		node := fmt.Sprintf("node_%d", i)
		data, err := exchange.Encode(batchOf(node, round, ""))
		require.NoError(t, err)
		s.Plant(t, round, node, data)
	}
}

// Sweep deletes whole blocks before a round. Deleted batches that come back are not new.
func TestSweep(t *testing.T) {
	dir := newFolder(t)
	fillRounds(t, dir, 64)
	reader := open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
	require.NoError(t, Sweep(t.Context(), dir, testRun, 40))
	blocks, err := listBlocks(baseOf(dir), testRun)
	require.NoError(t, err)
	require.Equal(t, []int{32, 48}, blocks)
	require.NoError(t, Sweep(t.Context(), dir, testRun, 40))
	require.Nil(t, lookNow(t, reader, 31, "node_0"))
	require.NotNil(t, lookNow(t, reader, 32, "node_0"))
	fillRound(t, dir, 3) // the sync program restores it
	got, err := reader.Recent(t.Context(), exchange.Window{Peers: []string{"node_0"}, Limit: 8})
	require.NoError(t, err)
	require.Empty(t, got)
}
