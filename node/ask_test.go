package node

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

func TestAsk(t *testing.T) {
	tokens, err := tokenizer.New(tokenizer.NameBytes)
	require.NoError(t, err)
	c := configs.Default()
	c.Tasks.SystemPrompt = "direct"
	prompt := Prompt(c, nil, tokens, task.Item{Question: "2+2?"})
	require.Equal(t, "Write the answer between <answer> and </answer> and nothing else.\n\n2+2?", tokens.Decode(prompt))

	params := policy.GenerateParams{Prompts: [][]int{prompt}, NumGenerations: 2, MaxNewTokens: 8}
	ended := append(tokens.Encode("<answer>4</answer>"), tokens.EOS())
	engine := func(_ context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
		require.Equal(t, params, p)
		return policy.GenerateResult{Completions: [][]int{ended, tokens.Encode("fou")}, Terminated: []bool{true, false}}, nil
	}
	list, err := Ask(t.Context(), params, tokens, engine, func(text string) float64 { return float64(len(text)) })
	require.NoError(t, err)
	four, scores := "4", []float64{18, 3}
	require.Equal(t, []Completion{
		{Text: "<answer>4</answer>", Answer: &four, Score: &scores[0], Tokens: 19, Finished: true}, {Text: "fou", Score: &scores[1], Tokens: 3},
	}, list)
	list, err = Ask(t.Context(), params, tokens, engine, nil)
	require.NoError(t, err)
	require.Nil(t, list[0].Score, "a free question has no score")

	_, err = Ask(t.Context(), params, tokens, func(context.Context, policy.GenerateParams) (policy.GenerateResult, error) {
		return policy.GenerateResult{Completions: [][]int{ended}, Terminated: []bool{true}}, nil
	}, nil)
	require.ErrorContains(t, err, "the engine returned 1 completions instead of 2")
}

// stopping is a tokenizer with a stop token.
type stopping struct{ tokenizer.Tokenizer }

func (stopping) Stops() []int { return []int{7} }

func TestStopTokensEndCompletions(t *testing.T) {
	s := newStage(t, func(c *configs.Config) { c.NumTransplantTrees = 0 })
	s.node.Tokens = stopping{s.node.Tokens}
	_, err := s.round()
	require.NoError(t, err)
	require.Equal(t, []int{7}, s.script.generated[0].StopTokenIDs)
	questions, err := OpenHeldOut(s.config, s.node.Tasks, s.node.Tokens, s.node.Context)
	require.NoError(t, err)
	require.Equal(t, []int{7}, questions.options.StopTokenIDs)
}

// omitting is a chat tokenizer whose template has an unknown default system prompt.
type omitting struct{ tokenizer.Chat }

func (omitting) LosesDefault() bool { return true }

func TestUnknownDefaultSystemIsToldWhereItMatters(t *testing.T) {
	c := configs.Default()
	c.Tasks.SystemPrompt = "none"
	require.Contains(t, loadWarnings(c, "cpu", policy.LoadResult{}, omitting{})[0], "default system prompt")
	require.Empty(t, loadWarnings(c, "cpu", policy.LoadResult{}, bytesTokenizer(t)))
	c.Tasks.SystemPrompt = "default"
	require.Empty(t, loadWarnings(c, "cpu", policy.LoadResult{}, omitting{}))
}
