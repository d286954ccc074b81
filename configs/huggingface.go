package configs

import (
	"encoding/json"
	"fmt"
)

// huggingFace is what is read of a model folder's config.json, by GPT-2's names.
type huggingFace struct {
	ModelType string `json:"model_type"`
	VocabSize int    `json:"vocab_size"`

	NLayer     int `json:"n_layer"`
	NHead      int `json:"n_head"`
	NEmbd      int `json:"n_embd"`
	NInner     int `json:"n_inner"`
	NPositions int `json:"n_positions"`
}

// Tokenizers' vocabularies: the 256 bytes and an end token; GPT-2's 50257, which weights may pad to a multiple of 64 or 128.
const (
	bytesVocabulary      = 257
	gpt2Vocabulary       = 50257
	gpt2PaddedVocabulary = 50304
)

// ParseModel makes a Model of a Hugging Face folder: name is what the model is called, folder where it is, config the text of its
// config.json. GPT-2 architectures are known, with a tokenizer of bytes or GPT-2's. Anything else is an *Error.
func ParseModel(name, folder string, config []byte) (Model, error) {
	wrong := func(allowed string) (Model, error) {
		return Model{}, &Error{Key: "model", Value: folder, Allowed: allowed, Source: "config.json"}
	}
	var h huggingFace
	if err := json.Unmarshal(config, &h); err != nil {
		return wrong("a folder whose config.json is JSON of a Hugging Face model")
	}
	if h.ModelType != "gpt2" {
		return wrong(fmt.Sprintf("model_type gpt2 (it is %s)", quote(h.ModelType)))
	}
	const most = 1 << 16 // keeps the parameter count far from overflow
	for _, size := range []int{h.NLayer, h.NHead, h.NEmbd, h.NPositions, h.VocabSize} {
		if size < 1 || size > most {
			return wrong(fmt.Sprintf("n_layer, n_head, n_embd, n_positions and vocab_size from 1 to %d", most))
		}
	}
	if h.NInner < 0 || h.NInner > 16*most {
		return wrong(fmt.Sprintf("n_inner at most %d", 16*most))
	}
	if h.NEmbd%h.NHead != 0 {
		return wrong("n_embd a multiple of n_head")
	}
	preset := "gpt2"
	switch {
	case h.VocabSize == bytesVocabulary:
		preset = "nano"
	case h.VocabSize < gpt2Vocabulary || h.VocabSize > gpt2PaddedVocabulary:
		return wrong(fmt.Sprintf("vocab_size %d (bytes) or %d (GPT-2's tokenizer); it is %d", bytesVocabulary, gpt2Vocabulary, h.VocabSize))
	}
	like, err := LoadModel(preset)
	if err != nil {
		return Model{}, err
	}
	m := Model{Name: name, Weights: folder, Tokenizer: like.Tokenizer, Defaults: like.Defaults}
	m.Shape = Shape{Layers: h.NLayer, Heads: h.NHead, Width: h.NEmbd, Context: h.NPositions, Vocabulary: h.VocabSize}
	m.Shape.Parameters = m.Shape.parameters(h.NInner)
	// A smaller context is shared out as the preset does: three quarters prompt, one quarter completion.
	prompt, _ := m.Defaults["max_prompt_length"].(int)
	completion, _ := m.Defaults["max_completion_length"].(int)
	if prompt+completion > h.NPositions && h.NPositions >= 4 {
		m.Defaults["max_completion_length"] = h.NPositions / 4
		m.Defaults["max_prompt_length"] = h.NPositions - h.NPositions/4
	}
	return m, nil
}

// parameters counts GPT-2's weights with the output head tied to the token embedding; inner is the width of the feed-forward layer, 0
// for four times the width.
func (s Shape) parameters(inner int) int64 {
	w, f := int64(s.Width), int64(inner)
	if f <= 0 {
		f = 4 * w
	}
	attention := 4*w*w + 4*w
	feedForward := 2*w*f + f + w
	norms := 4 * w
	return int64(s.Vocabulary)*w + int64(s.Context)*w + int64(s.Layers)*(attention+feedForward+norms) + 2*w
}
