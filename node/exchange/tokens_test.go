package exchange_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

func open(t require.TestingT, name string) tokenizer.Tokenizer {
	tokens, err := tokenizer.New(name)
	require.NoError(t, err)
	return tokens
}

// What was sampled arrives as it was sampled, whatever it decodes to.
func TestSampledIDsArrive(t *testing.T) {
	for _, name := range []string{tokenizer.NameBytes, tokenizer.NameGPT2} {
		t.Run(name, func(t *testing.T) {
			tokens := open(t, name)
			rapid.Check(t, func(t *rapid.T) {
				ids := rapid.SliceOfN(rapid.IntRange(0, tokens.VocabSize()-1).Filter(func(id int) bool { return id != tokens.EOS() }), 1, 40).Draw(t, "ids")
				terminated := rapid.Bool().Draw(t, "terminated")
				if terminated {
					ids = append(ids, tokens.EOS())
				}
				sent := exchange.Batch{Node: "a", Rollouts: []exchange.Rollout{{
					Metadata: []byte(`{}`), Completions: []exchange.Completion{exchange.Sampled(tokens, ids, terminated)},
				}}}
				data, err := exchange.Encode(sent)
				require.NoError(t, err)
				arrived, err := exchange.Decode(data, "a", 0)
				require.NoError(t, err)
				got, kept, said := arrived.Rollouts[0].Completions[0].IDs(tokens, len(ids))
				require.Equal(t, ids, got)
				require.True(t, said)
				require.Equal(t, tokens.Decode(ids), kept.Text)
				require.Equal(t, terminated, kept.Terminated)
			})
		})
	}
}

// Ids go over the wire only where the text doesn't say them.
func TestTextAloneWhereItSaysTheIDs(t *testing.T) {
	tokens := open(t, tokenizer.NameBytes)
	require.Equal(t, exchange.Completion{Text: "¬R", Terminated: true}, exchange.Sampled(tokens, append(tokens.Encode("¬R"), tokens.EOS()), true))
	half := []int{'R', 0xe2, 'E'}
	require.Equal(t, exchange.Completion{Text: "R\uFFFDE", Tokens: half}, exchange.Sampled(tokens, half, false))
	real := tokens.Encode("\uFFFD")
	require.Equal(t, real, exchange.Sampled(tokens, real, false).Tokens, "one that was said is told from one that stands for something else")

	gpt2 := open(t, tokenizer.NameGPT2)
	pieces := append(gpt2.Encode("hel"), gpt2.Encode("lo")...)
	require.NotEqual(t, gpt2.Encode("hello"), pieces)
	require.Equal(t, exchange.Completion{Text: "hello", Tokens: pieces}, exchange.Sampled(gpt2, pieces, false))
}

// Ids that don't spell the text are another tokenizer's, or a lie: the text counts.
func TestIDsOfAnotherTokenizer(t *testing.T) {
	tokens := open(t, tokenizer.NameBytes)
	text := tokens.Encode("ab")
	for name, c := range map[string]exchange.Completion{
		"none":              {Text: "ab"},
		"another text":      {Text: "ab", Tokens: []int{'a', 'c'}},
		"a piece too many":  {Text: "ab", Tokens: []int{'a', 'b', 'b'}},
		"beyond":            {Text: "ab", Tokens: []int{'a', 'b', tokens.VocabSize()}},
		"negative":          {Text: "ab", Tokens: []int{'a', 'b', -1}},
		"an end in between": {Text: "ab", Tokens: []int{'a', tokens.EOS(), 'b'}},
	} {
		ids, _, said := c.IDs(tokens, 48)
		require.Equal(t, text, ids, name)
		require.True(t, said, name)
	}
	_, _, said := exchange.Completion{Text: "a\uFFFD", Tokens: []int{50000, 17}}.IDs(tokens, 48)
	require.False(t, said, "nobody knows what was there")
	_, _, said = exchange.Completion{Text: "a\uFFFD"}.IDs(tokens, 48)
	require.False(t, said)

	c := exchange.Completion{Text: "a\uFFFDb", Tokens: []int{'a', 0xe2, 'b'}, Terminated: true}
	ids, kept, said := c.IDs(tokens, 2)
	require.Equal(t, []int{'a', 0xe2}, ids)
	require.Equal(t, exchange.Completion{Text: "a\uFFFD"}, kept)
	require.True(t, said)
	require.Equal(t, []int{'a', 0xe2, 'b'}, c.Tokens, "what arrived is as it was")
}

func TestTokensAreBounded(t *testing.T) {
	batch := exchange.Batch{Node: "a", Rollouts: []exchange.Rollout{{
		Metadata: []byte(`{}`), Completions: []exchange.Completion{{Text: "a", Tokens: slices.Repeat([]int{1}, exchange.MaxTokens)}},
	}}}
	data, err := exchange.Encode(batch)
	require.NoError(t, err)
	_, err = exchange.Decode(data, "a", 0)
	require.NoError(t, err)
	_, err = exchange.Decode([]byte(strings.Replace(string(data), "[1,", "[1,1,", 1)), "a", 0)
	require.ErrorContains(t, err, "more than 65536 tokens of a completion")
	batch.Rollouts[0].Completions[0].Tokens = append(batch.Rollouts[0].Completions[0].Tokens, 1)
	_, err = exchange.Encode(batch)
	require.ErrorContains(t, err, "65537 tokens")
	for _, tokens := range []string{`[1e99]`, `["x"]`, `7`, `[1.5]`} {
		_, err = exchange.Decode([]byte(`{"version":1,"node":"a","round":0,"rollouts":[{"metadata":{},"completions":[{"text":"a","tokens":`+tokens+`}]}]}`), "a", 0)
		require.ErrorIs(t, err, exchange.ErrInvalid, tokens)
	}
}
