package tokenizer

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// The tests in this file need SWARM_TEST_TRANSFORMERS, a Python with transformers. test_transformers.py sets it.

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// asked is what testdata/transformers_ids.py does with one folder.
type asked struct {
	Folder  string         `json:"folder"`
	Texts   []string       `json:"texts"`
	Rows    [][]int        `json:"rows"`
	Chats   [][]message    `json:"chats"`
	Options map[string]any `json:"options"`
	Saved   bool           `json:"saved"` // the folder has the settings of TransformersFiles
}

// answered is its result.
type answered struct {
	Version, Class       string
	Size, EOS, Pad       int
	Inputs               []string
	IDs, Plain, Prompts  [][]int
	Decoded, Ended, Rows []string
}

// transformersPython skips the test where there is no such Python.
func transformersPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("SWARM_TEST_TRANSFORMERS")
	if python == "" {
		t.Skip("SWARM_TEST_TRANSFORMERS names no Python with transformers")
	}
	return python
}

func askTransformers(t *testing.T, questions []asked) (got []answered) {
	t.Helper()
	input, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(transformersPython(t), "testdata/transformers_ids.py")
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	out, err := command.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil || len(got) != len(questions) {
		t.Fatalf("transformers did not answer: %d of %d answers, %v", len(got), len(questions), err)
	}
	return got
}

// difficult returns texts that pre-tokenizers, normalizers and vocabularies treat specially.
func difficult() []string {
	return []string{
		"", " ", "  ", "\n\n\t ", "Hello world", "I'll say they've 42 don'ts", "a\x00b\x7f", "\u00ad\u200b\u202e\ufeff", "e\u0301 é ﬁ Å",
		"<|endoftext|>", "before<|endoftext|>after <|im_start|>user\n<|im_end|>", "<answer>12</answer>", "</s><pad>[MASK]<unk>",
		"\U0010FFFF\uFFFD\uE000", "\U00040000a\U00080000\U000c0000b \U00040000", "++++[>++<-]>.", "a  b   c    d ", strings.Repeat("ab ", 300),
		// Emoji: joined by ZWJ, with skin tones, flags of two letters and of tags, keycaps, variation selectors
		"🙂👩‍👩‍👧‍👦🇩🇪👍🏽", "🏳️‍🌈 🏴‍☠️ ❤️‍🔥 👩🏽‍🚀 🧑🏿‍🤝‍🧑🏻", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f!", "1️⃣2️⃣#️⃣*️⃣ ©️®️™️", "☺︎☺️a🙂b 🙂 c",
		// Combining marks: composed, decomposed, in another order than the canonical one, excluded from composition,
		// stacked
		"\u00e9 e\u0301 E\u0301\u0300", "q\u0307\u0323 q\u0323\u0307", "\u1e69 s\u0323\u0307 \u1e63\u0307", "\u212b \u00c5 A\u030a", "\u2126\u212a\ufb1d\u0958",
		"\u1112\u1161\u11ab\u1100\u1173\u11af 한글", "a" + strings.Repeat("\u0301", 40) + "b", "\u0301alone", " \u0301x\n\u0308", "\u0928\u093f\u0915\u094d\u0937 க்ஷ",
		// White space: mixed, of Unicode, at both ends, before digits and newlines
		"a\r\nb\r\n\r\nc", "\r", "\r\r\n\n", "x \r\n y\t\r\n\tz", " \t a \u00a0b\u2003c\u3000d\u2028e\u2029f\u0085g", "\v\f\x1c\x1d\x1e\x1f!", "   1", "\t5", "  \n 7",
		"tail   ", "tail\n", " \n ", "\u3000\u3000x", "\u200ax \u200b y", "\u180ex\u2060y\ufeffz",
		// Digits: long numbers, other scripts', fractions and numerals
		"1234567890", "3.1415, 1,000,000 and -7e-12", "0x1F 12ab34", "٠١٢٣٤٥ ०१२३ 〇一二三 ⅣⅧ½¾²³ ①⑳ 𝟘𝟙𝟚𝟛", "a1b22c333d4444",
		// Contractions: in every case, after spaces and digits, with other quotes, with a long s
		"it's IT'S It'S we'Ve a'lL y'all'd've", "'s 's'S ''s '\u017f '\u017fx x'\u017f", "he’s can’t ‘tis", "5's 'RE '9 ' d", "I'm\nI'M I'\u217f",
		// Punctuation and code
		"!!!\n\n???\r\n...\n", " -word _word (word) [w]{w}", "for (i = 0; i < n; i++) {\n\treturn a[i] != 'x';\n}\n", "$x^2 \\frac{1}{2}$ ≠ ∑∫√ → «»„“", "https://a.b/c?d=e&f#g a@b.c",
		// Titlecase, modifier letters, private use, noncharacters
		"ǅ ʰʱ ª º ﷺ ﷽", "\ue000\uf8ff\U000f0000 \ufdd0\ufffe\uffff\U0001fffe",
	}
}

// everyRune returns texts that together hold every code point that has a script, in order, half of the texts with
// spaces between them.
func everyRune() (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(unicode.Scripts)) {
		for part := range slices.Chunk(runesOf(unicode.Scripts[name]), 64) {
			texts = append(texts, string(part), strings.Join(strings.Split(string(part), ""), " "))
		}
	}
	return texts
}

// rowsOf returns random ids of a vocabulary, most of them small, so that they contain bytes that are not UTF-8.
func rowsOf(tok Tokenizer, count int) (rows [][]int) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range count {
		row := make([]int, 1+rng.IntN(12))
		for i := range row {
			row[i] = rng.IntN([]int{256, tok.VocabSize()}[rng.IntN(2)])
		}
		rows = append(rows, row)
	}
	return rows
}

var replacements = regexp.MustCompile("\uFFFD+")

// merged returns a text with each run of U+FFFD as one. The library decodes several runs of invalid bytes in a row to
// as many characters, and we to one.
func merged(text string) string { return replacements.ReplaceAllString(text, "\uFFFD") }

func TestTransformersGivesTheSameIDs(t *testing.T) {
	transformersPython(t)
	texts, names := append(corpus(), everyRune()...), []string{NameBytes, NameGPT2}
	var questions []asked
	for _, name := range names {
		questions = append(questions, asked{Folder: writeTransformers(t, name), Texts: texts, Rows: rowsOf(mustNew(t, name), 500), Saved: true})
	}
	for n, got := range askTransformers(t, questions) {
		t.Run(names[n], func(t *testing.T) {
			tok, tokens := mustNew(t, names[n]), 0
			for i, text := range texts {
				want := tok.Encode(text)
				if tokens += len(want); !slices.Equal(got.Plain[i], want) || !slices.Equal(got.IDs[i], want) {
					t.Errorf("transformers encodes %q as %v, we as %v", text, got.Plain[i], want)
				}
				if got.Decoded[i] != text || got.Ended[i] != text {
					t.Errorf("transformers decodes %q as %q, and before an end token as %q", text, got.Decoded[i], got.Ended[i])
				}
			}
			compareRows(t, tok, questions[n].Rows, got)
			if got.Size != tok.VocabSize() || got.EOS != tok.EOS() || got.Pad != tok.EOS() {
				t.Errorf("%d tokens, EOS %d, pad %d", got.Size, got.EOS, got.Pad)
			}
			if !slices.Equal(got.Inputs, []string{"attention_mask", "input_ids"}) {
				t.Errorf("a model gets %v", got.Inputs)
			}
			t.Logf("transformers %s, %s: %d texts, %d tokens", got.Version, got.Class, len(texts), tokens)
		})
	}
}

func compareRows(t *testing.T, tok Tokenizer, rows [][]int, got answered) {
	t.Helper()
	for i, row := range rows {
		if theirs, ours := merged(got.Rows[i]), merged(tok.Decode(row)); theirs != ours {
			t.Errorf("transformers decodes %v as %q, we as %q", row, theirs, ours)
		}
	}
}

// family is a folder like an instruct model's, with the whole text of a chat template.
type family struct {
	write    func(t testing.TB) string
	class    string // transformers' class of the tokenizer, as the model's own files name it
	template string // a file of testdata/templates
	begin    string // the token before each text
	options  map[string]any
}

var families = map[string]family{
	"Qwen2":   {write: writeQwen, class: "Qwen2Tokenizer", template: "qwen2"},
	"Qwen2.5": {write: writeQwen, class: "Qwen2Tokenizer", template: "qwen2.5"},
	// Our prompts are those without reasoning.
	"Qwen3":   {write: writeQwen3, class: "Qwen2Tokenizer", template: "qwen3", options: map[string]any{"enable_thinking": false}},
	"Llama 3": {write: writeLlama3, class: "PreTrainedTokenizerFast", template: "llama3", begin: beginOfText},
	// Without a date, the template of Llama 3.2 takes the day's. Ours is always the one in llama3Dates.
	"Llama 3.2": {write: writeLlama3, class: "PreTrainedTokenizerFast", template: "llama3.2", begin: beginOfText, options: map[string]any{"date_string": "26 Jul 2024"}},
	// transformers 5 makes a GPT2Tokenizer from the vocabulary and the merges alone, and does not split digits. So
	// TransformersSettings names another class.
	"SmolLM2": {write: writeLackingSmolLM, class: "GPT2Tokenizer", template: "smollm2"},
}

// writeQwen3 writes a folder like Qwen3's, without weights. Its tokenizer differs from Qwen2.5's in added tokens.
func writeQwen3(t testing.TB) string {
	t.Helper()
	dir := writeQwen(t)
	doc := readDocument(t, dir, File)
	list := doc["added_tokens"].([]any)
	for _, content := range []string{"<think>", "</think>"} {
		list = append(list, map[string]any{"id": fixtureTokens + len(list), "content": content, "special": false, "lstrip": false, "normalized": false})
	}
	doc["added_tokens"] = list
	writeJSON(t, dir, File, doc)
	writeJSON(t, dir, "config.json", map[string]any{"model_type": "qwen3", "eos_token_id": imEnd})
	return dir
}

// readDocument reads a JSON file of a folder.
func readDocument(t testing.TB, dir, name string) (doc map[string]any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// lackedBySmolLM2 are the bytes without a token in SmolLM2's own vocabulary. 13 of them are never in UTF-8.
var lackedBySmolLM2 = []byte{4, 6, 0x13, 0x14, 0x16, 0x1d, 0xc0, 0xc1, 0xf1, 0xf2, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff}

// writeLackingSmolLM writes a folder like SmolLM2's, with a vocabulary that lacks the bytes that SmolLM2's lacks and
// the tokens made of them.
func writeLackingSmolLM(t testing.TB) string {
	t.Helper()
	dir := writeSmolLM(t)
	doc := readDocument(t, dir, File)
	model := doc["model"].(map[string]any)
	lacks := func(token string) bool {
		return slices.ContainsFunc(lackedBySmolLM2, func(b byte) bool { return strings.Contains(token, written(string([]byte{b}))) })
	}
	maps.DeleteFunc(model["vocab"].(map[string]any), func(token string, _ any) bool { return lacks(token) })
	for _, token := range doc["added_tokens"].([]any) { // SmolLM2's are in the vocabulary too. The library numbers others itself
		token := token.(map[string]any)
		model["vocab"].(map[string]any)[token["content"].(string)] = token["id"]
	}
	model["merges"] = slices.DeleteFunc(model["merges"].([]any), func(rule any) bool { return lacks(rule.(string)) })
	writeJSON(t, dir, File, doc)
	return dir
}

// writeFamily writes the folder of a family, with its template.
func writeFamily(t testing.TB, f family) string {
	t.Helper()
	template, err := os.ReadFile(filepath.Join("testdata", "templates", f.template+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return writeTemplate(t, f, string(template))
}

// writeTemplate writes the folder of a family with the whole text of a chat template.
func writeTemplate(t testing.TB, f family, template string) string {
	t.Helper()
	dir := f.write(t)
	complete(t, dir)
	settings := map[string]any{"tokenizer_class": f.class, "eos_token": turnEnd, "pad_token": "<|endoftext|>", "clean_up_tokenization_spaces": false, "chat_template": template}
	if f.begin != "" {
		settings["bos_token"], settings["eos_token"], settings["pad_token"] = f.begin, endOfTurn, "<|end_of_text|>"
		settings["model_input_names"] = []string{"input_ids", "attention_mask"}
	}
	writeJSON(t, dir, "tokenizer_config.json", settings)
	return dir
}

// complete adds the fields to a tokenizer.json that the library requires and we do not read.
func complete(t testing.TB, dir string) {
	t.Helper()
	doc := readDocument(t, dir, File)
	begins := map[string]any{}
	for _, token := range doc["added_tokens"].([]any) {
		token := token.(map[string]any)
		token["single_word"], token["rstrip"] = false, false
		if token["content"] == beginOfText {
			begins[beginOfText] = map[string]any{"id": beginOfText, "ids": []any{token["id"]}, "tokens": []any{beginOfText}}
		}
	}
	if processors, ok := doc["post_processor"].(map[string]any)["processors"].([]any); ok {
		template := processors[1].(map[string]any)
		template["special_tokens"], template["pair"] = begins, []any{map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}, map[string]any{"Sequence": map[string]any{"id": "B", "type_id": 1}}}
	}
	writeJSON(t, dir, File, doc)
}

// conversation is the input of Prompt.
type conversation struct {
	system string
	turns  []string
}

func (c conversation) messages() (list []message) {
	if c.system != "" {
		list = append(list, message{"system", c.system})
	}
	for i, text := range c.turns {
		list = append(list, message{roles[i%2], text})
	}
	return list
}

// conversations returns conversations with each text as a question, with and without a system prompt and earlier
// turns, and as the system prompt.
func conversations(texts []string) (list []conversation) {
	for _, text := range texts {
		list = append(list, conversation{"", []string{text}}, conversation{"Be brief.", []string{text}},
			conversation{"", []string{"1 + 1?", text, "2 + 2?"}}, conversation{"Answer in tags.", []string{text, "<answer>2</answer>", "2 + 2?"}})
		if text != "" { // Prompt reads an empty system prompt as none
			list = append(list, conversation{text, []string{"1 + 1?"}})
		}
	}
	return list
}

// newerMarks are the combining marks that the library's NFC leaves where they are, and the character that it does not
// decompose. The library has the tables of Unicode 9, which lack them (tokenizers 0.23.3). Go's are newer
// and sort the marks.
var newerMarks = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x7fd, 0x7fd, 1}, {0x898, 0x89f, 1}, {0x8ca, 0x8d3, 1}, {0x9fe, 0x9fe, 1}, {0xc3c, 0xc3c, 1}, {0xd3b, 0xd3c, 1}, {0xeba, 0xeba, 1},
		{0x1715, 0x1715, 1}, {0x1abf, 0x1ace, 1}, {0x1df6, 0x1dfa, 1}, {0xa82c, 0xa82c, 1},
	},
	R32: []unicode.Range32{
		{0x10d24, 0x10d27, 1}, {0x10eab, 0x10eac, 1}, {0x10efd, 0x10eff, 1}, {0x10f46, 0x10f50, 1}, {0x10f82, 0x10f85, 1}, {0x11070, 0x11070, 1},
		{0x1133b, 0x1133b, 1}, {0x1145e, 0x1145e, 1}, {0x11839, 0x1183a, 1}, {0x11938, 0x11938, 1}, {0x1193d, 0x1193e, 1}, {0x11943, 0x11943, 1},
		{0x119e0, 0x119e0, 1}, {0x11a34, 0x11a34, 1}, {0x11a47, 0x11a47, 1}, {0x11a99, 0x11a99, 1}, {0x11d42, 0x11d42, 1}, {0x11d44, 0x11d45, 1},
		{0x11d97, 0x11d97, 1}, {0x11f41, 0x11f42, 1}, {0x16ff0, 0x16ff1, 1}, {0x1e08f, 0x1e08f, 1}, {0x1e130, 0x1e136, 1}, {0x1e2ae, 0x1e2ae, 1},
		{0x1e2ec, 0x1e2ef, 1}, {0x1e4ec, 0x1e4ef, 1},
	},
}

// compared returns the texts without those for which a difference from the library is known:
//   - Texts that contain one of the tokens. The library reads them as added tokens. We never do, because questions may
//     come from an untrusted sender. The library's split_special_tokens is about special tokens only, and is not for chats.
//   - Texts with newerMarks, if the tokenizer normalizes.
func compared(texts, tokens []string, normalizes bool) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		has := func(token string) bool { return strings.Contains(text, token) }
		return slices.ContainsFunc(tokens, has) || normalizes && strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(newerMarks, r) })
	})
}

func TestTransformersGivesTheSameIDsForFamilies(t *testing.T) {
	transformersPython(t)
	names, texts := slices.Sorted(maps.Keys(families)), append(corpus(), everyRune()...)
	var pairs []*pairing
	for _, name := range names {
		pairs = append(pairs, newPairing(t, writeFamily(t, families[name]), families[name].options, texts))
	}
	comparePairs(t, names, pairs)
}

// TestTransformersGivesTheSameIDsForAFolder compares the files of the folder that SWARM_TEST_TOKENIZER names.
func TestTransformersGivesTheSameIDsForAFolder(t *testing.T) {
	folder := os.Getenv("SWARM_TEST_TOKENIZER")
	if folder == "" {
		t.Skip("SWARM_TEST_TOKENIZER names no folder")
	}
	dir := t.TempDir()
	for _, name := range []string{File, "config.json", SettingsFile} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		writeJSON(t, dir, name, string(text))
	}
	comparePairs(t, []string{filepath.Base(folder)}, []*pairing{newPairing(t, dir, nil, append(corpus(), everyRune()...))})
}

// pairing is a folder's tokenizer with what transformers is asked about it.
type pairing struct {
	asked
	tok   Chat
	chats []conversation
}

// newPairing asks for all texts, and for conversations about difficult texts and texts of each script. It gives the
// folder the settings that a saved model has.
func newPairing(t *testing.T, dir string, options map[string]any, texts []string) *pairing {
	t.Helper()
	settings, err := TransformersSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	if settings != nil {
		writeJSON(t, dir, SettingsFile, string(settings))
	}
	tok, ok := mustOpen(t, NameHuggingFace, dir).(Chat)
	if !ok {
		t.Fatalf("%s: the chat template is not recognized", dir)
	}
	f, err := readFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	var all, ordinary []string
	for _, token := range f.AddedTokens {
		if all = append(all, token.Content); !token.Special {
			ordinary = append(ordinary, token.Content)
		}
	}
	normalizes := f.Normalizer != nil
	p := &pairing{tok: tok, chats: conversations(compared(append(difficult(), scripts()...), all, normalizes))}
	p.asked = asked{Folder: dir, Texts: compared(texts, ordinary, normalizes), Rows: rowsOf(tok, 500), Options: options}
	for _, c := range p.chats {
		p.Chats = append(p.Chats, c.messages())
	}
	return p
}

// comparePairs compares the ids of texts, the texts of ids, and the ids of conversations.
func comparePairs(t *testing.T, names []string, pairs []*pairing) {
	t.Helper()
	var questions []asked
	for _, p := range pairs {
		questions = append(questions, p.asked)
	}
	for n, got := range askTransformers(t, questions) {
		t.Run(names[n], func(t *testing.T) {
			p, count := pairs[n], 0
			for i, text := range p.Texts {
				ids := p.tok.Encode(text)
				if count += len(ids); !slices.Equal(got.IDs[i], ids) {
					t.Errorf("transformers encodes %+q as %v, we as %v", text, got.IDs[i], ids)
				}
				if ours := p.tok.Decode(ids); merged(got.Decoded[i]) != merged(ours) {
					t.Errorf("transformers decodes the ids of %+q as %+q, we as %+q", text, got.Decoded[i], ours)
				}
			}
			compareRows(t, p.tok, p.Rows, got)
			if !slices.Equal(got.Inputs, []string{"attention_mask", "input_ids"}) {
				t.Errorf("a model gets %v", got.Inputs)
			}
			for i, c := range p.chats {
				ids := p.tok.Prompt(c.system, c.turns...)
				if count += len(ids); !slices.Equal(got.Prompts[i], ids) {
					t.Errorf("transformers makes the prompt %v of %+q, we %v", got.Prompts[i], c, ids)
				}
			}
			t.Logf("transformers %s, %s: %d texts, %d conversations, %d tokens", got.Version, got.Class, len(p.Texts), len(p.chats), count)
		})
	}
}
