package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	loader "github.com/pkoukk/tiktoken-go-loader"
)

// The repository contains no Qwen vocabulary. The tests use the structure of Qwen2.5's tokenizer.json with the first
// tokens of GPT-2's vocabulary.

const fixtureTokens = 6000

// ranks returns GPT-2's tokens by rank, from tiktoken's loader.
var ranks = sync.OnceValues(func() (map[string]int, error) {
	return loader.NewOfflineLoader().LoadTiktokenBpe("r50k_base.tiktoken")
})

// someRanks returns the size tokens with the lowest ranks.
func someRanks(t testing.TB, size int) map[string]int {
	t.Helper()
	all, err := ranks()
	if err != nil {
		t.Fatal(err)
	}
	some := make(map[string]int, size)
	for token, rank := range all {
		if rank < size {
			some[token] = rank
		}
	}
	return some
}

// mergesOf finds the merge that produces each token, like converters from tiktoken's files: its two parts under the
// merges of lower rank.
func mergesOf(t testing.TB, ranks map[string]int) [][2]string {
	t.Helper()
	byRank := make([]string, len(ranks))
	for token, rank := range ranks {
		byRank[rank] = token
	}
	var merges [][2]string
	for rank, token := range byRank {
		if len(token) == 1 {
			continue
		}
		parts := make([]string, len(token))
		for i := range len(token) {
			parts[i] = token[i : i+1]
		}
		for len(parts) > 2 {
			best, at := rank, -1
			for i := range len(parts) - 1 {
				if r, ok := ranks[parts[i]+parts[i+1]]; ok && r < best {
					best, at = r, i
				}
			}
			if at < 0 {
				t.Fatalf("token %d, %q, has no merge", rank, token)
			}
			parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
		}
		merges = append(merges, [2]string{parts[0], parts[1]})
	}
	return merges
}

// written returns a token in the notation of a tokenizer.json.
func written(token string) string {
	var runes []rune
	for i := range len(token) {
		runes = append(runes, byteRunes[token[i]])
	}
	return string(runes)
}

// document returns a tokenizer.json for the ranks, in Qwen's structure if qwen is true.
func document(t testing.TB, ranks map[string]int, qwen bool) map[string]any {
	t.Helper()
	vocab, merges := map[string]int{}, []any{}
	for token, rank := range ranks {
		vocab[written(token)] = rank
	}
	for _, m := range mergesOf(t, ranks) {
		if qwen {
			merges = append(merges, written(m[0])+" "+written(m[1]))
		} else { // as newer files have them
			merges = append(merges, []string{written(m[0]), written(m[1])})
		}
	}
	byteLevel := func(regex bool) map[string]any {
		return map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex}
	}
	model := map[string]any{
		"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": "", "end_of_word_suffix": "",
		"fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": merges,
	}
	doc := map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "pre_tokenizer": byteLevel(true),
		"post_processor": byteLevel(true), "decoder": byteLevel(true), "model": model,
	}
	added := func(contents ...string) {
		var list []any
		for i, content := range contents {
			special := content[1] == '|' // <|…|>; Qwen's <tool_call> is not special
			list = append(list, map[string]any{"id": len(ranks) + i, "content": content, "special": special, "lstrip": false, "normalized": false})
		}
		doc["added_tokens"] = list
	}
	added("<|endoftext|>")
	if !qwen {
		vocab["<|endoftext|>"] = len(ranks) // GPT-2's file lists it in both places and predates the type
		delete(model, "type")
		return doc
	}
	added("<|endoftext|>", turnStart, turnEnd, "<tool_call>")
	doc["normalizer"] = map[string]any{"type": "NFC"}
	doc["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
		map[string]any{"type": "Split", "pattern": map[string]any{"Regex": qwen2Pattern}, "behavior": "Isolated", "invert": false},
		byteLevel(false),
	}}
	return doc
}

// writeJSON writes dir/name. It writes a string verbatim.
func writeJSON(t testing.TB, dir, name string, value any) {
	t.Helper()
	data, err := json.Marshal(value)
	if text, ok := value.(string); ok {
		data, err = []byte(text), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

const (
	qwenTemplate = `{%- if messages[0]['role'] != 'system' %}{{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}{%- endif %}`
	endOfText    = fixtureTokens
	imStart      = fixtureTokens + 1
	imEnd        = fixtureTokens + 2
	toolCall     = fixtureTokens + 3
)

// writeQwen writes a folder like Qwen2.5-Instruct's, without weights.
func writeQwen(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	writeJSON(t, dir, File, document(t, someRanks(t, fixtureTokens), true))
	writeJSON(t, dir, "config.json", fmt.Sprintf(`{"model_type":"qwen2","eos_token_id":%d}`, imEnd))
	writeJSON(t, dir, "generation_config.json", fmt.Sprintf(`{"eos_token_id":[%d,%d]}`, imEnd, endOfText))
	writeJSON(t, dir, "tokenizer_config.json", map[string]any{"eos_token": turnEnd, "chat_template": qwenTemplate})
	return dir
}

func mustOpen(t testing.TB, name, dir string) Tokenizer {
	t.Helper()
	tok, err := Open(name, dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
