package configs

// Architectures that the engine supports, by the model_type of their config.json.
const (
	GPT2  = "gpt2"
	Llama = "llama" // also SmolLM2
	Qwen2 = "qwen2" // with biases on queries, keys and values
	Qwen3 = "qwen3" // with normalization of each head's queries and keys
)

// Architectures lists the supported architectures.
func Architectures() []string { return []string{GPT2, Llama, Qwen2, Qwen3} }

// Rotary tells whether the model is Llama-like (Llama, Qwen2, Qwen3): RMSNorm, grouped-query attention, rotary
// positions, and a feed-forward layer of three matrices.
func (s Shape) Rotary() bool { return s.Family() != GPT2 }

// Family returns the model's architecture, one of Architectures.
func (s Shape) Family() string {
	if s.Architecture == "" {
		return GPT2
	}
	return s.Architecture
}

// KeyValueHeads returns the number of key and value heads.
func (s Shape) KeyValueHeads() int {
	if s.KVHeads > 0 {
		return s.KVHeads
	}
	return s.Heads
}

// InnerWidth returns the width of the feed-forward layer. A rotary model has three matrices of that width (gate, up,
// down), GPT-2 two.
func (s Shape) InnerWidth() int {
	if s.Inner > 0 {
		return s.Inner
	}
	return 4 * s.Width
}

// HeadWidth returns the width of one attention head.
func (s Shape) HeadWidth() int {
	if s.HeadSize > 0 || s.Heads == 0 {
		return s.HeadSize
	}
	return s.Width / s.Heads
}

// Tied tells whether the output head is the token embedding.
func (s Shape) Tied() bool { return !s.Untied }

// parameters counts the weights of the shape, tied weights once.
func (s Shape) parameters() int64 {
	width, inner := int64(s.Width), int64(s.InnerWidth())
	total := int64(s.Vocabulary) * width
	if s.Untied {
		total *= 2
	}
	layers := int64(s.Layers)
	if s.Rotary() {
		queries, pairs := int64(s.Heads*s.HeadWidth()), int64(s.KeyValueHeads()*s.HeadWidth())
		attention := 2*queries*width + 2*pairs*width
		switch s.Family() {
		case Qwen2:
			attention += queries + 2*pairs // biases
		case Qwen3:
			attention += 2 * int64(s.HeadWidth()) // norms
		}
		return total + layers*(attention+3*width*inner+2*width) + width
	}
	attention := 4*width*width + 4*width
	feedForward := 2*width*inner + inner + width
	return total + int64(s.Context)*width + layers*(attention+feedForward+4*width) + 2*width
}
