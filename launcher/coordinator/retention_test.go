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
	"github.com/sapo-swarm/swarm/node/protocol"
)

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
		other   protocol.Member // in addition to two nodes that continue
		reaches int             // rounds that it completes
		kept    int             // rounds that may be kept
	}{
		"all go on":            {protocol.Member{Node: "c"}, rounds, 3 * every},
		"one is away":          {protocol.Member{Node: "c", Absent: true}, 5, 3 * every},
		"one claims to be new": {protocol.Member{Node: "c"}, 0, strayRounds + every},
	} {
		t.Run(name, func(t *testing.T) {
			p := &purger{}
			const lag = 2
			keep := newRetention(t.Context(), p, nil, lag, slog.New(slog.DiscardHandler))
			defer keep.close()
			members := func() []protocol.Member { return append(protocol.Members("a", "b"), c.other) }
			for round := range rounds {
				for _, node := range []string{"a", "b", "c"} {
					if node == "c" && round >= c.reaches {
						continue
					}
					keep.seeMember(event.Event{Type: event.TypeRound, Node: node, Worker: "w", Round: &event.Round{Round: round}}, members)
					if (round+1)%every == 0 {
						keep.seeMember(event.Event{Type: event.TypeCheckpoint, Node: node, Worker: "w",
							Checkpoint: &event.Checkpoint{Round: round + 1}}, members)
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

// If this host has nodes, they decide, and workers' events have no effect.
func TestOwnNodesDecideWhatIsDropped(t *testing.T) {
	p := &purger{}
	keep := newRetention(t.Context(), p, []string{"node_0", "node_1"}, 0, slog.New(slog.DiscardHandler))
	saved := func(node string, round int) event.Event {
		return event.Event{Type: event.TypeCheckpoint, Node: node, Checkpoint: &event.Checkpoint{Round: round}}
	}
	for round := 10; round <= 40; round += 10 {
		keep.see(saved("node_0", round))
		keep.seeMember(saved("anna_0", 10*round), func() []protocol.Member { return protocol.Members("anna_0") })
	}
	require.Zero(t, p.dropped())
	keep.see(saved("node_1", 10))
	keep.see(saved("node_1", 20))
	keep.close()
	require.Equal(t, 10, p.dropped(), fmt.Sprint(keep.checkpoints))
}
