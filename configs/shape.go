package configs

// Architectures that the engine knows, by the model_type of their config.json.
const (
	GPT2  = "gpt2"
	Qwen2 = "qwen2"
)

// Family is the model's architecture: GPT2 or Qwen2.
func (s Shape) Family() string {
	if s.Architecture == "" {
		return GPT2
	}
	return s.Architecture
}

// KeyValueHeads is the number of heads that keys and values have.
func (s Shape) KeyValueHeads() int {
	if s.KVHeads > 0 {
		return s.KVHeads
	}
	return s.Heads
}

// InnerWidth is the width of the feed-forward layer. Qwen2's has three matrices of it (gate, up, down), GPT-2's two.
func (s Shape) InnerWidth() int {
	if s.Inner > 0 {
		return s.Inner
	}
	return 4 * s.Width
}

// HeadWidth is the width of one attention head.
func (s Shape) HeadWidth() int {
	if s.HeadSize > 0 || s.Heads == 0 {
		return s.HeadSize
	}
	return s.Width / s.Heads
}

// Tied tells whether the output head is the token embedding.
func (s Shape) Tied() bool { return !s.Untied }

// parameters counts the weights of the shape, tied ones once.
func (s Shape) parameters() int64 {
	width, inner := int64(s.Width), int64(s.InnerWidth())
	total := int64(s.Vocabulary) * width
	if s.Untied {
		total *= 2
	}
	layers := int64(s.Layers)
	if s.Family() == Qwen2 {
		queries, pairs := int64(s.Heads*s.HeadWidth()), int64(s.KeyValueHeads()*s.HeadWidth())
		attention := queries*(width+1) + 2*pairs*(width+1) + queries*width // biases on queries, keys and values alone
		return total + layers*(attention+3*width*inner+2*width) + width
	}
	attention := 4*width*width + 4*width
	feedForward := 2*width*inner + inner + width
	return total + int64(s.Context)*width + layers*(attention+feedForward+4*width) + 2*width
}
