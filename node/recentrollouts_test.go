package node

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// arrivals is an exchange that returns recent rollouts and fails on Gather.
type arrivals struct {
	exchange.Exchange
	t       *testing.T
	shared  []int // rounds that the node published
	windows []exchange.Window
	give    func(exchange.Window) []*exchange.Received
	err     error // of Recent
}

func (a *arrivals) Publish(_ context.Context, batch exchange.Batch) error {
	a.shared = append(a.shared, batch.Round)
	return nil
}

func (a *arrivals) Gather(context.Context, int, []string, exchange.Barrier) ([]*exchange.Received, error) {
	a.t.Error("an async node waited")
	return nil, nil
}

func (a *arrivals) Recent(_ context.Context, w exchange.Window) ([]*exchange.Received, error) {
	a.windows = append(a.windows, w)
	if a.err != nil {
		return nil, a.err
	}
	return a.give(w), nil
}

// asyncNode returns an async node_0 with the peers node_1 and node_2, and I = 2.
func asyncNode(t *testing.T, change func(*configs.Config)) (*Node, *arrivals, *recorder) {
	c := testConfig(t)
	c.Sync, c.MaxStaleness, c.MaxCompletionLength = configs.SyncAsync, 2, 48
	if change != nil {
		change(&c)
	}
	way := &arrivals{t: t}
	record := &recorder{Policy: &scripted{answer: func(int, int) string { return "<answer>1</answer>" }}}
	n := newNode(t, c, "node_0", record, nil, newHost("node_0", "node_1", "node_2"))
	n.Swarm = way
	return n, way, record
}

// aged is a batch that arrived age rounds ago.
func aged(t *testing.T, batch exchange.Batch, age int) *exchange.Received {
	r := sent(t, batch)
	r.Age = age
	return r
}

// An async node uses what arrived recently, of any round. It trains on no rollout twice while that can arrive
// again, counting the draws of its previous process.
func TestAsyncNodeNeverTrainsOnARolloutTwice(t *testing.T) {
	n, way, record := asyncNode(t, func(c *configs.Config) { c.NumTransplantTrees = 2 })
	batches := map[string]exchange.Batch{}
	for _, id := range []string{"node_1", "node_2"} {
		batches[id] = answers(t, n, id, 40) // far from this node's own rounds
	}
	way.give = func(exchange.Window) []*exchange.Received {
		return []*exchange.Received{aged(t, batches["node_1"], 2), aged(t, batches["node_2"], 1)}
	}
	n.Remember(9, []journal.External{{Node: "node_1", Round: 40, Index: 0}})
	want := []struct{ used, available int }{{2, 4}, {1, 4}, {0, 4}}
	seen := map[string]int{}
	for i, w := range want {
		report, err := n.Round(t.Context(), 10+i)
		require.NoError(t, err)
		require.Equal(t, w.used, report.TrainedExternal, "round %d", 10+i)
		require.Equal(t, w.available, report.Peers[0].Available+report.Peers[1].Available)
		require.False(t, report.Late)
		for _, p := range report.Peers {
			require.False(t, p.Late)
			require.Zero(t, p.Rejected, p.Reason)
		}
		for _, ids := range record.updates[i].Prompts[2:] {
			seen[n.Tokens.Decode(ids)]++
		}
		if i == 0 {
			require.GreaterOrEqual(t, report.Staleness, 1.0)
			require.LessOrEqual(t, report.Staleness, 2.0)
		}
	}
	require.Len(t, seen, 3)
	require.NotContains(t, seen, batches["node_1"].Rollouts[0].Question, "a former life trained on it")
	require.Equal(t, exchange.Window{Round: 10, Staleness: 2, Peers: []string{"node_1", "node_2"}, Limit: 3}, way.windows[0])
	require.Equal(t, []int{10, 11, 12}, way.shared)
	require.LessOrEqual(t, len(n.rollouts.drawn), 4)
}

// An async node's memory of rollouts is bounded by what can arrive again, however long it runs.
func TestAsyncMemoryIsBounded(t *testing.T) {
	n, way, _ := asyncNode(t, nil)
	way.give = func(w exchange.Window) (list []*exchange.Received) {
		for _, peer := range w.Peers {
			for age := w.Staleness; age >= 0; age-- {
				list = append(list, aged(t, answers(t, n, peer, max(0, w.Round-age)), age))
			}
		}
		return list
	}
	for round := range 40 {
		_, err := n.Round(t.Context(), round)
		require.NoError(t, err)
		require.LessOrEqual(t, len(n.rollouts.drawn), 2*(2+3), "J a round of the last")
		require.LessOrEqual(t, len(n.rollouts.judged), 2*3, "batches of the window")
	}
}

// An async node reads absent members, and those that have begun later, like all others.
func TestAsyncAsksEverybody(t *testing.T) {
	n, way, _ := asyncNode(t, nil)
	way.give = func(exchange.Window) []*exchange.Received { return nil }
	n.Host.(*host).setMembers(protocol.Member{Node: "node_0"}, protocol.Member{Node: "node_1", Absent: true}, protocol.Member{Node: "node_2", From: 50})
	report, err := n.Round(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, []string{"node_1", "node_2"}, way.windows[0].Peers)
	require.Equal(t, []event.Peer{{Node: "node_1"}, {Node: "node_2"}}, report.Peers)
	require.Zero(t, report.TrainedExternal)
}

// A peer that floods is drawn no more often than one that shares as much as is drawn. A uniform draw would take
// nearly only the flood.
func TestAsyncDrawIsFairOverPeers(t *testing.T) {
	count := func(sampling string) (flood, modest int) {
		n, way, _ := asyncNode(t, func(c *configs.Config) { c.NumTransplantTrees, c.ExternalSampling = 2, sampling })
		way.give = func(w exchange.Window) (list []*exchange.Received) {
			for k := range 20 { // new rollouts every round
				list = append(list, aged(t, answers(t, n, "node_1", 20*w.Round+k), 0))
			}
			return append(list, aged(t, answers(t, n, "node_2", w.Round), 0))
		}
		for round := range 20 {
			report, err := n.Round(t.Context(), round)
			require.NoError(t, err)
			flood, modest = flood+report.Peers[0].Used, modest+report.Peers[1].Used
		}
		return flood, modest
	}
	flood, modest := count(configs.SamplingAuto)
	require.Equal(t, []int{20, 20}, []int{flood, modest})
	flood, modest = count(configs.SamplingUniform)
	require.Greater(t, flood, 30)
	require.Less(t, modest, 10)
}

// The journal records what a round draws, so that the next process does not draw it again.
func TestAsyncDrawsAreJournaled(t *testing.T) {
	n, way, _ := asyncNode(t, nil)
	way.give = func(w exchange.Window) []*exchange.Received {
		return []*exchange.Received{aged(t, answers(t, n, "node_1", 7), 0)}
	}
	log := &draws{}
	n.Journal = log
	_, err := n.Round(t.Context(), 0)
	require.NoError(t, err)
	slices.SortFunc(log.externals, func(a, b journal.External) int { return a.Index - b.Index })
	require.Equal(t, []journal.External{{Node: "node_1", Round: 7, Index: 0}, {Node: "node_1", Round: 7, Index: 1}}, log.externals)
}

// draws is a Journal that keeps what was drawn.
type draws struct{ externals []journal.External }

func (d *draws) Generated(int, journal.Generated) error { return nil }
func (d *draws) Trained(_ int, r journal.Trained) error {
	d.externals = append(d.externals, r.Externals...)
	return nil
}

// Over the real bus, async nodes learn from each other although one is rounds ahead, and train on no rollout twice.
func TestAsyncNodesLearnFromEachOther(t *testing.T) {
	c := testConfig(t)
	c.Sync, c.MaxStaleness, c.MaxCompletionLength, c.NumTransplantTrees = configs.SyncAsync, 2, 48, 8
	c.SwarmSize = 5
	server := broker(t, "async")
	ids := []string{"node_0", "node_1"}
	var nodes []*Node
	var logs []*draws
	for _, id := range ids {
		items := map[int]string{}
		p := &scripted{answer: func(i, g int) string { return items[10*i+g] }}
		n := newNode(t, c, id, p, join(t, server, "async", id), newHost(ids...))
		log := &draws{}
		p.generate = func(context.Context) error { // completions with even index are right
			groups, err := n.sampleBatch(len(p.generated)-1, n.Config.NumTrainSamples)
			for i, g := range groups {
				for k := range c.NumGenerations {
					items[10*i+k] = say(g.item, k%2 == 0)
				}
			}
			return err
		}
		n.Journal = log
		nodes, logs = append(nodes, n), append(logs, log)
	}
	for round := range 3 { // node_0 is alone
		report, err := nodes[0].Round(t.Context(), round)
		require.NoError(t, err)
		require.Zero(t, report.TrainedExternal)
	}
	for round := range 6 {
		report, err := nodes[1].Round(t.Context(), round)
		require.NoError(t, err)
		require.False(t, report.Late)
		_, err = nodes[0].Round(t.Context(), 3+round)
		require.NoError(t, err)
	}
	for i, log := range logs {
		seen := map[journal.External]bool{}
		for _, origin := range log.externals {
			require.False(t, seen[origin], "%+v twice", origin)
			require.NotEqual(t, ids[i], origin.Node)
			seen[origin] = true
		}
		require.Greater(t, len(seen), 6)
	}
}
