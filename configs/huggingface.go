package configs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
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
// Qwen3 use, too. A nil pointer is an absent or null key.
type huggingFace struct {
	ModelType     string          `json:"model_type"`
	Architectures []string        `json:"architectures"`
	Quantization  json.RawMessage `json:"quantization_config"` // an object, or null
	VocabSize     int             `json:"vocab_size"`
	EOS           json.RawMessage `json:"eos_token_id"` // an id, a list of ids, or null

	NLayer           int      `json:"n_layer"`
	NHead            int      `json:"n_head"`
	NEmbd            int      `json:"n_embd"`
	NInner           *int     `json:"n_inner"` // null: 4 n_embd
	NPositions       int      `json:"n_positions"`
	NCtx             int      `json:"n_ctx"` // the older name of n_positions
	LayerNormEpsilon *float64 `json:"layer_norm_epsilon"`

	NumHiddenLayers       int      `json:"num_hidden_layers"`
	NumAttentionHeads     int      `json:"num_attention_heads"`
	NumKeyValueHeads      *int     `json:"num_key_value_heads"`
	HiddenSize            int      `json:"hidden_size"`
	HeadDim               *int     `json:"head_dim"` // null: hidden_size / num_attention_heads
	IntermediateSize      int      `json:"intermediate_size"`
	MaxPositionEmbeddings int      `json:"max_position_embeddings"`
	TieWordEmbeddings     bool     `json:"tie_word_embeddings"` // default: false
	RMSNormEps            *float64 `json:"rms_norm_eps"`
	InitializerRange      *float64 `json:"initializer_range"`
	LayerTypes            []string `json:"layer_types"`

	RopeTheta      *float64 `json:"rope_theta"`
	RopeScaling    rotation `json:"rope_scaling"`    // transformers 4
	RopeParameters rotation `json:"rope_parameters"` // transformers 5
}

// supported lists the settings whose values the engine implements only in part, as JSON. An absent key has a supported
// value. TestRefusedConfigs compares them with the engine's (node/policy/engine/gpt2.py, llama.py).
var supported = map[string]map[string][]string{
	GPT2: {
		"activation_function":             {`"gelu_new"`, `"gelu_pytorch_tanh"`, `"gelu"`},
		"add_cross_attention":             {"false"},
		"scale_attn_by_inverse_layer_idx": {"false"},
		"scale_attn_weights":              {"true"},
		"tie_word_embeddings":             {"true"},
	},
	Llama: {"attention_bias": {"false"}, "hidden_act": {`"silu"`}, "mlp_bias": {"false"}, "use_mrope": {"false"}, "use_sliding_window": {"false"}},
	Qwen2: {"hidden_act": {`"silu"`}, "mlp_bias": {"false"}, "use_mrope": {"false"}, "use_sliding_window": {"false"}},
	Qwen3: {"attention_bias": {"false"}, "hidden_act": {`"silu"`}, "mlp_bias": {"false"}, "use_mrope": {"false"}, "use_sliding_window": {"false"}},
}

// modelClasses lists transformers' classes of the supported models, by model_type: with the head of a language model,
// and without a head. The weights of both have the same names. TestRefusedConfigs compares them with the engine's.
var modelClasses = map[string][]string{
	GPT2:  {"GPT2LMHeadModel", "GPT2Model"},
	Llama: {"LlamaForCausalLM", "LlamaModel"},
	Qwen2: {"Qwen2ForCausalLM", "Qwen2Model"},
	Qwen3: {"Qwen3ForCausalLM", "Qwen3Model"},
}

// checkSupported returns an error for another kind of model, for quantized weights, and for the first setting with an
// unsupported value. config holds all keys.
func (h huggingFace) checkSupported(config map[string]json.RawMessage) error {
	known, found := modelClasses[h.ModelType]
	if !found {
		return fmt.Errorf("model_type %s (it is %s)", units.List(Architectures(), "or"), quote(h.ModelType))
	}
	for _, class := range h.Architectures {
		if !slices.Contains(known, class) {
			return fmt.Errorf("architectures %s (it is %s)", units.List(known, "or"), quote(class))
		}
	}
	if len(h.Quantization) > 0 && string(h.Quantization) != "null" {
		var by struct {
			Method string `json:"quant_method"`
		}
		_ = json.Unmarshal(h.Quantization, &by) // without a method, the error names none
		return fail.Hint(fmt.Errorf("no quantization_config (its quant_method is %s)", quote(by.Method)), "the model's repository with unquantized weights")
	}
	settings := supported[h.ModelType]
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if value, found := config[key]; found && !slices.Contains(settings[key], string(value)) {
			return fmt.Errorf("%s %s (it is %.40s)", key, units.List(settings[key], "or"), value)
		}
	}
	return nil
}

// rotation is the object that describes rotary positions, nil if absent or null.
type rotation map[string]json.RawMessage

// Keys of a rotation, without and with Llama 3's scaling.
var (
	plainKeys  = []string{"rope_type", "type", "rope_theta", "partial_rotary_factor"}
	llama3Keys = append([]string{"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}, plainKeys...)
)

// supported reports whether the engine implements the rotation: none, plain, or Llama 3's.
func (r rotation) supported() bool {
	if r == nil {
		return true
	}
	kind, found := r["rope_type"]
	if !found {
		kind = r["type"]
	}
	keys := plainKeys
	switch string(kind) {
	case "", `"default"`:
	case `"llama3"`:
		keys = llama3Keys
		length, err := strconv.Atoi(string(r["original_max_position_embeddings"]))
		if low, high := r.number("low_freq_factor"), r.number("high_freq_factor"); err != nil || length < 1 || r.number("factor") <= 0 || low <= 0 || high <= low {
			return false
		}
	default:
		return false
	}
	for key := range r {
		if !slices.Contains(keys, key) {
			return false
		}
	}
	_, partial := r["partial_rotary_factor"]
	theta := string(r["rope_theta"])
	return (!partial || r.number("partial_rotary_factor") == 1) && (theta == "" || theta == "null" || r.number("rope_theta") > 0)
}

// number returns the value of a key, 0 if it is not a number.
func (r rotation) number(key string) float64 {
	var value float64
	if json.Unmarshal(r[key], &value) != nil {
		return 0
	}
	return value
}

// ParseModel makes a Model of a Hugging Face folder. name is the model's name, folder its path, config the text of
// its config.json. Only Architectures are supported: anything else is an *Error in a fail.HintError. Tokenizer is the
// fallback for a folder without a tokenizer.json: bytes, GPT-2's, or none ("huggingface"). The defaults are those of
// the preset of the same shape, as of a saved node, else those of a preset of the same kind.
func ParseModel(name, folder string, config []byte) (Model, error) {
	shape, err := ParseShape(config)
	if err != nil {
		refusal := &Error{Key: "model", Value: folder, Allowed: err.Error(), Source: "config.json"}
		return Model{}, fail.Hint(refusal, cmp.Or(fail.Remedy(err), "swarm model list"))
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
	for _, known := range Models() {
		if m, err := LoadModel(known); err == nil && m.Shape == shape {
			preset = known
		}
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

// ParseShape reads a model's shape from the text of its config.json. The error states the allowed values, and may have
// a remedy (fail.Remedy).
func ParseShape(config []byte) (Shape, error) {
	var h huggingFace
	var all map[string]json.RawMessage
	if json.Unmarshal(config, &h) != nil || json.Unmarshal(config, &all) != nil {
		return Shape{}, fmt.Errorf("a folder with the config.json of a Hugging Face model")
	}
	if err := h.checkSupported(all); err != nil {
		return Shape{}, err
	}
	if h.ModelType == GPT2 {
		return h.gpt2()
	}
	return h.rotary()
}

func (h huggingFace) gpt2() (Shape, error) {
	s := Shape{Layers: h.NLayer, Heads: h.NHead, Width: h.NEmbd, Context: cmp.Or(h.NPositions, h.NCtx), Vocabulary: h.VocabSize}
	if h.NInner != nil {
		s.Inner = *h.NInner
	}
	if err := s.checkSizes("n_layer", "n_head", "n_embd", "n_positions", "vocab_size"); err != nil {
		return Shape{}, err
	}
	switch {
	case h.NInner != nil && s.Inner < 1 || s.Inner > 16*mostWidth:
		return Shape{}, fmt.Errorf("n_inner from 1 to %d", 16*mostWidth)
	case !fraction(h.LayerNormEpsilon):
		return Shape{}, fmt.Errorf("layer_norm_epsilon between 0 and 1")
	case !h.endsWithin():
		return Shape{}, fmt.Errorf("eos_token_id below vocab_size")
	case s.Width%s.Heads != 0:
		return Shape{}, fmt.Errorf("n_embd a multiple of n_head")
	}
	s.Parameters = s.parameters()
	return s, nil
}

func (h huggingFace) rotary() (Shape, error) {
	s := Shape{
		Architecture: h.ModelType, Layers: h.NumHiddenLayers, Heads: h.NumAttentionHeads, KVHeads: h.NumAttentionHeads, Width: h.HiddenSize,
		Inner: h.IntermediateSize, Context: h.MaxPositionEmbeddings, Vocabulary: h.VocabSize, Untied: !h.TieWordEmbeddings,
	}
	switch {
	case h.HeadDim != nil:
		s.HeadSize = *h.HeadDim
	case h.ModelType == Qwen3:
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
	case h.HeadDim == nil && s.HeadSize == 0 && s.Width%s.Heads != 0:
		return Shape{}, fmt.Errorf("hidden_size a multiple of num_attention_heads")
	case h.HeadDim != nil && s.HeadSize < 1 || s.HeadWidth() < 2 || s.HeadWidth() > mostWidth || s.HeadWidth()%2 != 0:
		return Shape{}, fmt.Errorf("head_dim an even number from 2 to %d", mostWidth)
	case h.LayerTypes != nil && !slices.Equal(h.LayerTypes, slices.Repeat([]string{"full_attention"}, s.Layers)):
		return Shape{}, fmt.Errorf("layer_types full_attention for each of the layers")
	case !h.RopeScaling.supported() || !h.RopeParameters.supported() || h.RopeTheta != nil && *h.RopeTheta <= 0:
		return Shape{}, fmt.Errorf("rotary positions of the whole head, of rope_type default, or llama3 with its factors")
	case !fraction(h.RMSNormEps) || !fraction(h.InitializerRange):
		return Shape{}, fmt.Errorf("rms_norm_eps and initializer_range between 0 and 1")
	case !h.endsWithin():
		return Shape{}, fmt.Errorf("eos_token_id below vocab_size")
	}
	s.HeadSize = s.HeadWidth()
	s.Parameters = s.parameters()
	return s, nil
}

// fraction reports whether a number is absent or between 0 and 1.
func fraction(value *float64) bool { return value == nil || 0 < *value && *value < 1 }

// endsWithin reports whether the first end token, if there is one, is in the vocabulary.
func (h huggingFace) endsWithin() bool {
	var ids []int
	if json.Unmarshal(h.EOS, &ids) != nil {
		ids = []int{-1}
		if json.Unmarshal(h.EOS, &ids[0]) != nil {
			return len(h.EOS) == 0
		}
	}
	return len(ids) == 0 || 0 <= ids[0] && ids[0] < h.VocabSize
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
