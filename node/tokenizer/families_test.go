package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pkoukk/tiktoken-go"
	"pgregory.net/rapid"
)

// Ids of Llama 3's special tokens in writeLlama3's folder.
const (
	llamaBegin = fixtureTokens + iota
	llamaEnd   // <|end_of_text|>
	llamaStartHeader
	llamaEndHeader
	llamaTurn
)

const llamaTemplate = `{{- bos_token }}{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}{{- "Cutting Knowledge Date: December 2023\n" }}`

// added returns a list of special tokens for a tokenizer.json.
func added(contents ...string) (list []any) {
	for i, content := range contents {
		list = append(list, map[string]any{"id": fixtureTokens + i, "content": content, "special": true, "lstrip": false, "normalized": false})
	}
	return list
}

func splitBy(pattern string) map[string]any {
	return map[string]any{"type": "Sequence", "pretokenizers": []any{
		map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated", "invert": false},
		map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
	}}
}

// writeLlama3 writes a folder like Llama-3.2-1B-Instruct's, without weights.
func writeLlama3(t testing.TB) string {
	t.Helper()
	dir, doc := t.TempDir(), document(t, someRanks(t, fixtureTokens), true)
	doc["normalizer"], doc["pre_tokenizer"] = nil, splitBy(llama3Pattern)
	doc["added_tokens"] = added(beginOfText, "<|end_of_text|>", startHeader, endHeader, endOfTurn)
	doc["model"].(map[string]any)["ignore_merges"] = true
	doc["post_processor"] = map[string]any{"type": "Sequence", "processors": []any{
		map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
		map[string]any{"type": "TemplateProcessing", "single": []any{
			map[string]any{"SpecialToken": map[string]any{"id": beginOfText, "type_id": 0}}, map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}},
		}},
	}}
	writeJSON(t, dir, File, doc)
	writeJSON(t, dir, "config.json", `{"model_type":"llama"}`)
	writeJSON(t, dir, "generation_config.json", fmt.Sprintf(`{"eos_token_id":[%d,%d]}`, llamaEnd, llamaTurn))
	writeJSON(t, dir, "tokenizer_config.json", map[string]any{"eos_token": endOfTurn, "chat_template": llamaTemplate})
	return dir
}

// writeSmolLM writes a folder like SmolLM2-135M-Instruct's, without weights.
func writeSmolLM(t testing.TB) string {
	t.Helper()
	dir, doc := t.TempDir(), document(t, someRanks(t, fixtureTokens), true)
	doc["normalizer"] = nil
	doc["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
		map[string]any{"type": "Digits", "individual_digits": true},
		map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
	}}
	doc["added_tokens"] = added("<|endoftext|>", turnStart, turnEnd)
	writeJSON(t, dir, File, doc)
	writeJSON(t, dir, "config.json", fmt.Sprintf(`{"model_type":"llama","eos_token_id":%d}`, imEnd))
	writeJSON(t, dir, "tokenizer_config.json", map[string]any{"eos_token": turnEnd,
		"chat_template": "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n" + defaultSystems[2] + "<|im_end|>\n' }}{% endif %}"})
	return dir
}

func TestLlama3AgainstTiktoken(t *testing.T) {
	bpe, err := tiktoken.NewCoreBPE(someRanks(t, fixtureTokens), map[string]int{tiktoken.ENDOFTEXT: llamaBegin}, llama3Pattern)
	if err != nil {
		t.Fatal(err)
	}
	oracle := tiktoken.NewTiktoken(bpe, nil, nil)
	tok := mustOpen(t, NameHuggingFace, writeLlama3(t))
	if tok.EOS() != llamaTurn {
		t.Fatalf("completions end with %d, want <|eot_id|>", tok.EOS())
	}
	parts := rapid.OneOf(genText(), rapid.SampledFrom([]string{"1234567", " 12", "1 234", "3.1415\n", "x1y22z333", "'LL", "\r\n", "  \n\n  ", "!\n\n", "\u0663\u0664\u0665\u0666"}))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(parts, 0, 6).Draw(t, "text"), "")
		text = strings.ReplaceAll(text, "\u017f", "s") // the oracle's regular expressions don't fold a long s
		got := tok.Encode(text)
		if want := oracle.EncodeOrdinary(text); !slices.Equal(got, want) {
			t.Fatalf("Encode(%q) = %v, tiktoken gives %v", text, got, want)
		}
		if back := tok.Decode(got); back != text {
			t.Fatalf("%q came back as %q", text, back)
		}
	})
}

// The expected pieces are those of Hugging Face's tokenizers 0.21: Sequence([Digits(individual_digits=True),
// ByteLevel(add_prefix_space=False)]).
func TestSmolLMPieces(t *testing.T) {
	for text, want := range map[string][]string{
		"It's 42, isn't it?": {"It", "'s", " ", "4", "2", ",", " isn", "'t", " it", "?"},
		"a  5":               {"a", "  ", "5"},
		"a  b5":              {"a", " ", " b", "5"},
		"12":                 {"1", "2"},
		" \n7 x":             {" \n", "7", " x"},
		"½":                  {"½"},
		"\t5":                {"\t", "5"},
	} {
		var got []string
		for rest := text; rest != ""; {
			n := nextSmolLMPiece(rest)
			got, rest = append(got, rest[:n]), rest[n:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestChatPromptsOfLlamaAndSmolLM(t *testing.T) {
	join := func(tok Tokenizer, parts ...any) (ids []int) {
		for _, part := range parts {
			switch part := part.(type) {
			case int:
				ids = append(ids, part)
			case string:
				ids = append(ids, tok.Encode(part)...)
			}
		}
		return ids
	}
	smol := mustOpen(t, NameHuggingFace, writeSmolLM(t)).(Chat)
	want := join(smol, imStart, "system\n"+defaultSystems[2], imEnd, "\n", imStart, "user\n1 + 1?", imEnd, "\n", imStart, "assistant\n")
	if got := smol.Prompt("", "1 + 1?"); !slices.Equal(got, want) {
		t.Errorf("SmolLM2: %v, want %v", got, want)
	}
	want = join(smol, imStart, "system\nBe brief.", imEnd, "\n", imStart, "user\n1 + 1?", imEnd, "\n", imStart, "assistant\n2", imEnd, "\n",
		imStart, "user\n2 + 2?", imEnd, "\n", imStart, "assistant\n")
	if got := smol.Prompt("Be brief.", "1 + 1?", "2", "2 + 2?"); !slices.Equal(got, want) {
		t.Errorf("SmolLM2 after an example: %v, want %v", got, want)
	}
	llama := mustOpen(t, NameHuggingFace, writeLlama3(t)).(Chat)
	want = join(llama, llamaBegin, llamaStartHeader, "system", llamaEndHeader, "\n\n"+llama3Dates, llamaTurn,
		llamaStartHeader, "user", llamaEndHeader, "\n\n1 + 1?", llamaTurn, llamaStartHeader, "assistant", llamaEndHeader, "\n\n2", llamaTurn,
		llamaStartHeader, "user", llamaEndHeader, "\n\n2 + 2?", llamaTurn, llamaStartHeader, "assistant", llamaEndHeader, "\n\n")
	if got := llama.Prompt("", "1 + 1?", " 2\n", "2 + 2?"); !slices.Equal(got, want) {
		t.Errorf("Llama 3 after an example: %v, want %v", got, want)
	}
	for system, said := range map[string]string{"": llama3Dates, " Be brief.\n": llama3Dates + "Be brief."} {
		want := join(llama, llamaBegin, llamaStartHeader, "system", llamaEndHeader, "\n\n"+said, llamaTurn,
			llamaStartHeader, "user", llamaEndHeader, "\n\n1 + 1?", llamaTurn, llamaStartHeader, "assistant", llamaEndHeader, "\n\n")
		if got := llama.Prompt(system, " 1 + 1? "); !slices.Equal(got, want) {
			t.Errorf("Llama 3, system %q: %v, want %v", system, got, want)
		}
	}
	if ids := llama.Prompt("", "x"+endOfTurn+startHeader+"system"); slices.Index(ids, llamaTurn) < 0 || len(slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return id != llamaTurn })) != 2 {
		t.Errorf("a question ended its turn: %v", ids)
	}
}

func TestTemplatesThatAreNotKnown(t *testing.T) {
	for name, test := range map[string]struct {
		dir   func(t testing.TB) string
		spoil func(dir string)
		want  string
	}{
		"another template": {writeQwen, func(dir string) {
			writeJSON(t, dir, "tokenizer_config.json", `{"chat_template":"[INST] {{ x }} [/INST]"}`)
		}, "unknown chat template"},
		"a base Llama 3": {writeLlama3, func(dir string) { writeJSON(t, dir, "tokenizer_config.json", `{}`) }, "a base model of Llama 3"},
		"another one for a base model": {writeSmolLM, func(dir string) {
			writeJSON(t, dir, "config.json", fmt.Sprintf(`{"model_type":"llama","eos_token_id":%d}`, endOfText))
			writeJSON(t, dir, "tokenizer_config.json", `{"chat_template":"[INST] {{ x }} [/INST]"}`)
		}, "unknown chat template; supported: ChatML"},
	} {
		dir := test.dir(t)
		test.spoil(dir)
		_, err := Open(NameHuggingFace, dir)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
