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

// Sampled ids arrive unchanged, whatever text they decode to.
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
				var logprobs []float64
				if rapid.Bool().Draw(t, "tells") {
					logprobs = rapid.SliceOfN(rapid.Float64Range(-1e3, 1e-7), len(ids), len(ids)).Draw(t, "logprobs")
				}
				sent := exchange.Batch{Node: "a", Rollouts: []exchange.Rollout{{
					Metadata: []byte(`{}`), Completions: []exchange.Completion{exchange.Sampled(tokens, ids, terminated, logprobs)},
				}}}
				data, err := exchange.Encode(sent)
				require.NoError(t, err)
				arrived, err := exchange.Decode(data, "a", 0)
				require.NoError(t, err)
				decoded := arrived.Rollouts[0].Completions[0].Decode(tokens, len(ids))
				require.Equal(t, ids, decoded.IDs)
				require.False(t, decoded.Unsaid)
				require.Equal(t, tokens.Decode(ids), decoded.Text)
				require.Equal(t, terminated, decoded.Terminated)
				require.Len(t, decoded.Logprobs, len(logprobs))
				require.InDeltaSlice(t, logprobs, decoded.Logprobs, 1e-4)
				cut := arrived.Rollouts[0].Completions[0].Decode(tokens, len(ids)-1)
				require.Equal(t, ids[:len(ids)-1], cut.IDs)
				require.False(t, cut.Terminated)
				require.Len(t, cut.Logprobs, max(0, len(logprobs)-1))
			})
		})
	}
}

// A completion includes ids only if encoding its text gives other ids.
func TestTextAloneWhereItSaysTheIDs(t *testing.T) {
	tokens := open(t, tokenizer.NameBytes)
	require.Equal(t, exchange.Completion{Text: "¬R", Terminated: true}, exchange.Sampled(tokens, append(tokens.Encode("¬R"), tokens.EOS()), true, nil))
	half := []int{'R', 0xe2, 'E'}
	require.Equal(t, exchange.Completion{Text: "R\uFFFDE", Tokens: half}, exchange.Sampled(tokens, half, false, nil))
	real := tokens.Encode("\uFFFD")
	require.Equal(t, real, exchange.Sampled(tokens, real, false, nil).Tokens, "one that was said is told from one that stands for something else")

	gpt2 := open(t, tokenizer.NameGPT2)
	pieces := append(gpt2.Encode("hel"), gpt2.Encode("lo")...)
	require.NotEqual(t, gpt2.Encode("hello"), pieces)
	require.Equal(t, exchange.Completion{Text: "hello", Tokens: pieces}, exchange.Sampled(gpt2, pieces, false, nil))
}

// Ids that don't decode to the text come from another tokenizer or a dishonest sender. The receiver uses the text.
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
		c.Logprobs = make([]float32, len(c.Tokens))
		require.Equal(t, exchange.Decoded{IDs: text, Text: "ab"}, c.Decode(tokens, 48), "%s: log-probabilities are of the ids that they came with", name)
	}
	require.True(t, exchange.Completion{Text: "a\uFFFD", Tokens: []int{50000, 17}}.Decode(tokens, 48).Unsaid, "nobody knows what was there")
	require.True(t, exchange.Completion{Text: "a\uFFFD"}.Decode(tokens, 48).Unsaid)
	short := exchange.Completion{Text: "ab", Tokens: text, Logprobs: []float32{-1}}
	require.Equal(t, exchange.Decoded{IDs: text, Text: "ab"}, short.Decode(tokens, 48))

	c := exchange.Completion{Text: "a\uFFFDb", Tokens: []int{'a', 0xe2, 'b'}, Terminated: true}
	require.Equal(t, exchange.Decoded{IDs: []int{'a', 0xe2}, Text: "a\uFFFD"}, c.Decode(tokens, 2))
	require.Equal(t, []int{'a', 0xe2, 'b'}, c.Tokens, "what arrived is as it was")
}

// stopping is a tokenizer with the stop token '.'. It drops it from texts.
type stopping struct{ tokenizer.Tokenizer }

func (stopping) Stops() []int { return []int{'.'} }

func (s stopping) Decode(ids []int) string {
	return strings.ReplaceAll(s.Tokenizer.Decode(ids), ".", "")
}

// A completion that a stop token ended arrives unchanged, with its log-probabilities. Another tokenizer ends it with
// its own EOS.
func TestStopTokenArrives(t *testing.T) {
	tokens := stopping{open(t, tokenizer.NameBytes)}
	ids, logprobs := []int{'a', 'b', '.'}, []float64{-1, -2, -0.5}
	for _, shared := range [][]float64{nil, logprobs} {
		c := exchange.Sampled(tokens, ids, true, shared)
		require.Equal(t, exchange.Decoded{IDs: ids, Logprobs: shared, Text: "ab", Terminated: true}, c.Decode(tokens, 48))
		other := open(t, tokenizer.NameBytes)
		require.Equal(t, exchange.Decoded{IDs: []int{'a', 'b', other.EOS()}, Text: "ab", Terminated: true}, c.Decode(other, 48))
		require.Equal(t, []int{'a', 'b'}, c.Decode(tokens, 2).IDs)
		require.False(t, c.Decode(tokens, 2).Terminated)
	}
	// Older versions sampled on after a stop token.
	for _, ended := range []bool{false, true} {
		old := []int{'a', '.', 'b', '.'}
		want := exchange.Completion{Text: "ab", Tokens: old, Terminated: ended}
		if ended {
			old = append(slices.Clone(old), tokens.EOS())
		}
		got := exchange.Sampled(tokens, old, ended, nil)
		require.Equal(t, want, got)
		require.Equal(t, old, got.Decode(tokens, 48).IDs)
	}
	for name, forged := range map[string]exchange.Completion{
		"not ended":            {Text: "ab", Tokens: ids, Stopped: true},
		"another token":        {Text: "ab", Tokens: ids[:2], Stopped: true, Terminated: true},
		"without tokens":       {Text: "ab", Stopped: true, Terminated: true},
		"without tokens, told": {Text: "", Stopped: true, Terminated: true, Logprobs: []float32{-1}},
	} {
		want := tokens.Encode(forged.Text)
		if forged.Terminated {
			want = append(want, tokens.EOS())
		}
		got := forged.Decode(tokens, 48)
		require.Equal(t, want, got.IDs, name)
		require.Nil(t, got.Logprobs, name)
	}
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
	require.ErrorContains(t, err, "more than 1048576")
	batch.Rollouts[0].Completions[0].Tokens = append(batch.Rollouts[0].Completions[0].Tokens, 1)
	_, err = exchange.Encode(batch)
	require.ErrorContains(t, err, "1048577 tokens")
	for _, fields := range []string{
		`"tokens":[1e99]`, `"tokens":["x"]`, `"tokens":7`, `"tokens":[1.5]`,
		`"logprobs":[0.5]`, `"logprobs":[-1e30]`, `"logprobs":[-1e99]`, `"logprobs":["NaN"]`, `"logprobs":[null, 1]`,
	} {
		_, err = exchange.Decode([]byte(`{"version":1,"node":"a","round":0,"rollouts":[{"metadata":{},"completions":[{"text":"a",`+fields+`}]}]}`), "a", 0)
		require.ErrorIs(t, err, exchange.ErrInvalid, fields)
	}
}
