package node

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/task"
)

// answers builds the batch that a node shares in a round, with one right and one wrong answer to each question.
func answers(t testing.TB, n *Node, id string, round int) exchange.Batch {
	t.Helper()
	sender := *n
	sender.ID = id
	groups, err := sender.sampleBatch(round, sender.Config.NumTrainSamples)
	require.NoError(t, err)
	batch := exchange.Batch{Version: exchange.Version, Node: id, Round: round}
	for _, g := range groups {
		if g.item.Answer == nil {
			batch.Rollouts = append(batch.Rollouts, rollout(g.item, "<answer>P</answer>", "<answer>Q</answer>"))
			continue
		}
		batch.Rollouts = append(batch.Rollouts, useful(g.item))
	}
	return batch
}

// judgingNode returns a node that checks rollouts of peers with four questions a round.
func judgingNode(t testing.TB, change func(*configs.Config)) *Node {
	c := testConfig(t)
	c.NumTrainSamples, c.MaxCompletionLength = 4, 48
	if change != nil {
		change(&c)
	}
	return newNode(t, c, "node_0", nil, nil, newHost("node_0", "node_1"))
}

// sent returns a batch as its receiver gets it.
func sent(t testing.TB, batch exchange.Batch) *exchange.Received {
	t.Helper()
	data, err := exchange.Encode(batch)
	require.NoError(t, err)
	r := exchange.Receive(data, batch.Node, batch.Round)
	require.Empty(t, r.Rejected)
	return r
}

// A rollout that does not match the sender's stream at that round and index is refused, with the reason. So is
// every rollout after it in the batch.
func TestForgedRolloutsAreRefused(t *testing.T) {
	n := judgingNode(t, nil)
	other := func(id string, round int) []exchange.Rollout { return answers(t, n, id, round).Rollouts }
	set := func(i int, r exchange.Rollout) func(*exchange.Batch) {
		return func(b *exchange.Batch) { b.Rollouts[i] = r }
	}
	for name, forgery := range map[string]struct {
		forge    func(*exchange.Batch)
		rejected int
		reason   error
	}{
		"nothing":                   {func(*exchange.Batch) {}, 0, nil},
		"another name's":            {set(0, other("node_2", 5)[0]), 4, errForeignQuestion},
		"a replay of another round": {set(1, other("node_1", 4)[1]), 3, errForeignQuestion},
		"another place's":           {set(2, other("node_1", 5)[3]), 2, errForeignQuestion},
		"the last is a held-out question": {func(b *exchange.Batch) {
			item, err := n.Tasks.DrawHeldOut(3)
			require.NoError(t, err)
			b.Rollouts[3] = useful(item)
		}, 1, errForeignQuestion},
		"a wrong answer key": {func(b *exchange.Batch) {
			wrong := *b.Rollouts[0].Answer + "1"
			b.Rollouts[0].Answer = &wrong
		}, 4, errForeignAnswer},
		"no answer key": {func(b *exchange.Batch) { b.Rollouts[3].Answer = nil }, 1, errForeignAnswer},
		"metadata with something more": {func(b *exchange.Batch) {
			b.Rollouts[3].Metadata = append(append([]byte{}, b.Rollouts[3].Metadata[:len(b.Rollouts[3].Metadata)-1]...), `,"score":1}`...)
		}, 1, errForeignMetadata},
		"metadata of nothing":           {func(b *exchange.Batch) { b.Rollouts[3].Metadata = json.RawMessage(`{}`) }, 1, errForeignMetadata},
		"more questions than there are": {func(b *exchange.Batch) { b.Rollouts = append(b.Rollouts, b.Rollouts...) }, 4, errForeignIndex},
	} {
		t.Run(name, func(t *testing.T) {
			batch := answers(t, n, "node_1", 5)
			forgery.forge(&batch)
			found := n.judgeBatch(sent(t, batch), false)
			require.Equal(t, forgery.rejected, found.rejected, found.reason)
			require.Len(t, found.groups, len(batch.Rollouts)-forgery.rejected)
			if forgery.reason != nil {
				require.Equal(t, forgery.reason.Error(), found.reason)
			}
		})
	}
}

// A node draws from its own tasks alone, and its peers refuse a question of another task, though it scores like any.
func TestSpecialistsDrawTheirOwnTasks(t *testing.T) {
	general := judgingNode(t, nil)
	n := judgingNode(t, func(c *configs.Config) { c.Nodes.Tasks = "basic_arithmetic,base_conversion+calendar_arithmetic" })
	drawn := map[string]map[string]bool{}
	for _, id := range []string{"node_0", "node_1", "node_2"} {
		drawn[id] = map[string]bool{}
		for round := range 30 {
			item, err := n.question(id, round, 0, 0)
			require.NoError(t, err)
			drawn[id][item.Task()] = true
		}
	}
	require.Equal(t, map[string]map[string]bool{
		"node_0": {"basic_arithmetic": true}, "node_1": {"base_conversion": true, "calendar_arithmetic": true}, "node_2": {"basic_arithmetic": true},
	}, drawn)

	own, foreign := n.judgeBatch(sent(t, answers(t, n, "node_1", 5)), false), n.judgeBatch(sent(t, answers(t, general, "node_0", 5)), false)
	require.Zero(t, own.rejected, own.reason)
	for _, g := range own.groups {
		require.Equal(t, []float64{1, 0}, g.rewards, "a task that the receiver never draws is scored all the same")
	}
	require.Positive(t, foreign.rejected)
	require.Equal(t, errForeignQuestion.Error(), foreign.reason)
}

// A peer that is trusted by its key has no stream. The same forgeries pass, except held-out questions.
func TestForeignMembersHaveNoStream(t *testing.T) {
	n := judgingNode(t, nil)
	batch := answers(t, n, "another program's", 1)
	batch.Node = "node_1"
	require.Zero(t, n.judgeBatch(sent(t, batch), true).rejected)
	require.Positive(t, n.judgeBatch(sent(t, batch), false).rejected)
}

// Honest rollouts pass for any context length and held-out set of the sender, and for any formatting of its JSON.
func TestHonestRolloutsAreTaken(t *testing.T) {
	receiver := judgingNode(t, func(c *configs.Config) { c.EvalQuestions = 0 })
	rapid.Check(t, func(rt *rapid.T) {
		sender := *receiver
		// Context of the sender's model: it skips questions that do not fit.
		sender.Context = rapid.IntRange(140, 240).Draw(rt, "context")
		sender.HeldOut = &HeldOut{questions: map[string]bool{}}
		skipped := rapid.IntRange(0, 6).Draw(rt, "held out by its own evaluation")
		id, round := rapid.StringMatching(`[a-z]{1,8}_[0-9]`).Draw(rt, "node"), rapid.IntRange(0, 1<<20).Draw(rt, "round")
		for i := range skipped {
			item, err := sender.question(id, round, i%4, i/4)
			require.NoError(rt, err)
			sender.HeldOut.questions[item.Question] = true
		}
		batch := answers(t, &sender, id, round)
		if rapid.Bool().Draw(rt, "rewritten") {
			for i := range batch.Rollouts {
				var object map[string]any
				require.NoError(rt, json.Unmarshal(batch.Rollouts[i].Metadata, &object))
				var err error
				batch.Rollouts[i].Metadata, err = json.MarshalIndent(object, "", " ")
				require.NoError(rt, err)
			}
		}
		found := receiver.judgeBatch(sent(t, batch), false)
		require.Zero(rt, found.rejected, found.reason)
		for i, g := range found.groups {
			require.Equal(rt, batch.Rollouts[i].Question, g.item.Question)
			require.Equal(rt, []float64{1, 0}, g.rewards)
		}
	})
}

// A poisoned rollout with metadata that would make nonsense right does not enter training. The receiver computes
// right and wrong itself.
func TestPoisonTrainsNobody(t *testing.T) {
	s := newStage(t, func(c *configs.Config) { c.NumTransplantTrees = 2 })
	s.host.trust(protocol.TrustStream)
	honest, poison := answers(t, s.node, "node_1", 0), answers(t, s.node, "node_2", 0)
	nonsense := "nonsense"
	for i := range poison.Rollouts {
		poison.Rollouts[i].Answer = &nonsense
		poison.Rollouts[i].Metadata = json.RawMessage(`{"source_dataset":"none"}`)
	}
	s.share("node_1", honest.Rollouts...)
	s.share("node_2", poison.Rollouts...)
	report, err := s.round()
	require.NoError(t, err)
	require.Equal(t, []event.Peer{
		{Node: "node_1", Available: 2, Used: 2}, {Node: "node_2", Available: 2, Rejected: 2, Reason: errForeignAnswer.Error()},
	}, report.Peers)
}

// Questions from a file have streams too, also those without metadata.
func TestQuestionsOfAFileAreRegenerated(t *testing.T) {
	var items []task.Item
	for i := range 200 {
		answer := fmt.Sprint(i)
		items = append(items, task.Item{Question: "What is " + answer + "?", Answer: &answer})
	}
	n := judgingNode(t, nil)
	var err error
	n.Tasks, err = task.NewFileSet(items)
	require.NoError(t, err)
	groups, err := n.sampleBatch(3, n.Config.NumTrainSamples)
	require.NoError(t, err)
	for i := range groups {
		groups[i].completions, groups[i].terminated = [][]int{n.Tokens.Encode("<answer>1</answer>"), n.Tokens.Encode("2")}, []bool{false, false}
	}
	batch := n.batch(3, groups)
	require.Zero(t, n.judgeBatch(sent(t, batch), false).rejected)
	require.Equal(t, 4, n.judgeBatch(sent(t, func() exchange.Batch { b := batch; b.Round = 4; return b }()), false).rejected)
}

// TestCostOfStreams measures the cost of checking a swarm's rollouts against their streams, and the cost that a
// forger can cause: a batch of forgeries costs at most one search. It asserts memory, which is the same for every
// draw, and logs times.
func TestCostOfStreams(t *testing.T) {
	c := configs.Default()
	c.Model = "nano"
	mixture, err := configs.TaskSet("paper")
	require.NoError(t, err)
	c.Tasks.Mixture = mixture
	n := &Node{
		ID: "node_0", Config: c, Tasks: openTasks(t, c), Tokens: bytesTokenizer(t), Host: newHost("node_0"), Context: 1 << 20,
		Logger: slog.New(slog.DiscardHandler),
	}
	n.Config.MaxPromptLength = 1 << 20
	const rounds = 50
	began := time.Now()
	for round := range rounds {
		batch := answers(t, n, "node_1", round)
		for i, r := range batch.Rollouts {
			_, err := n.regenerate("node_1", round, i, r)
			require.NoError(t, err)
		}
	}
	honest := time.Since(began) / 2 / rounds // half of the time goes into making the batch
	search := func() {
		for try := range redraws {
			_, err := n.question("node_1", 0, 0, try)
			require.NoError(t, err)
		}
	}
	lies := answers(t, n, "node_2", 0)
	lies.Node = "node_1"
	r := sent(t, lies)
	began = time.Now()
	require.Equal(t, c.NumTrainSamples, n.judgeBatch(r, false).rejected)
	t.Logf("a batch of %d questions of the paper's tasks: honest %v, all lies %v", c.NumTrainSamples, honest, time.Since(began))
	require.Less(t, testing.AllocsPerRun(2, func() { n.judgeBatch(r, false) }), 1.5*testing.AllocsPerRun(2, search))
}
