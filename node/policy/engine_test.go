package policy_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
)

var lab policytest.Lab

func TestMain(m *testing.M) {
	code := hermetic.Main(m)
	lab.Close()
	os.Exit(code)
}

func sample(seed int64) policy.GenerateParams {
	return policy.GenerateParams{
		Prompts: [][]int{{104, 105}, {1, 2, 3, 4, 5}}, NumGenerations: 3, MaxNewTokens: 12, Temperature: 1, TopP: 1,
		EOSTokenID: policytest.EOS, Seed: seed,
	}
}

// learn makes an update from generated completions, with advantages that do not cancel.
func learn(g policy.GenerateResult) policy.UpdateParams {
	params := policy.UpdateParams{
		Prompts: sample(0).Prompts, LearningRate: 0.01, Temperature: 1, Epsilon: 0.2, EpsilonHigh: 0.28, NumIterations: 1,
		LossType: "bnpo", MaxGradNorm: 1, MicroBatch: 4,
	}
	for i, completion := range g.Completions {
		params.Sequences = append(params.Sequences, policy.Sequence{Prompt: i / 3, Completion: completion, Advantage: float64(i%3) - 1})
	}
	return params
}

// TestEngineLife makes every call that a node makes to its engine.
func TestEngineLife(t *testing.T) {
	ctx := t.Context()
	engine := lab.Engines(t, 1)[0]
	require.Equal(t, policy.ProtocolVersion, engine.Hello.Protocol)
	require.Equal(t, engine.PID(), engine.Hello.PID)
	require.NotEmpty(t, engine.Hello.Torch)

	loaded := policytest.Load(t, engine, policytest.Config(t), 7)
	require.Equal(t, "gpt2", loaded.Architecture)
	require.Equal(t, policytest.Vocabulary, loaded.VocabSize)
	require.Equal(t, policytest.Context, loaded.ContextLength)
	require.Equal(t, policytest.EOS, loaded.EOSTokenID)
	require.Less(t, loaded.SelfTestMaxAbsDiff, 1e-4)

	first, err := engine.Generate(ctx, sample(1))
	require.NoError(t, err)
	again, err := engine.Generate(ctx, sample(1))
	require.NoError(t, err)
	other, err := engine.Generate(ctx, sample(2))
	require.NoError(t, err)
	require.Len(t, first.Completions, 6)
	require.Equal(t, first.Completions, again.Completions, "the same seed")
	require.NotEqual(t, first.Completions, other.Completions, "another seed")

	update := learn(first)
	scored, err := engine.Logprobs(ctx, policy.LogprobsParams{Prompts: update.Prompts, Sequences: update.Sequences, Temperature: 1})
	require.NoError(t, err)
	for i := range scored.Logprobs {
		require.InDeltaSlice(t, first.Logprobs[i], scored.Logprobs[i], 1e-4)
	}

	path := filepath.Join(t.TempDir(), "state")
	saved, err := engine.Save(ctx, policy.SaveParams{Path: path, Format: "checkpoint", Metadata: map[string]string{"round": "3"}})
	require.NoError(t, err)
	result, err := engine.Update(ctx, update)
	require.NoError(t, err)
	require.Equal(t, 1, result.Steps)
	require.Positive(t, result.GradNorm)
	changed := policytest.Hash(t, engine)
	require.NotEqual(t, saved.WeightHash, changed)

	restored, err := engine.Restore(ctx, policy.RestoreParams{Path: path, SHA256: saved.SHA256})
	require.NoError(t, err)
	require.Equal(t, policy.RestoreResult{Metadata: map[string]string{"round": "3"}, WeightHash: saved.WeightHash}, restored)
	_, err = engine.Update(ctx, update)
	require.NoError(t, err)
	require.Equal(t, changed, policytest.Hash(t, engine), "the same update of the same state")

	memory, err := engine.Memory(ctx)
	require.NoError(t, err)
	require.Positive(t, memory.RSSBytes)
	_, err = engine.Trim(ctx)
	require.NoError(t, err)
}

// A refusal has a kind, and the engine answers the next call.
func TestEngineRefuses(t *testing.T) {
	ctx := t.Context()
	engine := lab.Engines(t, 1)[0]
	policytest.Load(t, engine, policytest.Config(t), 1)
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("no checkpoint"), 0o644))
	cases := []struct {
		name, kind string
		call       func() error
	}{
		{"a prompt without tokens", policy.KindBadRequest, func() error {
			_, err := engine.Generate(ctx, policy.GenerateParams{Prompts: [][]int{{}}, NumGenerations: 1, MaxNewTokens: 1, TopP: 1})
			return err
		}},
		{"a broken checkpoint", policy.KindCheckpoint, func() error {
			_, err := engine.Restore(ctx, policy.RestoreParams{Path: broken})
			return err
		}},
		{"no such call", policy.KindBadRequest, func() error { return engine.Call(ctx, "dance", nil, nil) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var refused *policy.Error
			require.ErrorAs(t, c.call(), &refused)
			require.Equal(t, c.kind, refused.Kind)
			_, err := engine.Memory(ctx)
			require.NoError(t, err)
		})
	}
	t.Run("not JSON", func(t *testing.T) {
		_, err := engine.Update(ctx, policy.UpdateParams{LearningRate: math.NaN()})
		require.ErrorContains(t, err, "encode update")
		_, err = engine.Memory(ctx)
		require.NoError(t, err)
	})
	t.Run("too late to begin", func(t *testing.T) {
		late, cancel := context.WithCancelCause(ctx)
		why := errors.New("too late")
		cancel(why)
		_, err := engine.Memory(late)
		require.ErrorIs(t, err, why)
		_, err = engine.Memory(ctx)
		require.NoError(t, err, "a call that was never sent leaves the engine alone")
	})
}

// Concurrent callers get their own answers.
func TestEngineTakesTurns(t *testing.T) {
	engine := lab.Engines(t, 1)[0]
	policytest.Load(t, engine, policytest.Config(t), 1)
	alone := make([]policy.GenerateResult, 4)
	for i := range alone {
		var err error
		alone[i], err = engine.Generate(t.Context(), sample(int64(i)))
		require.NoError(t, err)
	}
	type answer struct {
		seed int
		got  policy.GenerateResult
		err  error
	}
	answers := make(chan answer)
	for i := range alone {
		go func() {
			got, err := engine.Generate(t.Context(), sample(int64(i)))
			answers <- answer{i, got, err}
		}()
	}
	for range alone {
		a := <-answers
		require.NoError(t, a.err)
		require.True(t, slices.EqualFunc(alone[a.seed].Completions, a.got.Completions, slices.Equal), "seed %d", a.seed)
	}
}
