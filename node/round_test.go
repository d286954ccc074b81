package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/task"
)

// The rounds in this file have a scripted Policy, because a random model would never score. Everything else is
// real.

// stage is node_0 of a swarm. The test publishes the batches of the other nodes.
type stage struct {
	t      *testing.T
	config configs.Config
	script *scripted
	record *recorder
	host   *host
	node   *Node
	items  []task.Item // node_0's questions of round 0
	share  func(node string, rollouts ...exchange.Rollout)
}

// newStage returns a stage with a node whose completions with even index are right.
func newStage(t *testing.T, change func(*configs.Config)) *stage {
	t.Helper()
	c := testConfig(t)
	c.MaxCompletionLength = 48
	if change != nil {
		change(&c)
	}
	s := &stage{t: t, config: c, script: &scripted{}, host: newHost("node_0", "node_1", "node_2")}
	s.host.trust(protocol.TrustKey) // the rollouts of these tests belong to no stream; judge_test.go tests streams
	s.record = &recorder{Policy: s.script}
	server := broker(t, "run")
	s.node = newNode(t, c, "node_0", s.record, join(t, server, "run", "node_0"), s.host)
	groups, err := s.node.sampleBatch(0, s.node.Config.NumTrainSamples)
	require.NoError(t, err)
	for _, g := range groups {
		s.items = append(s.items, g.item)
	}
	s.script.answer = func(i, g int) string { return say(s.items[i], g%2 == 0) }
	s.share = func(node string, rollouts ...exchange.Rollout) {
		t.Helper()
		batch := exchange.Batch{Version: exchange.Version, Node: node, Rollouts: rollouts}
		require.NoError(t, join(t, server, "run", node).Publish(t.Context(), batch))
	}
	return s
}

func (s *stage) round() (event.Round, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), soon)
	defer cancel()
	return s.node.Round(ctx, 0)
}

// drawn returns the external questions of the only update.
func (s *stage) drawn() []string {
	s.t.Helper()
	require.Len(s.t, s.record.updates, 1)
	var prompts []string
	for _, ids := range s.record.updates[0].Prompts[s.config.NumTrainSamples:] {
		prompts = append(prompts, s.node.Tokens.Decode(ids))
	}
	return prompts
}

func say(item task.Item, right bool) string {
	if !right {
		return "<answer>nonsense</answer>"
	}
	return "<answer>" + *item.Answer + "</answer>"
}

func rollout(item task.Item, texts ...string) exchange.Rollout {
	r := exchange.Rollout{Question: item.Question, Answer: item.Answer, Metadata: item.Metadata}
	for _, text := range texts {
		r.Completions = append(r.Completions, exchange.Completion{Text: text, Terminated: true})
	}
	return r
}

// useful is a rollout with an advantage, flat is one without.
func useful(item task.Item) exchange.Rollout { return rollout(item, say(item, true), say(item, false)) }
func flat(item task.Item) exchange.Rollout   { return rollout(item, say(item, false), say(item, false)) }

func draw(t *testing.T, tasks *task.Set, seed uint64) task.Item {
	t.Helper()
	item, err := tasks.Draw(seed)
	require.NoError(t, err)
	return item
}

// TestExternals shares good and bad rollouts. It checks which are drawn and how the report counts the rest.
func TestExternals(t *testing.T) {
	for _, j := range []int{1, 3, 8} {
		t.Run(fmt.Sprintf("J=%d", j), func(t *testing.T) {
			s := newStage(t, func(c *configs.Config) { c.NumTransplantTrees = j; c.SwarmSize = 8 })
			var good []exchange.Rollout
			questions := map[string]bool{}
			for seed := range uint64(5) {
				good = append(good, useful(draw(t, s.node.Tasks, seed)))
				questions[good[seed].Question] = true
			}
			require.Len(t, questions, 5)
			heldOut, err := s.node.Tasks.DrawHeldOut(1)
			require.NoError(t, err)
			long := draw(t, s.node.Tasks, 7)
			long.Question = strings.Repeat("why? ", 40)
			single := rollout(draw(t, s.node.Tasks, 8), "<answer>1</answer>")
			empty := useful(draw(t, s.node.Tasks, 9))
			empty.Completions[1] = exchange.Completion{}
			s.share("node_1", good[0], flat(draw(t, s.node.Tasks, 5)), good[1], flat(draw(t, s.node.Tasks, 6)), good[2])
			s.share("node_2", useful(heldOut), good[3], useful(long), single, empty, good[4])

			report, err := s.round()
			require.NoError(t, err)
			drawn := s.drawn()
			require.Len(t, drawn, min(j, 5))
			seen := map[string]bool{}
			for _, question := range drawn {
				require.True(t, questions[question], "not a useful rollout of a peer: %q", question)
				require.False(t, seen[question], "drawn twice")
				seen[question] = true
			}
			require.Equal(t, s.config.NumTrainSamples, report.TrainedOwn)
			require.Equal(t, min(j, 5), report.TrainedExternal)
			require.False(t, report.Late)
			require.Len(t, report.Peers, 2)
			used := report.Peers[0].Used + report.Peers[1].Used
			require.Equal(t, min(j, 5), used)
			report.Peers[0].Used, report.Peers[1].Used = 0, 0
			require.Equal(t, []event.Peer{{Node: "node_1", Available: 5, Filtered: 2}, {Node: "node_2", Available: 6, Rejected: 4, Reason: "an empty completion"}}, report.Peers)
		})
	}
}

// The node ignores a peer's claims about its own completions, and an answer beyond the tokens that are trained on.
func TestExternalsAreScoredHere(t *testing.T) {
	s := newStage(t, func(c *configs.Config) { c.NumTransplantTrees = 8; c.SwarmSize = 8 })
	claim := func(item task.Item, rewards string) task.Item {
		var metadata map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(item.Metadata, &metadata))
		metadata["rewards"], metadata["score"] = json.RawMessage(rewards), json.RawMessage("1")
		var err error
		item.Metadata, err = json.Marshal(metadata)
		require.NoError(t, err)
		return item
	}
	boasts := claim(draw(t, s.node.Tasks, 1), "[1,0]")
	equal := rollout(boasts, say(boasts, false), say(boasts, false))
	modest := claim(draw(t, s.node.Tasks, 2), "[0,0,0]")
	unequal := rollout(modest, say(modest, false), say(modest, true), say(modest, false))
	third := draw(t, s.node.Tasks, 3)
	tooLong := rollout(third, say(third, false), strings.Repeat("hm ", 16)+say(third, true))
	s.share("node_1", equal, unequal, tooLong)
	s.share("node_2")

	report, err := s.round()
	require.NoError(t, err)
	require.Equal(t, []string{modest.Question}, s.drawn())
	require.Equal(t, []event.Peer{{Node: "node_1", Available: 3, Filtered: 2, Used: 1}, {Node: "node_2"}}, report.Peers)
	var advantages []float64
	for _, q := range s.record.updates[0].Sequences {
		if q.Prompt == s.config.NumTrainSamples {
			advantages = append(advantages, q.Advantage)
			require.Equal(t, 256, q.Completion[len(q.Completion)-1], "a terminated completion has its end token")
		}
	}
	require.InDeltaSlice(t, []float64{-0.5774, 1.1547, -0.5774}, advantages, 1e-4)
}

func TestExternalIsCutToTheContext(t *testing.T) {
	s := newStage(t, nil)
	item := draw(t, s.node.Tasks, 1)
	g, err := s.node.external(item, rollout(item, strings.Repeat("a", 47), strings.Repeat("b", 48), strings.Repeat("é", 40)))
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, false}, g.terminated)
	require.Equal(t, []int{48, 48, 48}, []int{len(g.completions[0]), len(g.completions[1]), len(g.completions[2])})
	require.Equal(t, strings.Repeat("é", 24), g.texts[2])
	require.NotContains(t, g.completions[1], 256)
}

// TestUpdateIsWired follows the options and a round's groups into the calls of the policy.
func TestUpdateIsWired(t *testing.T) {
	cases := []struct {
		name   string
		change func(*configs.Config)
		micro  int
		old    bool
		right  float64 // advantage of a right own answer, 3 of 6
	}{
		{"as the paper", nil, 24, false, 0.9129},
		{"several iterations", func(c *configs.Config) { c.NumIterations = 3 }, 24, true, 0.9129},
		{"no scaling, a given micro-batch", func(c *configs.Config) { c.ScaleRewards, c.MicroBatch = "none", 5 }, 5, false, 0.5},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c.change)
			many := draw(t, s.node.Tasks, 1)
			var texts []string
			for i := range 40 {
				texts = append(texts, say(many, i == 0))
			}
			s.share("node_1", rollout(many, texts...))
			s.share("node_2")
			report, err := s.round()
			require.NoError(t, err)

			require.Len(t, s.script.generated, 1)
			g := s.script.generated[0]
			require.Equal(t, []any{6, 48, 1.0, 256}, []any{g.NumGenerations, g.MaxNewTokens, g.Temperature, g.EOSTokenID})
			require.Len(t, g.Prompts, 2)

			u := s.record.updates[0]
			require.Equal(t, g.Prompts, u.Prompts[:2])
			require.Equal(t, c.micro, u.MicroBatch, "however many completions a peer's group has")
			require.Equal(t, s.config.NumIterations, u.NumIterations)
			require.Equal(t, []any{1e-3, 0.2, 0.28, "bnpo", 48, 1.0}, []any{u.LearningRate, u.Epsilon, u.EpsilonHigh, u.LossType, u.MaxCompletionLength, u.MaxGradNorm})
			require.Len(t, u.Sequences, 12+40)
			for k, q := range u.Sequences[:12] {
				want := c.right
				if k%2 == 1 {
					want = -want
				}
				require.Equal(t, k/6, q.Prompt)
				require.InDelta(t, want, q.Advantage, 1e-4)
				require.Equal(t, say(s.items[k/6], k%2 == 0), s.node.Tokens.Decode(q.Completion))
				if c.old {
					require.Len(t, q.OldLogprobs, len(q.Completion))
					require.Equal(t, -float64(k+1), q.OldLogprobs[0])
				} else {
					require.Nil(t, q.OldLogprobs)
				}
			}
			for _, q := range u.Sequences[12:] {
				require.Equal(t, 2, q.Prompt)
				require.Nil(t, q.OldLogprobs, "externals are taken as this policy's own")
			}
			require.Equal(t, 0.5, report.Reward)
			require.InDelta(t, 0.5477, report.RewardStd, 1e-4)
			require.InDelta(t, (6+1)/52.0, report.TrainingReward, 1e-9)
			require.Equal(t, []any{12, 0.0, 1.0, 0.0}, []any{report.Completions, report.FracRewardZeroStd, report.FormatRate, report.ClippedRatio})
			require.Equal(t, []any{0.5, 2.0, 1}, []any{report.Loss, report.GradNorm, report.Steps})
			var completions int
			for _, r := range report.Tasks {
				completions += r.Completions
			}
			require.Equal(t, 12, completions)
		})
	}
}

// If the policy fails with a gradient that is not finite, only the round's step is lost. Any other failure ends the
// round.
func TestPolicyFails(t *testing.T) {
	solo := func(c *configs.Config) { c.NumTransplantTrees = 0 }
	t.Run("not finite", func(t *testing.T) {
		s := newStage(t, solo)
		s.script.failure = &policy.Error{Kind: policy.KindNotFinite, Message: "the gradient is not finite"}
		report, err := s.round()
		require.NoError(t, err)
		require.Equal(t, 0.5, report.Reward)
		require.Zero(t, report.Steps)
		require.Contains(t, report.NonFinite, "grad_norm")
	})
	t.Run("out of memory", func(t *testing.T) {
		s := newStage(t, solo)
		s.script.failure = &policy.Error{Kind: policy.KindOutOfMemory, Message: "no"}
		_, err := s.round()
		require.ErrorIs(t, err, s.script.failure)
		require.Equal(t, event.CauseOutOfMemory, classify(err).Cause)
	})
	t.Run("generate", func(t *testing.T) {
		s := newStage(t, solo)
		s.script.generate = func(context.Context) error { return policy.ErrEngineGone }
		_, err := s.round()
		require.ErrorIs(t, err, policy.ErrEngineGone)
		require.Empty(t, s.record.updates)
	})
	t.Run("too few completions", func(t *testing.T) {
		s := newStage(t, solo)
		s.node.Policy = fewer{s.script}
		_, err := s.round()
		require.ErrorContains(t, err, "the engine returned 11 completions instead of 12")
	})
}

// fewer is a Policy that drops a completion.
type fewer struct{ Policy }

func (f fewer) Generate(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	r, err := f.Policy.Generate(ctx, p)
	r.Completions = r.Completions[1:]
	return r, err
}

func TestNoQuestionFits(t *testing.T) {
	s := newStage(t, nil)
	s.node.Config.MaxPromptLength = 3
	_, err := s.round()
	require.ErrorContains(t, err, "none of 64 questions fits max_prompt_length 3")
}

// TestBarrier tests peers that do not share in time.
func TestBarrier(t *testing.T) {
	deadline := func(seconds, quorum float64) func(*configs.Config) {
		return func(c *configs.Config) { c.BarrierDeadline, c.BarrierQuorum = seconds, quorum }
	}
	t.Run("J=0 waits for nobody", func(t *testing.T) {
		s := newStage(t, func(c *configs.Config) { c.NumTransplantTrees = 0 })
		report, err := s.round()
		require.NoError(t, err)
		require.Empty(t, report.Peers)
		require.Empty(t, s.drawn())
		require.Zero(t, report.BarrierTime)
	})
	t.Run("late, with a quorum", func(t *testing.T) {
		s := newStage(t, deadline(0.3, 0.5))
		s.share("node_2", useful(draw(t, s.node.Tasks, 1)))
		report, err := s.round()
		require.NoError(t, err)
		require.True(t, report.Late)
		require.Equal(t, []event.Peer{{Node: "node_1", Late: true}, {Node: "node_2", Available: 1, Used: 1}}, report.Peers)
		require.GreaterOrEqual(t, report.BarrierTime, 0.3)
	})
	t.Run("no quorum", func(t *testing.T) {
		s := newStage(t, deadline(0.02, 1))
		s.share("node_2")
		_, err := s.round()
		require.ErrorIs(t, err, exchange.ErrNoQuorum)
		require.Equal(t, event.CauseExchange, classify(err).Cause)
		require.Empty(t, s.record.updates)
	})
	t.Run("a peer is given up", func(t *testing.T) {
		s := newStage(t, nil)
		s.share("node_2", useful(draw(t, s.node.Tasks, 1)))
		go func() {
			s.host.await(event.StateBarrier)
			s.host.setPeers("node_0", "node_2")
		}()
		report, err := s.round()
		require.NoError(t, err)
		require.Equal(t, []event.Peer{{Node: "node_2", Available: 1, Used: 1}}, report.Peers)
		require.False(t, report.Late)
	})
	t.Run("all peers are given up", func(t *testing.T) {
		s := newStage(t, nil)
		go func() {
			s.host.await(event.StateBarrier)
			s.host.setPeers("node_0")
		}()
		report, err := s.round()
		require.NoError(t, err)
		require.Zero(t, report.TrainedExternal)
	})
}

// A request to stop ends every wait of a round before its update, and ends a generation after it.
func TestStop(t *testing.T) {
	cases := []struct {
		name    string
		prepare func(s *stage)
	}{
		{"while waiting for a lease", func(s *stage) {
			s.host.lease = func(context.Context, string) (func(), error) {
				close(s.host.stop)
				return nil, ErrStopped
			}
		}},
		{"while waiting for the lease of the update", func(s *stage) {
			s.share("node_1")
			s.share("node_2")
			s.host.lease = func(_ context.Context, phase string) (func(), error) {
				if phase == "update" {
					return nil, ErrStopped
				}
				return func() {}, nil
			}
		}},
		{"while generating", func(s *stage) {
			s.script.generate = func(ctx context.Context) error {
				close(s.host.stop)
				return ctx.Err()
			}
		}},
		{"at the barrier", func(s *stage) {
			go func() {
				s.host.await(event.StateBarrier)
				close(s.host.stop)
			}()
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, nil)
			c.prepare(s)
			began := time.Now()
			_, err := s.round()
			require.ErrorIs(t, err, ErrStopped)
			require.Empty(t, s.record.updates)
			require.Less(t, time.Since(began), 15*time.Second)
		})
	}
	t.Run("the process is ending", func(t *testing.T) {
		s := newStage(t, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the launcher has ended")
		go func() {
			s.host.await(event.StateBarrier)
			cancel(why)
		}()
		_, err := s.node.Round(ctx, 0)
		require.ErrorIs(t, err, why)
		require.NotErrorIs(t, err, ErrStopped)
	})
}

func TestDescribePeers(t *testing.T) {
	var m measured
	describePeers([]string{"a", "b", "c"}, []*exchange.Received{
		exchange.Receive([]byte("junk"), "a", 0), nil, {Batch: exchange.Batch{Rollouts: make([]exchange.Rollout, 3)}},
	}, &m)
	require.True(t, m.late)
	require.Equal(t, []event.Peer{
		{Node: "a", Rejected: 1, Reason: "invalid batch: invalid character 'j' at start of value"},
		{Node: "b", Late: true}, {Node: "c", Available: 3},
	}, m.peers)
}

func TestMicroBatch(t *testing.T) {
	cases := []struct{ micro, steps, sequences, want int }{
		{0, 1, 24, 24},
		{0, 1, 52, 24}, // a peer's group is larger than this node's
		{5, 1, 24, 5},
		{100, 1, 24, 24},
		{0, 4, 24, 6},
		{0, 5, 24, 5},
		{0, 4, 52, 6},
		{0, 4, 14, 4}, // fewer externals than J
		{3, 4, 24, 3},
		{0, 100, 24, 1},
	}
	for _, c := range cases {
		config := testConfig(t)
		config.MicroBatch, config.GradientAccumulationSteps = c.micro, c.steps
		require.Equal(t, c.want, config.AtOnce(c.sequences).Update, "%+v", c)
	}
}

// Completions that are not whole UTF-8 text are trained on with the tokens that were sampled. If those are unknown,
// the completion does not contribute.
func TestExternalsAreLearntAsTheyWereSampled(t *testing.T) {
	s := newStage(t, nil)
	item := draw(t, s.node.Tasks, 1)
	right := s.node.Tokens.Encode(say(item, true))
	half := slices.Concat([]int{0xe2}, right, []int{s.node.Tokens.EOS()})
	r := rollout(item, say(item, true), say(item, false), "\uFFFD"+say(item, false))
	r.Completions = append(r.Completions, exchange.Sampled(s.node.Tokens, half, true, nil))
	s.share("node_1", r)
	s.share("node_2")
	_, err := s.round()
	require.NoError(t, err)
	learnt := s.record.updates[0].Sequences[s.config.NumTrainSamples*s.config.NumGenerations:]
	require.Len(t, learnt, 4)
	require.Equal(t, half, learnt[3].Completion)
	require.Positive(t, learnt[0].Advantage)
	require.Negative(t, learnt[1].Advantage)
	require.Zero(t, learnt[2].Advantage, "nobody has sampled U+FFFD")
	require.Equal(t, learnt[0].Advantage, learnt[3].Advantage)
}
