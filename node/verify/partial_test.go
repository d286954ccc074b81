package verify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/journal"
)

// abroad turns a node of a run into another host's node: it deletes the node's folder.
func abroad(t *testing.T, f *finished, id string) func(*Options) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(f.dir, id)))
	return func(o *Options) {
		o.Nodes, o.Foreign = nil, []string{id}
		for _, node := range f.nodes {
			if node != id {
				o.Nodes = append(o.Nodes, node)
			}
		}
	}
}

// A run with another host's node is verified as far as this host's data allow, and the report says so. Weights and
// losses are reproduced from the journaled training sets. The node's own part of the training sets is repeated.
func TestRunWithAnotherHostsNode(t *testing.T) {
	f := train(t)
	report := f.verify(t, abroad(t, f, "node_0"))
	require.True(t, report.Verified, "%+v", report)
	n := report.Nodes[0]
	require.Equal(t, "node_1", n.Node)
	require.Equal(t, []int{rounds, rounds, 2, 2}, []int{n.Rounds, n.Partial, n.Checkpoints, n.EqualHashes})
	require.Len(t, n.Notes, 1)
	require.Contains(t, n.Notes[0], "3 of 3 rounds were checked only in part")
}

// A partial check still covers the node's own part, its rewards, and that the training set gives the recorded weights.
func TestTamperingIsNamedInPart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*journal.Round)
		what   string
	}{
		"own advantage":      {func(r *journal.Round) { r.Trained.Update.Sequences[2].Advantage += 1e-12 }, "advantage of sequence 2 of the training set"},
		"own reward":         {func(r *journal.Round) { r.Trained.Report.Reward += 0.25 }, "reward"},
		"reward of a task":   {func(r *journal.Round) { r.Trained.Report.Tasks[0].RewardSum += 0.25 }, "task "},
		"others' completion": {func(r *journal.Round) { last := r.Trained.Update.Sequences; last[len(last)-1].Completion[0] ^= 1 }, "loss"},
	} {
		t.Run(name, func(t *testing.T) {
			f := train(t)
			f.rewrite(t, "node_1", func(r *journal.Round) {
				if r.Round == 1 {
					test.change(r)
				}
			})
			report := f.verify(t, abroad(t, f, "node_0"))
			require.False(t, report.Verified)
			d := report.Nodes[0].Differences[0]
			require.Equal(t, 1, d.Round, "%+v", d)
			require.Contains(t, d.What, test.what)
		})
	}
}

// In an async run, no record tells which batches had arrived. So every round is checked in part.
func TestAsyncRunIsVerifiedInPart(t *testing.T) {
	f := train(t)
	report := f.verify(t, func(o *Options) { o.Config.Sync = configs.SyncAsync })
	require.True(t, report.Verified, "%+v", report)
	for _, n := range report.Nodes {
		require.Equal(t, rounds, n.Partial)
	}
}

// A node that joined late is checked from its first round on.
func TestLatecomerIsVerified(t *testing.T) {
	lab.Options(t)
	f := &finished{
		t.TempDir(), testConfig(t), []string{"node_0", "node_1"}, map[string][]event.Round{}, map[string]map[int]string{}, map[string]int{"node_1": 1},
	}
	trainNodes(t, f, startEngine(t, f.config, lab.Options(t).Host))
	report := f.verify(t, nil)
	require.True(t, report.Verified, "%+v", report)
	require.Equal(t, rounds, report.Nodes[0].Rounds)
	require.Equal(t, rounds-1, report.Nodes[1].Rounds)
	require.Equal(t, report.Nodes[1].Checkpoints, report.Nodes[1].EqualHashes)
	require.Positive(t, report.Nodes[1].Checkpoints)
	require.Zero(t, report.Nodes[0].Partial+report.Nodes[1].Partial)
}
