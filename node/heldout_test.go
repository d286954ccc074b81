package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
	"github.com/sapo-swarm/swarm/node/task"
)

// paperConfig has the paper's nine tasks.
func paperConfig(t testing.TB) configs.Config {
	t.Helper()
	c := configs.Default()
	mixture, err := configs.TaskSet("paper")
	require.NoError(t, err)
	c.Tasks.Mixture = mixture
	return c
}

func openHeldOut(t testing.TB, c configs.Config) *HeldOut {
	t.Helper()
	h, err := OpenHeldOut(c, openTasks(t, c), bytesTokenizer(t), c.MaxPromptLength+c.MaxCompletionLength)
	require.NoError(t, err)
	return h
}

func TestHeldOutSetIsSpreadOverTheTasks(t *testing.T) {
	c := paperConfig(t)
	for i := range c.Tasks.Mixture {
		c.Tasks.Mixture[i].Weight = float64(1 + i*i)
	}
	for _, asked := range []int{54, 56, 5} {
		c.EvalQuestions = asked
		h := openHeldOut(t, c)
		require.Equal(t, asked, h.Len())
		counts, texts := map[string]int{}, map[string]bool{}
		for i, item := range h.items {
			require.True(t, task.HeldOut(item))
			require.False(t, texts[item.Question])
			require.LessOrEqual(t, len(h.prompts[i]), c.MaxPromptLength)
			texts[item.Question] = true
			counts[item.Task()]++
		}
		for i, spec := range c.Tasks.Mixture {
			want := asked / 9
			if i < asked%9 {
				want++
			}
			require.Equal(t, want, counts[spec.Name], "%s of %d", spec.Name, asked)
		}
	}
}

// The set depends only on tasks and sampling. Experiments that differ in other settings answer the same questions.
func TestHeldOutSetIsTheSameForAllThatCompare(t *testing.T) {
	first := openHeldOut(t, paperConfig(t))
	cases := []struct {
		name   string
		change func(*configs.Config)
		equal  bool
	}{
		{"seed", func(c *configs.Config) { c.Seed = 7 }, true},
		{"I, J, G", func(c *configs.Config) { c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations = 4, 4, 16 }, true},
		{"rounds and rate", func(c *configs.Config) { c.Rounds, c.LearningRate, c.EvalEvery = 10, 1e-5, 1 }, true},
		{"weights", func(c *configs.Config) { c.Tasks.Mixture[3].Weight = 5 }, true},
		{"questions", func(c *configs.Config) { c.EvalQuestions = 18 }, false},
		{"generations", func(c *configs.Config) { c.EvalGenerations = 8 }, false},
		{"draws", func(c *configs.Config) { c.EvalDraws = configs.DrawsShared }, false},
		{"temperature", func(c *configs.Config) { c.Temperature = 0.5 }, false},
		{"top_k", func(c *configs.Config) { c.TopK = 5 }, false},
		{"top_p", func(c *configs.Config) { c.TopP = 0.9 }, false},
		{"completions", func(c *configs.Config) { c.MaxCompletionLength = 128 }, false},
		{"system prompt", func(c *configs.Config) { c.Tasks.SystemPrompt = "simple" }, false},
		{"examples", func(c *configs.Config) { c.Tasks.Examples = 1 }, false},
		{"tasks", func(c *configs.Config) { c.Tasks.Mixture = c.Tasks.Mixture[1:] }, false},
		{"parameters", func(c *configs.Config) { c.Tasks.Mixture[1].Params = map[string]any{"max_digits": 1} }, false},
	}
	for _, k := range cases {
		c := paperConfig(t)
		k.change(&c)
		require.Equal(t, k.equal, openHeldOut(t, c).Set == first.Set, k.name)
	}
}

// A node's own questions are never held-out ones, for any seed, node and round.
func TestHeldOutQuestionsAreNeverTrainedOn(t *testing.T) {
	c := testConfig(t)
	c.NumTrainSamples, c.EvalQuestions = 16, 300
	n := newNode(t, c, "node_0", nil, nil, newHost("node_0"))
	n.HeldOut = openHeldOut(t, c)
	rapid.Check(t, func(t *rapid.T) {
		n.Config.Seed, n.ID = rapid.Int64().Draw(t, "seed"), rapid.StringMatching(`node_[0-9]`).Draw(t, "node")
		groups, err := n.sampleBatch(rapid.IntRange(0, 1<<20).Draw(t, "round"), n.Config.NumTrainSamples)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			if n.HeldOut.Holds(g.item.Question) {
				t.Fatalf("%q is held out", g.item.Question)
			}
		}
	})
}

// A peer cannot bring a held-out question into training, even if its metadata claim that it is another question.
func TestHeldOutQuestionOfAPeerIsRefused(t *testing.T) {
	c := testConfig(t)
	c.EvalQuestions = 9
	n := newNode(t, c, "node_0", nil, nil, newHost("node_0"))
	item := openHeldOut(t, c).items[4]
	rollout := func(metadata json.RawMessage) exchange.Rollout {
		two := []exchange.Completion{{Text: "<answer>1</answer>"}, {Text: "2"}}
		return exchange.Rollout{Question: item.Question, Answer: item.Answer, Metadata: metadata, Completions: two}
	}
	// As from a member trusted by its key: the stream check of other members would refuse the question first.
	external := func(r exchange.Rollout) error {
		_, err := n.external(task.Item{Question: r.Question, Answer: r.Answer, Metadata: r.Metadata}, r)
		return err
	}
	err := external(rollout(item.Metadata))
	require.ErrorContains(t, err, "held-out set")

	// Some of these forged metadata hash to the held-out part too. Most do not, and only the text shows it.
	forged := json.RawMessage(`{}`)
	for i := 0; task.HeldOut(task.Item{Question: item.Question, Answer: item.Answer, Metadata: forged}); i++ {
		forged = json.RawMessage(fmt.Sprintf(`{"source_dataset":"base_conversion","decimal_value":%d}`, i))
	}
	err = external(rollout(forged))
	require.NoError(t, err, "without a set only metadata tell")
	n.HeldOut = openHeldOut(t, c)
	err = external(rollout(forged))
	require.ErrorContains(t, err, "held-out set")
}

// An evaluation reports the scores of its completions.
func TestEvaluationCountsWhatIsRight(t *testing.T) {
	c := testConfig(t)
	c.EvalQuestions, c.EvalGenerations = 21, 5 // calls of 12 and 9 questions
	h := openHeldOut(t, c)
	asked := 0
	model := &scripted{answer: func(prompt, generation int) string {
		item := h.items[asked/c.EvalGenerations]
		asked++
		switch generation {
		case 0, 3:
			return "<answer>" + *item.Answer + "</answer>"
		case 1:
			return *item.Answer // no score without answer tags
		}
		return "<answer>?</answer>"
	}}
	var told []int
	eval, err := h.Evaluate(t.Context(), "node_3", 7, model.Generate, func(done int) { told = append(told, done) })
	require.NoError(t, err)
	require.Equal(t, []int{0, 12}, told)
	require.Len(t, model.generated, 2)
	require.NotEqual(t, model.generated[0].Seed, model.generated[1].Seed)
	require.Equal(t, 12, model.generated[0].MicroBatch, "no more at a time than a round of I = 2, G = 6")
	require.Len(t, eval.Questions, 21)
	var tokens int
	for i, q := range eval.Questions {
		require.Equal(t, h.items[i].Task(), q.Task)
		require.Equal(t, 2, q.Correct, h.items[i].Question)
		require.InDelta(t, 2, q.RewardSum, 0.2, "a wrong answer in tags may be worth a little")
		tokens += 3*len(*h.items[i].Answer) + 2*len("<answer>?</answer>") + 2*len("<answer></answer>") + 5
	}
	require.Equal(t, event.Eval{
		Round: 7, Set: h.Set, Generations: 5, Temperature: 1, FormatRate: 0.8, MeanLength: float64(tokens) / 105, Questions: eval.Questions,
	}, eval)
}

// Equal weights give a node equal evaluations, with any number of completions decoded at a time. Another node's are
// independent, unless all nodes share their random numbers.
func TestEvaluationIsAFunctionOfTheWeights(t *testing.T) {
	engine := lab.Engines(t, 1)[0]
	_, err := engine.Load(t.Context(), policy.LoadParams{ModelDir: trainedModel(t), Device: "cpu", Precision: "fp32", Threads: 1})
	require.NoError(t, err)
	c := testConfig(t)
	c.EvalQuestions, c.EvalGenerations = 20, 4
	evaluate := func(c configs.Config, node string) event.Eval {
		h, err := OpenHeldOut(c, openTasks(t, c), bytesTokenizer(t), policytest.Context)
		require.NoError(t, err)
		eval, err := h.Evaluate(t.Context(), node, 0, engine.Generate, nil)
		require.NoError(t, err)
		require.Positive(t, eval.Seconds)
		eval.Seconds = 0
		return eval
	}
	first := evaluate(c, "node_0")
	right := 0.0
	for _, q := range first.Questions {
		right += q.RewardSum
	}
	require.Positive(t, right, "the tiny model is never right: nothing is compared")
	c.Seed, c.NumTrainSamples, c.NumGenerations = 77, 1, 3
	require.Equal(t, first, evaluate(c, "node_0"))
	other := evaluate(c, "node_1")
	require.Equal(t, first.Set, other.Set)
	require.NotEqual(t, first.Questions, other.Questions)

	c.EvalDraws = configs.DrawsShared
	shared := evaluate(c, "node_0")
	require.Equal(t, shared, evaluate(c, "node_1"))
	require.Equal(t, shared.Set+event.OwnDraws, first.Set)
}

// A node that is told to stop finishes the current call and starts no other.
func TestEvaluationStopsBetweenCalls(t *testing.T) {
	c := testConfig(t)
	c.EvalQuestions, c.EvalGenerations = 60, 4
	h := newHost("node_0")
	leases, released := 0, 0
	h.lease = func(_ context.Context, phase string) (func(), error) {
		require.Equal(t, phaseGenerate, phase)
		leases++
		return func() { released++ }, nil
	}
	model := &scripted{answer: func(int, int) string { return "" }}
	model.generate = func(context.Context) error {
		if len(model.generated) == 2 {
			close(h.stop)
		}
		return nil
	}
	n := newNode(t, c, "node_0", model, nil, h)
	n.HeldOut = openHeldOut(t, c)
	_, err := n.Evaluate(t.Context(), 3)
	require.ErrorIs(t, err, ErrStopped)
	require.Len(t, model.generated, 2)
	require.Equal(t, 2, leases)
	require.Equal(t, 2, released)
}

// A list of items has the same held-out questions in any order of its items.
func TestHeldOutOfAFileIsWhatTheFileHas(t *testing.T) {
	c := testConfig(t)
	c.EvalQuestions = 54
	write := func(name string, backwards bool) configs.Config {
		lines := make([]string, 400)
		for i := range lines {
			at := i
			if backwards {
				at = len(lines) - 1 - i
			}
			lines[at] = fmt.Sprintf(`{"question": "%d plus 1", "answer": "%d", "metadata": {}}`, i, i+1)
		}
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644))
		c := c
		c.Tasks = configs.Tasks{File: path, SystemPrompt: "none"}
		return c
	}
	c = write("a", false)
	h, again := openHeldOut(t, c), openHeldOut(t, write("b", true))
	require.Greater(t, h.Len(), 10)
	require.Less(t, h.Len(), 54)
	require.Equal(t, h.Set, again.Set)
	c.EvalQuestions = 5
	require.Equal(t, h.items[:5], openHeldOut(t, c).items)
}

// An evaluation needs no more memory than the plan has for a round. Its last, smaller call does not reduce the
// lease of the next round.
func TestEvaluationKeepsToTheRoundsMemory(t *testing.T) {
	g := &gpu{room: 1 << 20, weights: 1000, base: 10, each: 100}
	p, err := govern(t, g, t.TempDir(), nil)
	require.NoError(t, err)
	round := policy.GenerateParams{Prompts: make([][]int, 2), NumGenerations: 6, Seed: 1}
	_, err = p.Generate(t.Context(), round)
	require.NoError(t, err)
	need := p.meter.need(phaseGenerate)
	for _, prompts := range []int{16, 3, 1} {
		_, err = p.Generate(t.Context(), policy.GenerateParams{Prompts: make([][]int, prompts), NumGenerations: 4, Seed: 2, MicroBatch: 12})
		require.NoError(t, err)
		require.Equal(t, need, p.meter.need(phaseGenerate))
	}
	require.Equal(t, []string{
		"load", "generate 12 of seed 1", "generate 12 of seed 2", "generate 12 of seed 2", "generate 4 of seed 2",
	}, g.engines[0].calls)
	p.start.GenerateBatch = 5
	_, err = p.Generate(t.Context(), policy.GenerateParams{Prompts: make([][]int, 16), NumGenerations: 4, Seed: 3, MicroBatch: 12})
	require.NoError(t, err)
	require.Equal(t, "generate 5 of seed 3", g.engines[0].calls[5])
}
