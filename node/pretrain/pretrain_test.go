package pretrain

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

var lab policytest.Lab

func TestMain(m *testing.M) {
	code := m.Run()
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
		Tokens: tokens, Tasks: tasks(t), Steps: 30, Batch: 8, LearningRate: 1e-2, TagShare: 0.3, Seed: 1, Threads: 1,
		EvalItems: 6, MaxNewTokens: 8, Out: filepath.Join(t.TempDir(), "model"),
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
	require.Equal(t, last.Loss, first.Loss)

	shape, err := model.Inspect(out)
	require.NoError(t, err)
	require.Equal(t, configs.Shape{Layers: 2, Heads: 2, Width: 16, Context: 256, Vocabulary: 257, Parameters: first.Parameters}, shape)
	info, err := os.Stat(filepath.Join(out, "model.safetensors"))
	require.NoError(t, err)
	require.Equal(t, first.Bytes, info.Size())
	policytest.Load(t, engine, out, 0)

	var items int
	for _, s := range first.Tasks {
		items += s.Items
	}
	require.Equal(t, 6, items)

	again, _, _ := run(func(*Options) {})
	require.Equal(t, first.SHA256, again.SHA256)
	require.Equal(t, first.Loss, again.Loss)
	require.Equal(t, first.Tasks, again.Tasks)
	other, _, _ := run(func(o *Options) { o.Seed, o.Steps = 2, 3 })
	require.NotEqual(t, first.SHA256, other.SHA256)
}

func TestRunRefusesAFolderWithAModel(t *testing.T) {
	opts := options(t)
	require.NoError(t, os.MkdirAll(opts.Out, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(opts.Out, "model.safetensors"), nil, 0o644))
	_, err := Run(context.Background(), nil, opts, nil)
	require.ErrorContains(t, err, "holds a model already")
}

func TestRunEndsWithItsContext(t *testing.T) {
	engine, err := policy.Start(t.Context(), lab.Options(t))
	require.NoError(t, err)
	defer engine.Close()
	ctx, cancel := context.WithCancel(t.Context())
	opts := options(t)
	opts.Steps = 1 << 20
	_, err = Run(ctx, engine, opts, func(Progress) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, opts.Out)
}

// Training never sees a held-out question, and every sequence fits.
func TestBatch(t *testing.T) {
	opts := options(t)
	opts.Batch = 80
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
	for i := range 100 {
		item, _, err := heldOut(opts, i, 256)
		require.NoError(t, err)
		require.True(t, task.HeldOut(item))
		require.NotContains(t, questions, item.Question)
	}
	_, err := batch(opts, 0, 10)
	require.ErrorContains(t, err, "do not fit")
}

func TestHeldOutFits(t *testing.T) {
	opts := options(t)
	short := 0
	for i := range 50 {
		item, err := opts.Tasks.DrawHeldOut(sapo.Seed(opts.Seed, "", 0, sapo.PurposeHeldOut, i))
		require.NoError(t, err)
		got, prompt, err := heldOut(opts, i, 60)
		require.NoError(t, err)
		require.LessOrEqual(t, len(prompt), 60)
		if len(item.Question) <= 60 {
			require.Equal(t, item, got, "what fits is not drawn again")
			short++
		}
	}
	require.Positive(t, short)
	require.Less(t, short, 50)
	_, _, err := heldOut(opts, 0, 3)
	require.ErrorContains(t, err, "no held-out question of 100 fits")
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

func TestKey(t *testing.T) {
	text := func(s string) *string { return &s }
	cases := []struct {
		item task.Item
		want string
		ok   bool
	}{
		{task.Item{Answer: text("7")}, "7", true},
		{task.Item{Answer: text("")}, "", false},
		{task.Item{Metadata: []byte(`{"example_answer":"p"}`)}, "p", true},
		{task.Item{Metadata: []byte(`{}`)}, "", false},
		{task.Item{Metadata: []byte(`[`)}, "", false},
	}
	for _, c := range cases {
		got, ok := key(c.item)
		require.Equal(t, c.ok, ok)
		if ok {
			require.Equal(t, c.want, got)
		}
	}
}

func TestRate(t *testing.T) {
	opts := Options{Steps: 100, LearningRate: 0.01}
	require.InDelta(t, 0.002, rate(opts, 0), 1e-12)
	require.InDelta(t, 0.01, rate(opts, 4), 1e-12)
	for step := 5; step < 99; step++ {
		require.GreaterOrEqual(t, rate(opts, step), rate(opts, step+1))
	}
	require.InDelta(t, 0.001, rate(opts, 99), 1e-5)
	require.False(t, math.IsNaN(rate(Options{Steps: 1, LearningRate: 1}, 0)))
}
