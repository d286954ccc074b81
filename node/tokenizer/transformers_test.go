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
	"path/filepath"
	"reflect"
	"slices"
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

// corpus returns difficult texts, texts of every script, and texts of random characters.
func corpus() []string {
	texts := append(difficult(), scripts()...)
	rng := rand.New(rand.NewPCG(19, 19))
	for range 300 {
		runes := make([]rune, rng.IntN(60))
		for i := range runes {
			// A character that a later version of Unicode assigns is a letter or a digit for the library, but not for
			// Go.
			if runes[i] = rng.Int32N([]rune{0x80, 0x250, 0x3000, 0x20000}[rng.IntN(4)]); !unicode.In(runes[i], assigned...) {
				runes[i] = ' '
			}
		}
		texts = append(texts, string(runes))
	}
	return texts
}

// assigned are the categories of the characters that Go's version of Unicode has.
var assigned = []*unicode.RangeTable{unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co}

// scripts returns a text of each script, each letter beside others of its script.
func scripts() (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(unicode.Scripts)) {
		letters := runesOf(unicode.Scripts[name])
		letters = letters[:min(60, len(letters))]
		texts = append(texts, string(letters)+" "+name+" "+string(letters[:min(5, len(letters))])+"7")
	}
	return texts
}

// runesOf returns the characters of a table, in order.
func runesOf(table *unicode.RangeTable) (runes []rune) {
	add := func(low, high, stride rune) {
		for r := low; r <= high; r += stride {
			runes = append(runes, r)
		}
	}
	for _, r := range table.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range table.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return runes
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
	if err := json.Unmarshal(files[SettingsFile], &settings); err != nil {
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
