package tokenizer

import (
	"slices"
	"strings"
)

// Chat is a tokenizer of a model that was taught to talk in turns.
type Chat interface {
	Tokenizer
	// Prompt returns the ids of a conversation that begins with the system prompt (the template's own default where it
	// is empty) and the user's question, and is open for the assistant's answer. Nothing in system or question becomes
	// a special token.
	Prompt(system, question string) []int
}

// Special tokens of ChatML (https://huggingface.co/docs/transformers, "Chat templates"), Qwen's and SmolLM2's way to
// mark turns.
const (
	turnStart = "<|im_start|>"
	turnEnd   = "<|im_end|>"
)

// defaultSystems are what templates say if there is no system prompt: Qwen2.5's, Qwen2's, SmolLM2's. Qwen3's says
// nothing.
var defaultSystems = []string{
	"You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
	"You are a helpful assistant.",
	"You are a helpful AI assistant named SmolLM, trained by Hugging Face",
}

// chatML is a tokenizer whose model ends its turns with <|im_end|>.
type chatML struct {
	*bpe
	start, end int
	system     string // the template's default
}

var _ Chat = (*chatML)(nil)

// chatModels are the architectures whose instruct models use ChatML.
var chatModels = []string{"llama", "qwen2", "qwen3"}

// chatML recognizes ChatML: a model whose answers end with the turn's end token. A base model has the same tokens and
// template, but ends with <|endoftext|>; it gets plain text. Templates are programs (Jinja): they are recognized, never
// run.
func (f file) chatML(t *bpe, about modelFiles) (Chat, bool) {
	c := &chatML{bpe: t, start: -1, end: -1}
	for _, token := range f.AddedTokens {
		switch {
		case token.Content == turnStart && token.Special:
			c.start = token.ID
		case token.Content == turnEnd && token.Special:
			c.end = token.ID
		}
	}
	if !slices.Contains(chatModels, about.modelType) || c.start < 0 || c.end < 0 || c.end != t.eos {
		return nil, false
	}
	for _, system := range defaultSystems {
		if strings.Contains(about.template, system) {
			c.system = system
			break
		}
	}
	return c, true
}

func (c *chatML) Prompt(system, question string) []int {
	if system == "" {
		system = c.system
	}
	ids := make([]int, 0, (len(system)+len(question))/3+16)
	if system != "" {
		ids = c.appendTurn(ids, "system", system)
	}
	ids = c.appendTurn(ids, "user", question)
	return c.appendText(append(ids, c.start), "assistant\n")
}

// appendTurn appends a whole turn. What stands between two special tokens is encoded as one text, as the library does.
func (c *chatML) appendTurn(ids []int, role, text string) []int {
	ids = c.appendText(append(ids, c.start), role+"\n"+text)
	return c.appendText(append(ids, c.end), "\n")
}
