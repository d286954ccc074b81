package node

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// latecomerFrom is the first round of the latecomer in these tests.
const latecomerFrom = 3

// latecomers returns two nodes of seven rounds: one from the start and one from round latecomerFrom.
func latecomers(t *testing.T, run string) (first, late protocol.Start) {
	server := broker(t, run)
	members := protocol.Members("node_0", "node_1")
	members[1].From = latecomerFrom
	config := func(c *configs.Config) {
		c.NumTransplantTrees, c.Rounds, c.SwarmSize, c.CheckpointEvery = 2, 7, 2, 3
		c.EvalQuestions, c.EvalEvery, c.EvalGenerations = 3, 4, 2
	}
	first, late = assignment(t, server, run, t.TempDir(), config), assignment(t, server, run, t.TempDir(), config)
	first.Members, late.Members = members, members
	late.Node, late.Index, late.From, late.Recorded = "node_1", 1, latecomerFrom, latecomerFrom
	return first, late
}

// reached is the end of the ledger's gapless rounds from latecomerFrom on.
func (b *ledger) reached() int {
	round := latecomerFrom
	for _, ok := b.rounds[round]; ok; _, ok = b.rounds[round] {
		round++
	}
	return round
}

// A latecomer begins with the swarm's round and the initial weights. However often it is killed, it ends as if it
// had not been. It reports every round from its first on once it is done, and none before.
func TestLatecomerIsKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	lives := func(run string, points []point) *ledger {
		first, late := latecomers(t, run)
		peer := begin(t, first)
		peer.wait = 8 * soon
		got := newLedger(t)
		evaluated := map[int]bool{}
		for _, p := range append(points, point{Type: "never"}) {
			late.Recorded = got.reached()
			l, _ := beginMortal(t, late, p)
			if code := l.dies(); p.Type == "never" {
				require.Equal(t, ExitDone, code, "%v", l.failure())
			} else {
				require.Equal(t, -1, code, "%s is not met: %v", p, l.failure())
			}
			require.GreaterOrEqual(t, l.loaded().StartRound, latecomerFrom)
			got.take(l, late.Recorded)
			for _, e := range l.events {
				if e.Eval != nil {
					evaluated[e.Eval.Round] = true
				}
			}
		}
		peer.ends(ExitDone)
		require.Equal(t, map[int]bool{3: true, 4: true, 7: true}, evaluated, "the first weights are evaluated before its first round")
		require.Equal(t, 7, got.reached())
		require.Len(t, got.rounds, 4)
		next := latecomerFrom
		for r, err := range journal.Rounds(late.Dir, latecomerFrom) {
			require.NoError(t, err)
			require.Equal(t, next, r.Round)
			next++
		}
		require.Equal(t, 7, next)
		for _, e := range peer.events {
			if e.Round != nil {
				require.Len(t, e.Round.Peers, map[bool]int{true: 1}[e.Round.Round >= latecomerFrom], "round %d", e.Round.Round)
				require.False(t, e.Round.Late)
			}
		}
		return got
	}
	want := lives("punctual", nil)
	got := lives("late", []point{
		{Type: event.TypeState, State: event.StateBarrier, Round: 3, Before: true},
		{Type: event.TypeState, State: event.StateUpdating, Round: 4},
		{Type: event.TypeRound, Round: 5, Before: true},
		{Type: event.TypeCheckpoint, Round: 7, Before: true},
	})
	require.Equal(t, want.rounds, got.rounds)
	require.Equal(t, want.checkpoints[7], got.checkpoints[7])
	require.NotEmpty(t, got.checkpoints[7])
	require.Positive(t, got.replayed)
}

// A generate-only node shares every round and trains in none. It takes no update lease and writes no checkpoint.
// After a kill it continues with the same round.
func TestANodeThatOnlyGenerates(t *testing.T) {
	t.Parallel()
	first, generator := latecomers(t, "generator")
	generator.From, generator.Recorded, generator.GenerateOnly = 0, 0, true
	first.Members = protocol.Members("node_0", "node_1")
	generator.Members = first.Members
	peer := begin(t, first)
	peer.wait = 8 * soon
	got := newLedger(t)
	var starts []int
	evaluated := map[int]bool{}
	for _, p := range []point{
		{Type: event.TypeState, State: event.StateSharing, Round: 2}, {Type: event.TypeRound, Round: 4, Before: true}, {Type: "never"},
	} {
		generator.Recorded = got.recorded()
		l, _ := beginMortal(t, generator, p)
		l.dies()
		got.take(l, generator.Recorded)
		for _, e := range l.events {
			switch {
			case e.Lease != nil:
				require.NotEqual(t, phaseUpdate, e.Lease.Phase)
			case e.Round != nil:
				require.True(t, e.Round.GenerateOnly)
				require.Zero(t, e.Round.TrainedOwn+e.Round.TrainedExternal+e.Round.Steps)
				require.Positive(t, e.Round.Completions)
			case e.Eval != nil:
				evaluated[e.Eval.Round] = true
			}
		}
		generating := slices.IndexFunc(l.events, func(e event.Event) bool { return e.State == event.StateSharing })
		starts = append(starts, l.events[generating].RoundIndex)
	}
	peer.ends(ExitDone)
	require.Equal(t, []int{0, 2, 5}, starts)
	require.Equal(t, 7, got.recorded())
	require.Equal(t, map[int]bool{0: true}, evaluated, "its weights are always the first")
	require.Empty(t, got.checkpoints)
	files, err := filepath.Glob(filepath.Join(generator.Dir, "checkpoint-*"))
	require.NoError(t, err)
	require.Empty(t, files)
	external := 0
	for _, e := range peer.events {
		if e.Round != nil {
			external += e.Round.TrainedExternal
			require.Len(t, e.Round.Peers, 1)
			require.Equal(t, 2, e.Round.Peers[0].Available)
			require.Zero(t, e.Round.Peers[0].Rejected)
		}
	}
	require.Positive(t, external, "nobody learns from it")
}
