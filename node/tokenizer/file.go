package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Limits on a model's own files, which may be untrusted. Qwen2.5's tokenizer.json has 7 MB and 151,665 tokens.
const (
	maxFileBytes  = 64 << 20
	maxTokens     = 1 << 20
	maxTokenBytes = 4096
)

// file holds the parts of a tokenizer.json that this package reads. It is the format of Hugging Face's tokenizers
// library.
type file struct {
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    *step        `json:"normalizer"`
	PreTokenizer  *step        `json:"pre_tokenizer"`
	PostProcessor *step        `json:"post_processor"`
	Decoder       *step        `json:"decoder"`
	Model         struct {
		Type                    string         `json:"type"`
		Dropout                 *float64       `json:"dropout"`
		ContinuingSubwordPrefix string         `json:"continuing_subword_prefix"` // null is read as ""
		EndOfWordSuffix         string         `json:"end_of_word_suffix"`
		ByteFallback            bool           `json:"byte_fallback"`
		IgnoreMerges            bool           `json:"ignore_merges"`
		Vocab                   map[string]int `json:"vocab"`
		Merges                  []mergeRule    `json:"merges"`
	} `json:"model"`
}

type addedToken struct {
	ID      int    `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
}

// step is a normalizer, pre-tokenizer, post-processor or decoder.
type step struct {
	Type             string `json:"type"`
	AddPrefixSpace   *bool  `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
	Behavior         string `json:"behavior"`
	Invert           bool   `json:"invert"`
	IndividualDigits bool   `json:"individual_digits"`
	Pattern          struct {
		Regex string `json:"Regex"`
	} `json:"pattern"`
	Pretokenizers []step `json:"pretokenizers"`
	Processors    []step `json:"processors"` // of a post-processor
	Single        []struct {
		SpecialToken json.RawMessage `json:"SpecialToken"`
	} `json:"single"` // of TemplateProcessing
}

// mergeRule is two tokens that merge. Files write "a b", newer ones ["a", "b"].
type mergeRule [2]string

func (m *mergeRule) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		var pair []string
		if err := json.Unmarshal(data, &pair); err != nil {
			return err
		}
		if len(pair) != 2 {
			return errors.New("a merge has two tokens")
		}
		*m = mergeRule(pair)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	left, right, ok := strings.Cut(text, " ")
	if !ok || strings.Contains(right, " ") {
		return fmt.Errorf("merge %.40q does not have two tokens", text)
	}
	*m = mergeRule{left, right}
	return nil
}

// readFile reads a tokenizer.json. It rejects a file for which this package would produce other ids than the library.
func readFile(path string) (file, error) {
	data, err := readBounded(path)
	if err != nil {
		return file{}, err
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return file{}, fmt.Errorf("%s: %.200s", path, err)
	}
	if err := f.check(); err != nil {
		return file{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func (f file) check() error {
	m := f.Model
	switch {
	case m.Type != "BPE" && (m.Type != "" || len(m.Merges) == 0): // the file of openai-community/gpt2 predates the field
		return fmt.Errorf("tokenizer type %.40q; supported: BPE on bytes", m.Type)
	case m.ByteFallback || m.ContinuingSubwordPrefix != "" || m.EndOfWordSuffix != "":
		return errors.New("its BPE is not GPT-2's byte-level BPE (byte_fallback, continuing_subword_prefix or end_of_word_suffix)")
	case m.Dropout != nil && *m.Dropout != 0:
		return errors.New("it drops merges at random (dropout)")
	case f.Normalizer != nil && f.Normalizer.Type != "NFC":
		return fmt.Errorf("normalizer %.40q; supported: NFC and none", f.Normalizer.Type)
	case f.PostProcessor != nil && !f.PostProcessor.addsNothing() && !f.beginsTexts():
		return fmt.Errorf("post-processor %.40q, which may add tokens; supported: ByteLevel and none", f.PostProcessor.Type)
	case f.Decoder == nil || f.Decoder.Type != "ByteLevel":
		return errors.New("its decoder is not ByteLevel")
	}
	return nil
}

// cuts maps each supported pattern to the function that implements it.
var cuts = map[string]func(string) int{qwen2Pattern: nextQwen2Piece, llama3Pattern: nextLlama3Piece}

// pieces returns the function that splits a text like the file's pre-tokenizer.
func (f file) pieces() (func(string) int, error) {
	p := f.PreTokenizer
	for pattern, next := range cuts {
		if f.splitsBy(pattern) {
			return next, nil
		}
	}
	switch {
	case p.byteLevel(true):
		return nextPiece, nil
	case p != nil && p.Type == "Sequence" && len(p.Pretokenizers) == 2 && p.Pretokenizers[1].byteLevel(true):
		if digits := p.Pretokenizers[0]; digits.Type == "Digits" && digits.IndividualDigits {
			return nextSmolLMPiece, nil
		}
	}
	return nil, errors.New("unknown pre-tokenizer; supported: those of GPT-2, Llama 3, Qwen2, Qwen3 and SmolLM2")
}

// splitsBy reports whether the file's pre-tokenizer splits texts by a pattern and then maps bytes.
func (f file) splitsBy(pattern string) bool {
	p := f.PreTokenizer
	if p == nil || p.Type != "Sequence" || len(p.Pretokenizers) != 2 || !p.Pretokenizers[1].byteLevel(false) {
		return false
	}
	split := p.Pretokenizers[0]
	return split.Type == "Split" && split.Behavior == "Isolated" && !split.Invert && split.Pattern.Regex == pattern
}

// byteLevel reports whether a step maps bytes as GPT-2 does, and splits the text first if and only if cuts is true.
func (s *step) byteLevel(cuts bool) bool {
	if s == nil {
		return false
	}
	usesRegex := s.UseRegex == nil || *s.UseRegex // the library's default
	return s.Type == "ByteLevel" && usesRegex == cuts && s.AddPrefixSpace != nil && !*s.AddPrefixSpace
}

// beginsTexts reports whether the post-processor is Llama 3's, which puts <|begin_of_text|> before every text. Llama
// 3's chat template does the same.
func (f file) beginsTexts() bool {
	p := f.PostProcessor
	if p == nil || p.Type != "Sequence" || len(p.Processors) != 2 || p.Processors[0].Type != "ByteLevel" || p.Processors[1].Type != "TemplateProcessing" {
		return false
	}
	var begin struct {
		ID string `json:"id"`
	}
	single := p.Processors[1].Single
	return len(single) == 2 && json.Unmarshal(single[0].SpecialToken, &begin) == nil && begin.ID == beginOfText && single[1].SpecialToken == nil
}

// addsNothing reports whether a post-processor leaves the ids unchanged, as a template without special tokens does.
func (s step) addsNothing() bool {
	for _, part := range s.Single {
		if part.SpecialToken != nil {
			return false
		}
	}
	return s.Type == "ByteLevel" || s.Type == "TemplateProcessing"
}

// readBounded reads a file of at most maxFileBytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFileBytes)
	}
	return data, nil
}
