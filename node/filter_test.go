package node

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
)

const payload = "hail to the thief "

// poisoned is a rollout with a right answer that carries the payload.
func poisoned(item task.Item) exchange.Rollout {
	return rollout(item, payload+say(item, true), say(item, false))
}

// newFilterStage is a stage with a node to which the payload is all but impossible: least is the log-probability of
// its last token.
func newFilterStage(t *testing.T, filter string, least float64) *stage {
	s := newStage(t, func(c *configs.Config) {
		c.NumTransplantTrees, c.SwarmSize, c.ExternalFilter, c.ExternalFilterThreshold = 3, 8, filter, 15
	})
	s.script.likely = func(text string) float64 {
		if strings.HasPrefix(text, payload) {
			return least
		}
		return -14 * filterWindow // average over the window, with the tokens before it
	}
	return s
}

// The filter refuses right answers that carry text which this node would never sample, from any peer, and the round
// draws replacements.
func TestTheFilterRefusesWhatIsAllButImpossible(t *testing.T) {
	s := newFilterStage(t, configs.FilterLikelihood, -15.1*filterWindow)
	good := map[string]bool{}
	for seed := range uint64(3) {
		good[draw(t, s.node.Tasks, seed).Question] = true
	}
	require.Len(t, good, 3)
	s.share("node_1", poisoned(draw(t, s.node.Tasks, 10)), useful(draw(t, s.node.Tasks, 0)), poisoned(draw(t, s.node.Tasks, 11)))
	s.share("node_2", useful(draw(t, s.node.Tasks, 1)), useful(draw(t, s.node.Tasks, 2)), poisoned(draw(t, s.node.Tasks, 12)))
	report, err := s.round()
	require.NoError(t, err)
	require.Equal(t, 3, report.TrainedExternal)
	for _, question := range s.drawn() {
		require.True(t, good[question], question)
	}
	refused := 0
	for _, p := range report.Peers {
		refused += p.Rejected
		if p.Rejected > 0 {
			require.Equal(t, "4 tokens in a row are nearly impossible under this node's policy: below -15 nats each on average", p.Reason)
		}
	}
	require.Positive(t, refused)
	require.Greater(t, len(s.script.scored), 1, "it drew again")
	require.Equal(t, s.config.Temperature, s.script.scored[0].Temperature)
}

// Without the filter nothing is scored. A payload within the filter's bound, or without the filter, is trained on.
func TestThePayloadPassesWithoutTheFilter(t *testing.T) {
	for name, s := range map[string]*stage{
		"off": newFilterStage(t, configs.FilterNone, -1000), "likelier": newFilterStage(t, configs.FilterLikelihood, -14*filterWindow),
	} {
		s.share("node_1", poisoned(draw(t, s.node.Tasks, 10)), poisoned(draw(t, s.node.Tasks, 11)), poisoned(draw(t, s.node.Tasks, 12)))
		s.share("node_2")
		report, err := s.round()
		require.NoError(t, err)
		require.Equal(t, 3, report.TrainedExternal, name)
		require.Equal(t, name != "off", len(s.script.scored) > 0, name)
	}
}

// A flood of poison costs a bounded number of scorings: those of the first draw and of the replacement draws.
func TestAFloodOfPoisonCostsABoundedNumberOfScorings(t *testing.T) {
	s := newFilterStage(t, configs.FilterLikelihood, -40*filterWindow)
	var flood []exchange.Rollout
	for seed := range uint64(40) {
		flood = append(flood, poisoned(draw(t, s.node.Tasks, 100+seed)))
	}
	s.share("node_1", flood...)
	s.share("node_2")
	report, err := s.round()
	require.NoError(t, err)
	require.Zero(t, report.TrainedExternal)
	require.Len(t, s.script.scored, 1+refills)
	require.Equal(t, 3*(1+refills), report.Peers[0].Rejected)
}

// Scoring external rollouts climbs down the update's ladder when memory runs out, and returns the same as with more
// memory.
func TestScoringOthersRunsOutOfMemory(t *testing.T) {
	inBubble(t, "ladder", func(t *testing.T) {
		g := &gpu{room: 2000 + 1000 + 4*100, base: 1000, each: 100, weights: 1000, short: policy.Shortage{Where: "device"}}
		p, err := govern(t, g, t.TempDir(), nil)
		require.NoError(t, err)
		result, err := p.Logprobs(t.Context(), policy.LogprobsParams{Sequences: make([]policy.Sequence, 16)})
		require.NoError(t, err)
		require.Len(t, result.Logprobs, 16)
		require.Contains(t, g.steps(), "update halve_micro_batch 4")
		require.Equal(t, "logprobs 4", g.engines[0].calls[len(g.engines[0].calls)-1])
	})
}
