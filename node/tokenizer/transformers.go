package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// endText is the end token of New's tokenizers, as written in files.
const endText = "<|endoftext|>"

// TransformersFiles returns the files of a tokenizer of New for Hugging Face's transformers, by file name. The
// contextLength is the model's, in tokens. With these files, transformers returns the same ids as Encode for every
// text. It also treats special tokens in a text as ordinary text (split_special_tokens). Open reads the files back as
// an equal tokenizer.
func TransformersFiles(name string, contextLength int) (map[string][]byte, error) {
	t, err := New(name)
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case *bpe:
		return t.transformersFiles(contextLength)
	case byteTokenizer:
		return byteFiles(contextLength)
	}
	return nil, fmt.Errorf("tokenizer %s has no files", name)
}

// byteFiles describes one token per byte: a byte-level BPE without merges.
func byteFiles(contextLength int) (map[string][]byte, error) {
	tokens := make([]string, byteEOS)
	for b := range tokens {
		tokens[b] = string([]byte{byte(b)})
	}
	described, err := json.Marshal(describe(tokens, nil, byteEOS))
	if err != nil {
		return nil, err
	}
	settings, err := tokenizerSettings("PreTrainedTokenizerFast", contextLength)
	return map[string][]byte{File: described, SettingsFile: settings}, err
}

// transformersFiles describes GPT-2's vocabulary by a tokenizer.json and by the two originally published files
// (https://github.com/openai/gpt-2), byte for byte.
func (t *bpe) transformersFiles(contextLength int) (map[string][]byte, error) {
	tokens := t.vocabulary.tokens[:t.EOS()]
	rules, err := t.vocabulary.rules()
	if err != nil {
		return nil, err
	}
	described, err := json.Marshal(describe(tokens, rules, t.EOS()))
	if err != nil {
		return nil, err
	}
	settings, err := tokenizerSettings("GPT2Tokenizer", contextLength)
	return map[string][]byte{
		File: described, SettingsFile: settings, "vocab.json": vocabJSON(append(slices.Clone(tokens), endText)), "merges.txt": mergesText(rules),
	}, err
}

// SettingsFile is the file that transformers reads beside tokenizer.json.
const SettingsFile = "tokenizer_config.json"

func tokenizerSettings(class string, contextLength int) ([]byte, error) {
	data, err := json.MarshalIndent(map[string]any{
		"tokenizer_class": class, "model_max_length": contextLength, "add_prefix_space": false, "clean_up_tokenization_spaces": false,
		// GPT-2 would add the embedding of token 0 for the token_type_ids that transformers 4 passes by default.
		"model_input_names":    []string{"input_ids", "attention_mask"},
		"split_special_tokens": true, "bos_token": endText, "eos_token": endText, "unk_token": endText, "pad_token": endText,
	}, "", "  ")
	return append(data, '\n'), err
}

// writtenFile is the content of a tokenizer.json.
type writtenFile struct {
	Version       string        `json:"version"`
	Truncation    *struct{}     `json:"truncation"`
	Padding       *struct{}     `json:"padding"`
	AddedTokens   []writtenMark `json:"added_tokens"`
	Normalizer    *struct{}     `json:"normalizer"`
	PreTokenizer  writtenStep   `json:"pre_tokenizer"`
	PostProcessor writtenStep   `json:"post_processor"`
	Decoder       writtenStep   `json:"decoder"`
	Model         writtenModel  `json:"model"`
}

type writtenMark struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type writtenStep struct {
	Type           string `json:"type"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	TrimOffsets    bool   `json:"trim_offsets"`
	UseRegex       bool   `json:"use_regex"`
}

type writtenModel struct {
	Type                    string         `json:"type"`
	Dropout                 *float64       `json:"dropout"`
	UnknownToken            *string        `json:"unk_token"`
	ContinuingSubwordPrefix string         `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string         `json:"end_of_word_suffix"`
	FuseUnknown             bool           `json:"fuse_unk"`
	ByteFallback            bool           `json:"byte_fallback"`
	Vocab                   map[string]int `json:"vocab"`
	Merges                  []string       `json:"merges"`
}

// describe returns the tokenizer.json of a byte-level BPE with the given tokens (indexed by id), merges and end token.
// It splits text like GPT-2.
func describe(tokens []string, rules [][2]string, end int) writtenFile {
	byteLevel := writtenStep{Type: "ByteLevel", TrimOffsets: true, UseRegex: true}
	d := writtenFile{
		Version: "1.0", AddedTokens: []writtenMark{{ID: end, Content: endText, Special: true}},
		PreTokenizer: byteLevel, PostProcessor: byteLevel, Decoder: byteLevel,
		Model: writtenModel{Type: "BPE", Vocab: map[string]int{endText: end}, Merges: []string{}},
	}
	for id, token := range tokens {
		d.Model.Vocab[writtenToken(token)] = id
	}
	for _, r := range rules {
		d.Model.Merges = append(d.Model.Merges, writtenToken(r[0])+" "+writtenToken(r[1]))
	}
	return d
}

// writtenToken returns a token in the notation of files: one character per byte.
func writtenToken(token string) string {
	runes := make([]rune, len(token))
	for i := range len(token) {
		runes[i] = byteRunes[token[i]]
	}
	return string(runes)
}

// rules returns the merges that produce the tokens, by rank, for a vocabulary with ranks as ids. A merge is a token's
// two parts under the merges of lower rank.
func (v *vocabulary) rules() ([][2]string, error) {
	var rules [][2]string
	for id, token := range v.tokens {
		if len(token) < 2 {
			continue
		}
		parts := make([]string, len(token))
		for i := range len(token) {
			parts[i] = token[i : i+1]
		}
		for len(parts) > 2 {
			best, at := int32(id), -1
			for i := range len(parts) - 1 {
				if rank, ok := v.id(parts[i] + parts[i+1]); ok && rank < best {
					best, at = rank, i
				}
			}
			if at < 0 {
				return nil, fmt.Errorf("token %d, %q, has no merge", id, token)
			}
			parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
		}
		rules = append(rules, [2]string{parts[0], parts[1]})
	}
	return rules, nil
}

// mergesText returns GPT-2's vocab.bpe.
func mergesText(rules [][2]string) []byte {
	var b bytes.Buffer
	b.WriteString("#version: 0.2\n")
	for _, r := range rules {
		b.WriteString(writtenToken(r[0]) + " " + writtenToken(r[1]) + "\n")
	}
	return b.Bytes()
}

// vocabJSON returns GPT-2's encoder.json: tokens with their ids, formatted like Python's json.
func vocabJSON(tokens []string) []byte {
	var b bytes.Buffer
	for id, token := range tokens {
		b.WriteString(", ")
		if token == endText {
			fmt.Fprintf(&b, "%q: %d", token, id)
			continue
		}
		fmt.Fprintf(&b, "%s: %d", strconv.QuoteToASCII(writtenToken(token)), id)
	}
	text := b.Bytes()
	return slices.Concat([]byte("{"), text[2:], []byte("}"))
}
