package node

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// trainedLog keeps the training sets of rounds.
type trainedLog struct {
	mu      sync.Mutex
	trained map[int]journal.Trained
}

func (l *trainedLog) Generated(int, journal.Generated) error { return nil }

func (l *trainedLog) Trained(round int, record journal.Trained) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trained[round] = record
	return nil
}

// swarmOfThree runs all rounds of three nodes with policies that answer 1 and 0 in turn, and returns the last
// node's reports and log.
func swarmOfThree(t *testing.T, run string, change func(*configs.Config)) ([]event.Round, map[int]journal.Trained) {
	t.Helper()
	c := testConfig(t)
	c.Rounds, c.NumTransplantTrees = 6, 3
	change(&c)
	require.NoError(t, configs.Validate(c))
	server, ids := broker(t, run), []string{"node_0", "node_1", "node_2"}
	log := &trainedLog{trained: map[int]journal.Trained{}}
	var reports []event.Round
	group, ctx := errgroup.WithContext(t.Context())
	for _, id := range ids {
		n := newNode(t, c, id, &scripted{answer: func(_, g int) string { return "<answer>" + []string{"1", "0"}[g%2] + "</answer>" }}, join(t, server, run, id), newHost(ids...))
		last := id == "node_2"
		if last {
			n.Journal = log
		}
		group.Go(func() error {
			for round := range c.Rounds {
				report, err := n.Round(ctx, round)
				if err != nil {
					return err
				}
				if last {
					reports = append(reports, report)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	return reports, log.trained
}

// With a lag of two, external rollouts are those of two rounds before, checked against their senders' streams of
// that round. The first two rounds have none.
func TestExternalsLag(t *testing.T) {
	reports, trained := swarmOfThree(t, "lag", func(c *configs.Config) { c.ExternalLag, c.ZeroAdvantageFilter = 2, false })
	for round, report := range reports {
		if round < 2 {
			require.Empty(t, report.Peers)
			require.Zero(t, report.TrainedExternal)
			continue
		}
		require.Len(t, report.Peers, 2)
		require.False(t, report.Late)
		for _, p := range report.Peers {
			require.Zero(t, p.Rejected, p.Reason)
			require.Equal(t, 2, p.Available)
		}
		require.Equal(t, 3, report.TrainedExternal)
		require.InDelta(t, 2, report.Staleness, 1e-12)
		require.Len(t, trained[round].Externals, 3)
		for _, origin := range trained[round].Externals {
			require.Equal(t, round-2, origin.Round)
			require.NotEqual(t, "node_2", origin.Node)
		}
	}
}

// Without the filter, groups of equal rewards are drawn like any other and teach nothing. With the filter they are
// not drawn.
func TestWithoutTheFilterFlatGroupsAreDrawn(t *testing.T) {
	for _, filter := range []bool{true, false} {
		reports, trained := swarmOfThree(t, map[bool]string{true: "with", false: "without"}[filter], func(c *configs.Config) { c.ZeroAdvantageFilter = filter })
		filtered, flat := 0, 0
		for round, report := range reports {
			for _, p := range report.Peers {
				filtered += p.Filtered
			}
			update, advantages := trained[round].Update, map[int]float64{}
			for _, s := range update.Sequences {
				advantages[s.Prompt] += s.Advantage * s.Advantage
			}
			for i := report.TrainedOwn; i < len(update.Prompts); i++ {
				if advantages[i] == 0 {
					flat++
				}
			}
			if !filter {
				require.Equal(t, 3, report.TrainedExternal)
			}
		}
		require.Equal(t, filter, filtered > 0, "%d filtered", filtered)
		require.Equal(t, filter, flat == 0, "%d drawn", flat)
	}
}

// Drawing by reward prefers what this node scores high. With the filter off, it draws groups without reward only if
// the rest does not suffice.
func TestExternalsByReward(t *testing.T) {
	drawn := map[bool]int{}
	for seed := range int64(8) {
		s := newStage(t, func(c *configs.Config) {
			c.NumTransplantTrees, c.SwarmSize, c.Seed = 2, 8, seed
			c.ExternalSampling, c.ZeroAdvantageFilter = configs.SamplingReward, false
		})
		good := useful(draw(t, s.node.Tasks, 100))
		s.share("node_1", good, flat(draw(t, s.node.Tasks, 101)), flat(draw(t, s.node.Tasks, 102)))
		s.share("node_2", flat(draw(t, s.node.Tasks, 103)))
		_, err := s.round()
		require.NoError(t, err)
		questions := s.drawn()
		require.Len(t, questions, 2)
		drawn[questions[0] == good.Question]++
	}
	require.GreaterOrEqual(t, drawn[true], 6, "of 8; what is wrong has a little reward in some tasks")
}

// ahead is an exchange on which look finds an absent peer once, as far ahead as possible. Later the barrier waits
// for that peer.
type ahead struct {
	exchange.Exchange
	newest *exchange.Received // of the absent peer; nil: nothing new
	share  func(round int) *exchange.Received
}

func (a *ahead) Publish(context.Context, exchange.Batch) error { return nil }

func (a *ahead) Gather(_ context.Context, round int, peers []string, _ exchange.Barrier) (list []*exchange.Received, _ error) {
	for range peers {
		list = append(list, a.share(round))
	}
	return list, nil
}

func (a *ahead) Recent(context.Context, exchange.Window) ([]*exchange.Received, error) {
	if a.newest == nil {
		return nil, nil
	}
	return []*exchange.Received{a.newest}, nil
}

// With a lag of two, an absent peer's rollouts that look reads three rounds ahead arrive again five rounds later at
// the barrier. They are trained on once.
func TestLaggedRolloutsAreTrainedOnOnce(t *testing.T) {
	c := testConfig(t)
	c.Rounds, c.ExternalLag, c.MaxCompletionLength = 20, 2, 48
	require.NoError(t, configs.Validate(c))
	n := newNode(t, c, "node_0", &scripted{answer: func(int, int) string { return "<answer>1</answer>" }}, nil, newHost("node_0", "node_1"))
	way := &ahead{share: func(round int) *exchange.Received { return sent(t, answers(t, n, "node_1", round)) }}
	n.Swarm = way
	members := n.Host.(*host)
	members.setMembers(protocol.Member{Node: "node_0"}, protocol.Member{Node: "node_1", Absent: true})
	for round := 10; round < 16; round++ {
		way.newest = nil
		if round == 10 {
			way.newest = way.share(13)
		}
		if round == 15 { // trains on rollouts of round 13
			members.setPeers("node_0", "node_1")
		}
		report, err := n.Round(t.Context(), round)
		require.NoError(t, err)
		require.Equal(t, map[int]int{10: 2}[round], report.TrainedExternal, "round %d", round)
	}
}

// With external_advantage "positive", external completions that are not better than their group's mean teach
// nothing. The node's own completions all do.
func TestOthersFailuresTeachNothingIfSoConfigured(t *testing.T) {
	for _, positive := range []bool{false, true} {
		_, trained := swarmOfThree(t, map[bool]string{true: "positive", false: "all"}[positive], func(c *configs.Config) {
			c.Rounds = 30 // so that some of the node's own answers are right
			if positive {
				c.ExternalAdvantage = configs.AdvantagePositive
			}
		})
		raised, lowered := map[bool]int{}, map[bool]int{} // key: whether the completions are external
		for _, x := range trained {
			own := x.Report.TrainedOwn
			for _, s := range x.Update.Sequences {
				others := s.Prompt >= own
				if s.Advantage > 0 {
					raised[others]++
				} else if s.Advantage < 0 {
					lowered[others]++
				}
			}
		}
		require.Positive(t, raised[false])
		require.Positive(t, lowered[false])
		require.Positive(t, raised[true])
		require.Equal(t, positive, lowered[true] == 0, "%d of others' completions lowered", lowered[true])
	}
}

// With the correction, external completions come with the log-probabilities of their sampling policy. The node's
// own need none in a single iteration.
func TestOthersLogprobsComeAlongIfCorrected(t *testing.T) {
	for _, iterations := range []int{1, 2} {
		_, trained := swarmOfThree(t, "corrected", func(c *configs.Config) {
			c.ExternalCorrection, c.NumIterations = configs.CorrectionImportance, iterations
		})
		others := 0
		for _, x := range trained {
			require.Equal(t, 4.0, x.Update.Delta)
			for _, s := range x.Update.Sequences {
				if s.Prompt < x.Report.TrainedOwn && iterations == 1 {
					require.Nil(t, s.OldLogprobs)
					continue
				}
				require.Len(t, s.OldLogprobs, len(s.Completion))
				require.Negative(t, s.OldLogprobs[0])
				others++
			}
		}
		require.Positive(t, others)
	}
}

// External completions without log-probabilities, such as those of rl-swarm's nodes, are trained on as in the
// paper.
func TestOthersWithoutLogprobsAreNotCorrected(t *testing.T) {
	s := newStage(t, func(c *configs.Config) { c.ExternalCorrection = configs.CorrectionImportance })
	item := draw(t, s.node.Tasks, 1)
	told := rollout(item, say(item, true), say(item, false))
	ids := append(s.node.Tokens.Encode(say(item, true)), s.node.Tokens.EOS())
	told.Completions = append(told.Completions, exchange.Sampled(s.node.Tokens, ids, true, slices.Repeat([]float64{-0.5}, len(ids))))
	s.share("node_1", told)
	s.share("node_2")
	_, err := s.round()
	require.NoError(t, err)
	learnt := s.record.updates[0].Sequences[s.config.NumTrainSamples*s.config.NumGenerations:]
	require.Nil(t, learnt[0].OldLogprobs)
	require.Nil(t, learnt[1].OldLogprobs)
	require.Equal(t, slices.Repeat([]float64{-0.5}, len(ids)), learnt[2].OldLogprobs)
}

// The engine receives, for each correction, which completions are external and how to weight them.
func TestTheEngineIsToldTheCorrection(t *testing.T) {
	for correction, want := range map[string]policy.UpdateParams{
		configs.CorrectionNone:       {},
		configs.CorrectionImportance: {Delta: 4},
		configs.CorrectionTapered:    {Correction: policy.CorrectionTapered},
		configs.CorrectionFTIS:       {Correction: policy.CorrectionFTIS, Divergence: 0.25},
	} {
		s := newStage(t, func(c *configs.Config) { c.ExternalCorrection, c.ExternalDivergence = correction, 0.25 })
		item := draw(t, s.node.Tasks, 1)
		told := useful(item)
		ids := append(s.node.Tokens.Encode(say(item, true)), s.node.Tokens.EOS())
		told.Completions = append(told.Completions, exchange.Sampled(s.node.Tokens, ids, true, slices.Repeat([]float64{-0.5}, len(ids))))
		s.share("node_1", told)
		s.share("node_2")
		_, err := s.round()
		require.NoError(t, err)
		update := s.record.updates[0]
		require.Equal(t, want, policy.UpdateParams{Delta: update.Delta, Correction: update.Correction, Divergence: update.Divergence}, correction)
		own := s.config.NumTrainSamples * s.config.NumGenerations
		for i, q := range update.Sequences {
			require.Equal(t, correction != configs.CorrectionNone && i == own+2, q.External, "%s, sequence %d", correction, i)
		}
	}
}
