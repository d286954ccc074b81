package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
)

// outcome holds what must be equal in two runs of a swarm, by node.
type outcome struct {
	rewards [][]float64
	peers   [][]event.Peer
	updates [][]policy.UpdateParams
	hashes  []string
}

// shuffled grants leases one at a time, in an order that depends on the seed and not on the order of the requests.
type shuffled struct {
	mu      sync.Mutex
	rng     *rand.Rand
	waiting []chan struct{}
	held    bool
}

func (s *shuffled) lease(ctx context.Context, _ string) (func(), error) {
	granted := make(chan struct{})
	s.mu.Lock()
	s.waiting = append(s.waiting, granted)
	s.next()
	s.mu.Unlock()
	select {
	case <-granted:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = false
		s.next()
	}, nil
}

func (s *shuffled) next() {
	if s.held || len(s.waiting) == 0 {
		return
	}
	i := s.rng.IntN(len(s.waiting))
	close(s.waiting[i])
	s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
	s.held = true
}

// swarm runs all rounds of a swarm of three with real engines. leaseSeed determines the order of the leases. 0
// grants all at once.
func swarm(t *testing.T, c configs.Config, leaseSeed uint64) outcome {
	t.Helper()
	const size = 3
	model := trainedModel(t)
	engines := lab.Engines(t, size)
	run := fmt.Sprintf("run%d", leaseSeed)
	server := broker(t, run)
	pool := &shuffled{rng: rand.New(rand.NewPCG(leaseSeed, 0))}
	out := outcome{make([][]float64, size), make([][]event.Peer, size), make([][]policy.UpdateParams, size), make([]string, size)}
	ids := []string{"node_0", "node_1", "node_2"}
	group, ctx := errgroup.WithContext(t.Context())
	for i, engine := range engines {
		policytest.Load(t, engine, model, c.Seed)
		h := newHost(ids...)
		if leaseSeed != 0 {
			h.lease = pool.lease
		}
		record := &recorder{Policy: engine}
		n := newNode(t, c, ids[i], record, join(t, server, run, ids[i]), h)
		group.Go(func() error {
			for round := range c.Rounds {
				report, err := n.Round(ctx, round)
				if err != nil {
					return fmt.Errorf("%s: %w", n.ID, err)
				}
				out.rewards[i] = append(out.rewards[i], report.Reward, report.TrainingReward, report.Loss)
				out.peers[i] = append(out.peers[i], report.Peers...)
			}
			out.updates[i] = record.updates
			return nil
		})
	}
	require.NoError(t, group.Wait())
	for i, engine := range engines {
		out.hashes[i] = policytest.Hash(t, engine)
	}
	return out
}

// The same seed gives the same rewards, training sets and weights in any order of computation. Another seed gives
// others.
func TestSameSeedSameSwarm(t *testing.T) {
	c := testConfig(t)
	c.NumTrainSamples = 4
	first := swarm(t, c, 0)
	var rewarded, chosen int
	for i := range first.rewards {
		for _, r := range first.rewards[i] {
			if r != 0 {
				rewarded++
			}
		}
		for k := 0; k < len(first.peers[i]); k += 2 { // a round's two peers
			useful := 0
			for _, p := range first.peers[i][k : k+2] {
				useful += p.Available - p.Filtered - p.Rejected
			}
			if useful > c.NumTransplantTrees {
				chosen++
			}
		}
	}
	require.Positive(t, rewarded, "the model never scores: nothing is compared")
	require.Positive(t, chosen, "no draw of externals has a choice: nothing is compared")
	require.NotEqual(t, first.hashes[0], first.hashes[1], "nodes have streams of their own")

	require.Equal(t, first, swarm(t, c, 7))
	c.Seed++
	other := swarm(t, c, 0)
	require.NotEqual(t, first.updates, other.updates)
	require.NotEqual(t, first.hashes, other.hashes)
}
