package node

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// splitting configures runs that decide I and J each round: of 8 groups, starting with 4 / 4.
func splitting(split string) func(*configs.Config) {
	return func(c *configs.Config) {
		c.Split, c.SplitEvery, c.SplitAlpha, c.SwarmSize, c.Rounds, c.CheckpointEvery = split, 2, 60, 2, 11, 3
		c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations = 4, 4, 4
	}
}

// splitPoints are the points around the decision of a split where a process ends.
var splitPoints = []point{
	{Type: event.TypeState, State: event.StateGenerating, Round: 1},
	{Type: event.TypeState, State: event.StateEvaluating, Round: 2}, // during the measurement for the first split
	{Type: event.TypeState, State: event.StateGenerating, Round: 2}, // the split is judged, but nothing is logged
	{Type: event.TypeState, State: event.StateSharing, Round: 4, Before: true},
	{Type: event.TypeState, State: event.StateUpdating, Round: 5},
	{Type: event.TypeCheckpoint, Round: 6},
	{Type: event.TypeRound, Round: 7, Before: true},
	{Type: event.TypeState, State: event.StateSharing, Round: 8},
}

// A node that decides its I and J itself is killed around every decision. Under either rule it has the same splits,
// rewards and weights as a node that is not killed. I and J have the same sum in every round.
func TestKilledAroundSplits(t *testing.T) {
	for split, least := range map[string]int{configs.SplitBandit: 4, configs.SplitRewardEMA: 3} {
		t.Run(split, func(t *testing.T) {
			t.Parallel()
			pair := func(run string) (protocol.Start, protocol.Start) {
				server, members := broker(t, run), protocol.Members("node_0", "node_1")
				return standInAssignment(t, server, run, "node_0", members, splitting(split)),
					standInAssignment(t, server, run, "node_1", members, splitting(split))
			}
			a, b := pair("calm")
			calm, peer := begin(t, a), begin(t, b)
			calm.ends(ExitDone)
			peer.ends(ExitDone)
			want := newLedger(t)
			want.take(calm, 0)
			require.Equal(t, 11, want.recorded())
			taken := map[sapo.Split]bool{}
			for _, r := range want.rounds {
				require.Equal(t, 8, r.SplitOwn+r.SplitExternal)
				require.Equal(t, r.SplitOwn, r.TrainedOwn)
				require.LessOrEqual(t, r.TrainedExternal, r.SplitExternal)
				require.Equal(t, r.SplitOwn*4, r.Completions)
				taken[sapo.Split{Own: r.SplitOwn, External: r.SplitExternal}] = true
			}
			require.Equal(t, 4, want.rounds[0].SplitExternal)
			require.GreaterOrEqual(t, len(taken), least, "hardly anything is decided: nothing is compared")

			a, b = pair("storm")
			peer = begin(t, b)
			got, met := newLedger(t), 0
			ends := slices.DeleteFunc(slices.Clone(splitPoints), func(p point) bool {
				return split == configs.SplitRewardEMA && p.State == event.StateEvaluating // this rule measures nothing
			})
			for _, p := range append(ends, point{Type: "never"}) {
				a.Recorded = got.recorded()
				l, _ := beginMortal(t, a, p)
				if l.dies() != ExitDone {
					met++
				}
				got.take(l, a.Recorded)
			}
			peer.ends(ExitDone)
			require.Equal(t, len(ends), met)
			require.Equal(t, want.rounds, got.rounds)
			require.Equal(t, want.checkpoints[11], got.checkpoints[11])
		})
	}
}

// splitNode returns a node that divides 8 groups, starting with 4 / 4. Its policy always answers the same.
func splitNode(t *testing.T, change func(*configs.Config)) (*Node, *scripted) {
	t.Helper()
	c := testConfig(t)
	splitting(configs.SplitBandit)(&c)
	if change != nil {
		change(&c)
	}
	script := &scripted{answer: func(int, int) string { return "<answer>1</answer>" }}
	n := newNode(t, c, "node_0", script, nil, newHost("node_0"))
	var err error
	n.Validation, err = OpenValidation(c, n.Tasks, n.Tokens, n.Context, nil)
	require.NoError(t, err)
	return n, script
}

// A split holds for split_every rounds. Its gain is measured with the same questions and seeds each time. A stop in
// between decides nothing.
func TestASplitIsKeptAndThenJudged(t *testing.T) {
	n, script := splitNode(t, nil)
	var splits []sapo.Split
	for round := range 6 {
		var m measured
		if round == 2 { // a stop during the measurement
			calls := 0
			n.Host.(*host).lease = func(context.Context, string) (func(), error) {
				if calls++; calls == 2 {
					return nil, ErrStopped
				}
				return func() {}, nil
			}
			_, err := n.split(t.Context(), round, &m)
			require.ErrorIs(t, err, ErrStopped)
			require.Equal(t, 1, n.splits.Round)
			n.Host.(*host).lease = nil
		}
		for range 2 { // a second call returns the same and measures nothing
			split, err := n.split(t.Context(), round, &m)
			require.NoError(t, err)
			require.Equal(t, split, m.split)
			splits = append(splits, split)
		}
		n.observeSplit(round, policy.UpdateParams{Prompts: [][]int{{1, 2}}, Sequences: []policy.Sequence{{Completion: []int{3}, Advantage: 1}}}, 1, 0)
	}
	for i := range splits {
		require.Equal(t, splits[i/4*4], splits[i], "of round %d", i/2)
	}
	require.NotEqual(t, splits[0], splits[4])
	require.NotEqual(t, splits[4], splits[8])

	measurements := script.generated[:2]
	require.Len(t, script.generated, 3*2+1)
	require.Equal(t, measurements, script.generated[3:5])
	require.Equal(t, measurements, script.generated[5:])
	questions := len(measurements[0].Prompts) + len(measurements[1].Prompts)
	require.Equal(t, validationQuestions, questions)
	_, cost, err := n.validate(t.Context(), 6)
	require.NoError(t, err)
	require.Equal(t, float64(sampledTokenCost*questions*validationGenerations*len("<answer>1</answer>?")), cost)
}

// A round costs the tokens of prompts and completions that it trains on, once per iteration, and the tokens sampled
// for its own questions.
func TestRoundCost(t *testing.T) {
	p := policy.UpdateParams{NumIterations: 2, Prompts: [][]int{make([]int, 5), make([]int, 7)}, Sequences: []policy.Sequence{
		{Prompt: 0, Completion: make([]int, 3), Advantage: 1}, {Prompt: 0, Completion: make([]int, 2)}, {Prompt: 1, Completion: make([]int, 4), Advantage: -1},
	}}
	require.EqualValues(t, 2*(5+3+7+4)+sampledTokenCost*(3+2), roundCost(p, 1), "one own question, one of another's")
	require.EqualValues(t, 2*(5+3+7+4)+sampledTokenCost*(3+2+4), roundCost(p, 2))
	p.Beta = 0.1
	require.EqualValues(t, 2*(5+3+2+7+4), roundCost(p, 0), "the KL divergence is of all; a prompt counts once")
}

// The split does not change the questions: slot i of a node has the same question for any I, and a peer can check
// it without knowing I.
func TestQuestionsDoNotDependOnTheSplit(t *testing.T) {
	n, _ := splitNode(t, nil)
	all, err := n.sampleBatch(5, 8)
	require.NoError(t, err)
	for own := range 8 {
		some, err := n.sampleBatch(5, own+1)
		require.NoError(t, err)
		require.Equal(t, all[:own+1], some)
	}
	n.ID = "node_1"
	whole, err := n.sampleBatch(5, 8)
	require.NoError(t, err)
	n.ID = "node_0"
	var batch exchange.Batch
	batch.Version, batch.Node, batch.Round = exchange.Version, "node_1", 5
	for _, g := range whole {
		batch.Rollouts = append(batch.Rollouts, rollout(g.item, "<answer>1</answer>", "<answer>2</answer>"))
	}
	require.Zero(t, n.judgeBatch(sent(t, batch), false).rejected)
	batch.Rollouts = append(batch.Rollouts, batch.Rollouts[0])
	require.Equal(t, 1, n.judgeBatch(sent(t, batch), false).rejected, "more than I + J")
}

// The validation set shares no question with the evaluation set, and no node trains on it.
func TestValidationIsApart(t *testing.T) {
	n, _ := splitNode(t, func(c *configs.Config) { c.EvalQuestions = 60 })
	evaluation, err := OpenHeldOut(n.Config, n.Tasks, n.Tokens, n.Context)
	require.NoError(t, err)
	require.Equal(t, 60, evaluation.Len())
	validation, err := OpenValidation(n.Config, n.Tasks, n.Tokens, n.Context, evaluation)
	require.NoError(t, err)
	require.Equal(t, validationQuestions, validation.Len())
	for _, item := range validation.items {
		require.True(t, task.HeldOut(item))
		require.False(t, evaluation.Holds(item.Question), item.Question)
		n.HeldOut, n.Validation = evaluation, validation
		_, err := n.external(item, rollout(task.Item{Question: item.Question, Answer: item.Answer}, "1", "2"))
		require.ErrorContains(t, err, "held-out")
	}
}

// A split state of another rule, or an invalid one, is refused and changes nothing.
func TestForeignSplitStatesAreRefused(t *testing.T) {
	n, _ := splitNode(t, nil)
	_, err := n.split(t.Context(), 0, &measured{})
	require.NoError(t, err)
	before, err := n.splitState()
	require.NoError(t, err)
	for _, state := range []string{
		`{"round":3,"ema":{"external":4}}`, `{"round":3}`, `[]`, `{"round":3,"bandit":{"arms":[]},"block":{}}`, `{"bandit":{"arms":[{}],"arm":-1},"block":{}}`,
		`{"round":3,"bandit":{"arms":[{"external":4}]}}`,
	} {
		require.Error(t, n.recallSplits([]byte(state)), state)
	}
	require.NoError(t, n.recallSplits(nil))
	require.NoError(t, n.recallSplits(before))
	after, err := n.splitState()
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(after))
}

// After a round without external rollouts, the node begins the next round only when its peers have shared that
// round. It may not run ahead of a swarm that may use its rollouts.
func TestANodeThatTakesNothingKeepsTheSwarmsPace(t *testing.T) {
	n, script := splitNode(t, nil)
	server := broker(t, "pace")
	n.Swarm, n.Host = join(t, server, "pace", "node_0"), newHost("node_0", "node_1")
	peer := join(t, server, "pace", "node_1")
	for round := range 3 {
		require.NoError(t, peer.Publish(t.Context(), answers(t, n, "node_1", round)))
	}
	bandit := sapo.NewSplitBandit(sapo.Split{Own: 8}, 1)
	n.splits = &splits{Round: 3, Split: sapo.Split{Own: 8}, Bandit: &bandit, Block: &block{Since: 3, Set: n.Validation.Set}}
	began := make(chan struct{})
	script.generate = func(context.Context) error {
		close(began)
		return ErrStopped
	}
	done := make(chan error, 1)
	go func() {
		_, err := n.Round(t.Context(), 4)
		done <- err
	}()
	waits := make(chan struct{})
	go func() {
		n.Host.(*host).await(event.StateBarrier)
		close(waits)
	}()
	select {
	case <-waits:
	case <-began:
	}
	select {
	case <-began:
		t.Fatal("it generates round 4 before its peer has shared round 3")
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, peer.Publish(t.Context(), answers(t, n, "node_1", 3)))
	require.ErrorIs(t, <-done, ErrStopped)
	<-began
	require.False(t, n.ahead(6), "only in the round after it")
	n.splits.Split.External, n.splits.Round = 2, 4
	require.False(t, n.ahead(5), "it waits for others anyway")
}
