package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// writeTransformers writes the files of a tokenizer and a model's config.json into a folder.
func writeTransformers(t testing.TB, name string) string {
	t.Helper()
	files, err := TransformersFiles(name, 256)
	if err != nil {
		t.Fatal(err)
	}
	tok := mustNew(t, name)
	files["config.json"] = fmt.Appendf(nil, `{"model_type": "gpt2", "vocab_size": %d, "eos_token_id": %d}`, tok.VocabSize(), tok.EOS())
	dir := t.TempDir()
	for file, data := range files {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// corpus returns texts of every script, each letter beside others of its script, and known difficult cases.
func corpus() []string {
	texts := []string{
		"", " ", "  ", "\n\n\t ", "Hello world", "I'll say they've 42 don'ts", "a\x00b\x7f", "\u00ad\u200b\u202e\ufeff", "e\u0301 é ﬁ Å",
		"<|endoftext|>", "before<|endoftext|>after <|im_start|>user\n<|im_end|>", "<answer>12</answer>", "</s><pad>[MASK]<unk>",
		"🙂👩‍👩‍👧‍👦🇩🇪👍🏽", "\U0010FFFF\uFFFD\uE000", "++++[>++<-]>.", "a  b   c    d ", strings.Repeat("ab ", 300),
	}
	for _, name := range slices.Sorted(maps.Keys(unicode.Scripts)) {
		var letters []rune
		for _, r := range unicode.Scripts[name].R16 {
			for x := rune(r.Lo); x <= rune(r.Hi) && len(letters) < 60; x += rune(r.Stride) {
				letters = append(letters, x)
			}
		}
		for _, r := range unicode.Scripts[name].R32 {
			for x := rune(r.Lo); x <= rune(r.Hi) && len(letters) < 60; x += rune(r.Stride) {
				letters = append(letters, x)
			}
		}
		texts = append(texts, string(letters)+" "+name+" "+string(letters[:min(5, len(letters))])+"7")
	}
	rng := rand.New(rand.NewPCG(19, 19))
	for range 300 {
		runes := make([]rune, rng.IntN(60))
		for i := range runes {
			if runes[i] = rng.Int32N([]rune{0x80, 0x250, 0x3000, 0x20000}[rng.IntN(4)]); runes[i] >= 0xD800 && runes[i] < 0xE000 {
				runes[i] = ' '
			}
		}
		texts = append(texts, string(runes))
	}
	return texts
}

// The files of GPT-2's vocabulary equal those that OpenAI published. The hashes are from tiktoken's openai_public.py.
func TestGPT2FilesAreThePublishedOnes(t *testing.T) {
	files, err := TransformersFiles(NameGPT2, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"merges.txt": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
		"vocab.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
	} {
		sum := sha256.Sum256(files[name])
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Open reads a saved folder as a tokenizer with the same ids.
func TestTransformersFilesAreReadBack(t *testing.T) {
	for _, name := range []string{NameBytes, NameGPT2} {
		want, got := mustNew(t, name), mustOpen(t, name, writeTransformers(t, name))
		if _, own := got.(*bpe); !own {
			t.Errorf("%s: Open read no tokenizer.json, but made a %T", name, got)
		}
		if got.EOS() != want.EOS() || got.VocabSize() != want.VocabSize() || got.Name() != name {
			t.Errorf("%s: EOS %d, %d tokens, name %q", name, got.EOS(), got.VocabSize(), got.Name())
		}
		for _, text := range corpus() {
			ids := want.Encode(text)
			if again := got.Encode(text); !slices.Equal(again, ids) {
				t.Errorf("%s: Encode(%q) = %v, want %v", name, text, again, ids)
			}
			if decoded := got.Decode(append(ids, want.EOS())); decoded != text {
				t.Errorf("%s: Decode of %q is %q", name, text, decoded)
			}
		}
	}
}

// The structure of a tokenizer.json decides how transformers uses it. The test checks the structure for the byte-level
// models.
func TestByteFiles(t *testing.T) {
	files, err := TransformersFiles(NameBytes, 256)
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(files))
	if !slices.Equal(names, []string{"tokenizer.json", "tokenizer_config.json"}) {
		t.Errorf("files %v", names)
	}
	const golden = "testdata/bytes_tokenizer.json"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(files[File], want) {
		t.Errorf("%s has %d bytes, not those of %s", File, len(files[File]), golden)
	}
	var settings map[string]any
	if err := json.Unmarshal(files[settingsFile], &settings); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"split_special_tokens": true, "clean_up_tokenization_spaces": false, "model_max_length": 256.0, "eos_token": endText, "pad_token": endText,
		"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": []any{"input_ids", "attention_mask"},
	} {
		if !reflect.DeepEqual(settings[key], want) {
			t.Errorf("%s is %v, want %v", key, settings[key], want)
		}
	}
}

// TestTransformersGivesTheSameIDs needs SWARM_TEST_TRANSFORMERS, a Python with transformers. test_transformers.py sets
// it.
func TestTransformersGivesTheSameIDs(t *testing.T) {
	python := os.Getenv("SWARM_TEST_TRANSFORMERS")
	if python == "" {
		t.Skip("SWARM_TEST_TRANSFORMERS names no Python with transformers")
	}
	texts := corpus()
	for _, name := range []string{NameBytes, NameGPT2} {
		t.Run(name, func(t *testing.T) {
			asked, err := json.Marshal(map[string]any{"folder": writeTransformers(t, name), "texts": texts})
			if err != nil {
				t.Fatal(err)
			}
			command := exec.Command(python, "testdata/transformers_ids.py")
			command.Stdin, command.Stderr = bytes.NewReader(asked), os.Stderr
			out, err := command.Output()
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Version, Class string
				Size, EOS, Pad int
				Inputs         []string
				IDs            [][]int
				Decoded, Ended []string
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			tok, tokens := mustNew(t, name), 0
			for i, text := range texts {
				want := tok.Encode(text)
				if tokens += len(want); !slices.Equal(got.IDs[i], want) {
					t.Errorf("transformers encodes %q as %v, we as %v", text, got.IDs[i], want)
				}
				if got.Decoded[i] != text || got.Ended[i] != text {
					t.Errorf("transformers decodes %q as %q, and before an end token as %q", text, got.Decoded[i], got.Ended[i])
				}
			}
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
