package configs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Vocabulary sizes of the built-in tokenizers: the 256 bytes and an end token; GPT-2's 50257, which weights may pad
// to a multiple of 64 or 128.
const (
	bytesVocabulary      = 257
	gpt2Vocabulary       = 50257
	gpt2PaddedVocabulary = 50304
)

// qwen3HeadSize is the head_dim of a Qwen3 whose config.json has none.
const qwen3HeadSize = 128

// Maximum sizes in a config.json. They keep the parameter count far from overflow.
const (
	mostLayers     = 1 << 12
	mostWidth      = 1 << 16
	mostVocabulary = 1 << 20
	mostContext    = 1 << 22
)

// huggingFace is the part of a model folder's config.json that is read: GPT-2's names and Llama's, which Qwen2 and
// Qwen3 use, too.
type huggingFace struct {
	ModelType string `json:"model_type"`
	VocabSize int    `json:"vocab_size"`

	NLayer     int `json:"n_layer"`
	NHead      int `json:"n_head"`
	NEmbd      int `json:"n_embd"`
	NInner     int `json:"n_inner"` // null: 4 n_embd
	NPositions int `json:"n_positions"`

	NumHiddenLayers       int  `json:"num_hidden_layers"`
	NumAttentionHeads     int  `json:"num_attention_heads"`
	NumKeyValueHeads      *int `json:"num_key_value_heads"`
	HiddenSize            int  `json:"hidden_size"`
	HeadDim               int  `json:"head_dim"` // null: hidden_size / num_attention_heads
	IntermediateSize      int  `json:"intermediate_size"`
	MaxPositionEmbeddings int  `json:"max_position_embeddings"`
	TieWordEmbeddings     bool `json:"tie_word_embeddings"` // default: false
	UseSlidingWindow      bool `json:"use_sliding_window"`
	AttentionBias         bool `json:"attention_bias"` // Llama, Qwen3
	MLPBias               bool `json:"mlp_bias"`       // Llama

	RopeScaling    *ropeScaling `json:"rope_scaling"`    // transformers 4
	RopeParameters *ropeScaling `json:"rope_parameters"` // transformers 5
}

// ropeScaling is the scaling of rotary frequencies.
type ropeScaling struct {
	RopeType string `json:"rope_type"`
	Type     string `json:"type"` // the key's name in older files
}

// plain tells whether the engine supports the scaling: none, or Llama 3's.
func (r *ropeScaling) plain() bool {
	return r == nil || slices.Contains([]string{"", "default", "llama3"}, cmp.Or(r.RopeType, r.Type))
}

// ParseModel makes a Model of a Hugging Face folder. name is the model's name, folder its path, config the text of
// its config.json. Only Architectures are supported: anything else is an *Error. Tokenizer is the fallback for a
// folder without a tokenizer.json: bytes, GPT-2's, or none ("huggingface").
func ParseModel(name, folder string, config []byte) (Model, error) {
	shape, err := ParseShape(config)
	if err != nil {
		return Model{}, &Error{Key: "model", Value: folder, Allowed: err.Error(), Source: "config.json"}
	}
	preset, tokenizer := "gpt2", "gpt2"
	switch {
	case shape.Rotary():
		preset, tokenizer = "qwen2.5-0.5b-instruct", "huggingface"
	case shape.Vocabulary == bytesVocabulary:
		preset, tokenizer = "nano", "bytes"
	case shape.Vocabulary < gpt2Vocabulary || shape.Vocabulary > gpt2PaddedVocabulary:
		tokenizer = "huggingface"
	}
	like, err := LoadModel(preset)
	if err != nil {
		return Model{}, err
	}
	m := Model{Name: name, Weights: folder, Tokenizer: tokenizer, Shape: shape, Defaults: like.Defaults}
	// A context below the preset's is split three quarters prompt, one quarter completion, as in the preset.
	prompt, _ := m.Defaults["max_prompt_length"].(int)
	completion, _ := m.Defaults["max_completion_length"].(int)
	if prompt+completion > shape.Context && shape.Context >= 4 {
		m.Defaults["max_completion_length"] = shape.Context / 4
		m.Defaults["max_prompt_length"] = shape.Context - shape.Context/4
	}
	return m, nil
}

// ParseShape reads a model's shape from the text of its config.json. The error states the allowed values.
func ParseShape(config []byte) (Shape, error) {
	var h huggingFace
	if err := json.Unmarshal(config, &h); err != nil {
		return Shape{}, fmt.Errorf("a folder with the config.json of a Hugging Face model")
	}
	switch h.ModelType {
	case GPT2:
		return h.gpt2()
	case Llama, Qwen2, Qwen3:
		return h.rotary()
	}
	return Shape{}, fmt.Errorf("model_type %s (it is %s)", units.List(Architectures(), "or"), quote(h.ModelType))
}

func (h huggingFace) gpt2() (Shape, error) {
	s := Shape{Layers: h.NLayer, Heads: h.NHead, Width: h.NEmbd, Inner: h.NInner, Context: h.NPositions, Vocabulary: h.VocabSize}
	if err := s.checkSizes("n_layer", "n_head", "n_embd", "n_positions", "vocab_size"); err != nil {
		return Shape{}, err
	}
	switch {
	case s.Inner < 0 || s.Inner > 16*mostWidth:
		return Shape{}, fmt.Errorf("n_inner at most %d", 16*mostWidth)
	case s.Width%s.Heads != 0:
		return Shape{}, fmt.Errorf("n_embd a multiple of n_head")
	}
	s.Parameters = s.parameters()
	return s, nil
}

func (h huggingFace) rotary() (Shape, error) {
	s := Shape{
		Architecture: h.ModelType, Layers: h.NumHiddenLayers, Heads: h.NumAttentionHeads, KVHeads: h.NumAttentionHeads, Width: h.HiddenSize,
		Inner: h.IntermediateSize, HeadSize: h.HeadDim, Context: h.MaxPositionEmbeddings, Vocabulary: h.VocabSize, Untied: !h.TieWordEmbeddings,
	}
	if s.HeadSize == 0 && h.ModelType == Qwen3 {
		s.HeadSize = qwen3HeadSize
	}
	if h.NumKeyValueHeads != nil {
		s.KVHeads = *h.NumKeyValueHeads
	}
	err := s.checkSizes("num_hidden_layers", "num_attention_heads", "hidden_size", "max_position_embeddings", "vocab_size")
	switch {
	case err != nil:
		return Shape{}, err
	case s.Inner < 1 || s.Inner > 16*mostWidth:
		return Shape{}, fmt.Errorf("intermediate_size from 1 to %d", 16*mostWidth)
	case s.KVHeads < 1 || s.Heads%s.KVHeads != 0:
		return Shape{}, fmt.Errorf("num_attention_heads (%d) a multiple of num_key_value_heads (%d)", s.Heads, s.KVHeads)
	case s.HeadSize == 0 && s.Width%s.Heads != 0:
		return Shape{}, fmt.Errorf("hidden_size a multiple of num_attention_heads")
	case s.HeadSize < 0 || s.HeadWidth() < 2 || s.HeadWidth() > mostWidth || s.HeadWidth()%2 != 0:
		return Shape{}, fmt.Errorf("head_dim an even number from 2 to %d", mostWidth)
	case h.UseSlidingWindow:
		return Shape{}, fmt.Errorf("use_sliding_window false")
	case h.AttentionBias && h.ModelType != Qwen2, h.MLPBias:
		return Shape{}, fmt.Errorf("attention_bias and mlp_bias false")
	case !h.RopeScaling.plain() || !h.RopeParameters.plain():
		return Shape{}, fmt.Errorf("rotary positions of rope_type default or llama3")
	}
	s.HeadSize = s.HeadWidth()
	s.Parameters = s.parameters()
	return s, nil
}

// checkSizes checks the sizes that both architectures have. The arguments are their names in config.json.
func (s Shape) checkSizes(layers, heads, width, context, vocabulary string) error {
	for _, size := range []struct {
		value, most int
	}{{s.Layers, mostLayers}, {s.Heads, mostWidth}, {s.Width, mostWidth}, {s.Context, mostContext}, {s.Vocabulary, mostVocabulary}} {
		if size.value < 1 || size.value > size.most {
			names := strings.Join([]string{layers, heads, width, context}, ", ")
			return fmt.Errorf("%s and %s from 1 to %d, %d, %d, %d and %d", names, vocabulary, mostLayers, mostWidth, mostWidth, mostContext, mostVocabulary)
		}
	}
	return nil
}
