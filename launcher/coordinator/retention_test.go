package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// nodeAt is the state of a node that has done and shared so many rounds.
func nodeAt(worker, node string, round int) membership.NodeStatus {
	return membership.NodeStatus{Worker: worker, Node: node, Round: round, Trusted: round, Shared: round - 1}
}

// purger is a transport that records calls of Purge.
type purger struct {
	workers.Transport
	mu     sync.Mutex
	before int
}

func (p *purger) Purge(_ context.Context, before int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = before
	return nil
}

func (p *purger) dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before
}

// A host without nodes drops shared rollouts as the workers' rounds end, even if one worker's node is away, new or
// stuck.
func TestAHostWithoutNodesDropsOldRollouts(t *testing.T) {
	const every, rounds = 10, 400
	for name, c := range map[string]struct {
		absent  bool // of a third node, in addition to two that continue
		reaches int  // rounds that it completes
		kept    int  // rounds that may be kept
	}{
		"all go on":            {false, rounds, 3 * every},
		"one is away":          {true, 5, 3 * every},
		"one claims to be new": {false, 0, strayRounds + every},
	} {
		t.Run(name, func(t *testing.T) {
			p := &purger{}
			const lag = 2
			keep := newRetention(t.Context(), p, nil, lag, slog.New(slog.DiscardHandler))
			defer keep.close()
			for round := range rounds {
				nodes := func() []membership.NodeStatus {
					third := nodeAt("c", "c", min(round+1, c.reaches))
					third.Absent = c.absent
					return []membership.NodeStatus{nodeAt("a", "a", round+1), nodeAt("b", "b", round+1), third}
				}
				for _, node := range []string{"a", "b", "c"} {
					if node == "c" && round >= c.reaches {
						continue
					}
					keep.seeMember(event.Event{Type: event.TypeRound, Node: node, Worker: node, Round: &event.Round{Round: round}}, nodes)
					if (round+1)%every == 0 {
						keep.seeMember(event.Event{Type: event.TypeCheckpoint, Node: node, Worker: node,
							Checkpoint: &event.Checkpoint{Round: round + 1}}, nodes)
					}
				}
				if round%every == 0 {
					want := round - c.kept - lag
					require.Eventually(t, func() bool { return p.dropped() >= want }, time.Minute, time.Millisecond,
						"in round %d %d are dropped, not %d", round, p.dropped(), want)
				}
				require.LessOrEqual(t, p.dropped(), max(0, round+1-every), "what a node needs again from its second newest checkpoint on stays")
			}
		})
	}
}

// One worker drops nothing that others need, however many nodes it has, and whatever it reports or shares. While it is
// the only one present, no round that it has not shared counts.
func TestOneWorkerDropsNothingThatOthersNeed(t *testing.T) {
	const every, rounds, end = 10, 200, 2000
	for name, c := range map[string]struct {
		trusted int  // round of eve's nodes by what they shared
		alone   bool // the others are away
	}{
		"it invents rounds":                  {2, false},
		"it shares ahead of the others":      {end, false},
		"it invents rounds while it's alone": {30, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &purger{}
			keep := newRetention(t.Context(), p, nil, 0, slog.New(slog.DiscardHandler))
			var at int
			nodes := func() (list []membership.NodeStatus) {
				for _, honest := range []string{"anna", "ben"} {
					n := nodeAt(honest, honest+"_0", at)
					n.Absent = c.alone
					list = append(list, n)
				}
				for i := range membership.MaxNodes {
					n := nodeAt("eve", fmt.Sprint("eve_", i), end)
					n.Trusted = c.trusted
					list = append(list, n)
				}
				return list
			}
			report := func(worker, node string, done int) {
				keep.seeMember(event.Event{Type: event.TypeRound, Node: node, Worker: worker, Round: &event.Round{Round: done - 1}}, nodes)
				keep.seeMember(event.Event{Type: event.TypeCheckpoint, Node: node, Worker: worker, Checkpoint: &event.Checkpoint{Round: done}}, nodes)
			}
			for at = every; at <= rounds; at += every {
				report("anna", "anna_0", at)
				report("ben", "ben_0", at)
				for i := range membership.MaxNodes {
					report("eve", fmt.Sprint("eve_", i), end-1)
					report("eve", fmt.Sprint("eve_", i), end)
				}
			}
			keep.close()
			if c.alone {
				require.Equal(t, c.trusted, p.dropped())
			} else {
				require.LessOrEqual(t, p.dropped(), rounds-every)
			}
		})
	}
}

// If this host has nodes, they decide, and workers' events have no effect.
func TestOwnNodesDecideWhatIsDropped(t *testing.T) {
	p := &purger{}
	keep := newRetention(t.Context(), p, []string{"node_0", "node_1"}, 0, slog.New(slog.DiscardHandler))
	saved := func(node string, round int) event.Event {
		return event.Event{Type: event.TypeCheckpoint, Node: node, Checkpoint: &event.Checkpoint{Round: round}}
	}
	for round := 10; round <= 40; round += 10 {
		keep.see(saved("node_0", round))
		keep.seeMember(saved("anna_0", 10*round), func() []membership.NodeStatus { return []membership.NodeStatus{nodeAt("anna", "anna_0", 10*round)} })
	}
	require.Zero(t, p.dropped())
	keep.see(saved("node_1", 10))
	keep.see(saved("node_1", 20))
	keep.close()
	require.Equal(t, 10, p.dropped(), fmt.Sprint(keep.checkpoints))
}
