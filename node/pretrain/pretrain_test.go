package pretrain

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

var lab policytest.Lab

func TestMain(m *testing.M) {
	code := hermetic.Main(m)
	lab.Close()
	os.Exit(code)
}

func tasks(t *testing.T) *task.Set {
	t.Helper()
	nano, err := configs.TaskSet("nano")
	require.NoError(t, err)
	set, err := task.Open(configs.Tasks{Set: "nano", Mixture: nano})
	require.NoError(t, err)
	return set
}

func options(t *testing.T) Options {
	t.Helper()
	tokens, err := tokenizer.New(tokenizer.NameBytes)
	require.NoError(t, err)
	return Options{
		Shape:  configs.Shape{Layers: 2, Heads: 2, Width: 16, Context: 256, Vocabulary: 257},
		Tokens: tokens, Tasks: tasks(t), Recipe: configs.Recipe{Steps: 30, Batch: 8, LearningRate: 1e-2, TagShare: 0.3}, Seed: 1, Threads: 1,
		EvalItems: 18, MaxNewTokens: 8, Out: filepath.Join(t.TempDir(), "model"),
	}
}

// A run learns, writes a model that the program can use, and is a function of its seed.
func TestRun(t *testing.T) {
	engine := lab.Engines(t, 1)[0]
	run := func(change func(*Options)) (Result, []Progress, string) {
		opts := options(t)
		change(&opts)
		var steps []Progress
		result, err := Run(t.Context(), engine, opts, func(p Progress) { steps = append(steps, p) })
		require.NoError(t, err)
		return result, steps, opts.Out
	}
	first, steps, out := run(func(*Options) {})
	last := steps[len(steps)-1]
	require.Equal(t, []int{30, 30}, []int{last.Step, last.Steps})
	require.Positive(t, last.Tokens)
	require.Greater(t, steps[0].Loss, 5.0, "random weights: ln 257 is 5.55")
	require.Less(t, first.Loss, steps[0].Loss-0.5)
	require.Equal(t, options(t).Recipe, first.Recipe)
	require.Equal(t, last.Loss, first.Loss)

	shape, err := model.Inspect(out)
	require.NoError(t, err)
	require.Equal(t, configs.Shape{Layers: 2, Heads: 2, Width: 16, Context: 256, Vocabulary: 257, Parameters: first.Parameters}, shape)
	info, err := os.Stat(filepath.Join(out, "model.safetensors"))
	require.NoError(t, err)
	require.Equal(t, first.Bytes, info.Size())
	policytest.Load(t, engine, out, 0)

	require.Len(t, first.Tasks, 9)
	for _, s := range first.Tasks {
		require.Equal(t, 2, s.Items, s.Task)
	}
	require.Empty(t, first.Curve)

	again, _, _ := run(func(*Options) {})
	require.Equal(t, first.SHA256, again.SHA256)
	require.Equal(t, first.Loss, again.Loss)
	require.Equal(t, first.Tasks, again.Tasks)
	other, _, _ := run(func(o *Options) { o.Seed, o.Recipe.Steps = 2, 3 })
	require.NotEqual(t, first.SHA256, other.SHA256)
}

// Evaluations during training are reported after each tenth except the last, and do not change the weights.
func TestRunDrawsItsCurve(t *testing.T) {
	engine := lab.Engines(t, 1)[0]
	run := func(items int) (Result, []int) {
		opts := options(t)
		opts.Recipe.Steps, opts.EvalItems, opts.CurveItems = 10, 0, items
		var told []int
		result, err := Run(t.Context(), engine, opts, func(p Progress) {
			if p.Evaluation != nil {
				require.Len(t, p.Evaluation.Tasks, 9)
				told = append(told, p.Step)
			}
		})
		require.NoError(t, err)
		return result, told
	}
	curved, told := run(9)
	tenths := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	require.Equal(t, tenths, told)
	var drawn []int
	for _, point := range curved.Curve {
		drawn = append(drawn, point.Step)
		require.Len(t, point.Tasks, 9)
		require.Positive(t, point.Loss)
	}
	require.Equal(t, tenths, drawn)
	plain, told := run(0)
	require.Empty(t, told)
	require.Empty(t, plain.Tasks)
	require.Equal(t, plain.SHA256, curved.SHA256)
}

func TestRunEndsWithItsContext(t *testing.T) {
	engine, err := policy.Start(t.Context(), lab.Options(t))
	require.NoError(t, err)
	defer engine.Close()
	ctx, cancel := context.WithCancel(t.Context())
	opts := options(t)
	opts.Recipe.Steps = 1 << 20
	_, err = Run(ctx, engine, opts, func(Progress) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, opts.Out)
}

// Training never sees a held-out question, and every sequence fits.
func TestBatch(t *testing.T) {
	opts := options(t)
	opts.Recipe.Batch = 80
	questions := map[string]int{}
	for step := range 3 {
		params, err := batch(opts, step, 256)
		require.NoError(t, err)
		require.Len(t, params.Sequences, 80)
		for i, s := range params.Sequences {
			require.Equal(t, 1.0, s.Advantage)
			require.LessOrEqual(t, len(params.Prompts[s.Prompt])+len(s.Completion), 256)
			require.Equal(t, len(s.Completion)-1, slices.Index(s.Completion, 256), "the end token ends it")
			questions[opts.Tokens.Decode(params.Prompts[i])]++
		}
		again, err := batch(opts, step, 256)
		require.NoError(t, err)
		require.Equal(t, params, again)
	}
	require.Greater(t, len(questions), 100)
	held, err := heldOut(opts, 100, 256)
	require.NoError(t, err)
	require.Len(t, held, 100)
	for _, item := range held {
		require.True(t, task.HeldOut(item))
		require.NotContains(t, questions, item.Question)
	}
	_, err = batch(opts, 0, 10)
	require.ErrorContains(t, err, "do not fit")
}

// The questions of an evaluation are distinct, fit, and are spread evenly over the tasks, whatever the recipe's
// weights.
func TestHeldOutFits(t *testing.T) {
	opts := options(t)
	mixture, err := configs.TaskSet("nano")
	require.NoError(t, err)
	opts.Tasks, err = task.Open(configs.Tasks{Mixture: configs.Recipe{Weights: map[string]float64{"bf": 50}}.Weigh(mixture)})
	require.NoError(t, err)
	all, err := heldOut(opts, 9*12, 192)
	require.NoError(t, err)
	count, seen := map[string]int{}, map[string]bool{}
	for _, item := range all {
		require.False(t, seen[item.Question], item.Question)
		seen[item.Question] = true
		count[item.Task()]++
	}
	require.Len(t, count, 9)
	for name, n := range count {
		require.Equal(t, 12, n, "%s: the task set's own evaluation takes 12 a task", name)
	}
	opts.Tasks, err = task.Open(configs.Tasks{Mixture: mixture[:2]})
	require.NoError(t, err)
	short, err := heldOut(opts, 5, 60)
	require.NoError(t, err)
	require.Len(t, short, 5)
	for _, item := range short {
		require.Equal(t, "basic_arithmetic", item.Task(), "arc_1d's are longer")
	}
	_, err = heldOut(opts, 5, 3)
	require.ErrorContains(t, err, "no held-out question fits")
}

func TestPhraseShares(t *testing.T) {
	const draws = 20000
	rng := rand.New(rand.NewPCG(1, 2))
	counts := map[string]int{}
	for range draws {
		text := phrase(rng, "42", 0.2)
		require.Equal(t, 1, strings.Count(text, "42"))
		counts[text]++
	}
	require.Len(t, counts, 1+len(phrasings))
	require.InDelta(t, 0.2, float64(counts["<answer>42</answer>"])/draws, 0.02)
	for text, n := range counts {
		if text != "<answer>42</answer>" {
			require.InDelta(t, 0.8/float64(len(phrasings)), float64(n)/draws, 0.02, text)
			require.Nil(t, task.ExtractAnswer(text))
		}
	}
	for range 100 {
		require.Equal(t, "<answer>x</answer>", phrase(rng, "x", 1))
		require.NotContains(t, phrase(rng, "x", 0), "<answer>")
	}
}

// The rate warms up, stays constant and falls. Until the fall it is the same in a longer run.
func TestRate(t *testing.T) {
	short, long := configs.Recipe{Steps: 4000, LearningRate: 0.01}, configs.Recipe{Steps: 8000, LearningRate: 0.01}
	require.InDelta(t, 0.0001, rate(short, 0), 1e-12)
	require.InDelta(t, 0.01, rate(short, 99), 1e-12)
	for step := range 2000 {
		require.Equal(t, rate(short, step), rate(long, step))
	}
	require.InDelta(t, 0.01, rate(short, 1999), 1e-12)
	for step := 1999; step < 3999; step++ {
		require.GreaterOrEqual(t, rate(short, step), rate(short, step+1))
	}
	require.InDelta(t, 0.0005, rate(short, 3999), 1e-4)
	for _, steps := range []int{1, 2, 3, 20} {
		for step := range steps {
			got := rate(configs.Recipe{Steps: steps, LearningRate: 1}, step)
			require.Greater(t, got, 0.0)
			require.LessOrEqual(t, got, 1.0)
		}
	}
}
