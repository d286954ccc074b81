package tokenizer

import (
	"regexp"
	"slices"
	"strings"
)

// Chat is a tokenizer of a model that was trained on conversations.
type Chat interface {
	Tokenizer
	// Prompt returns the ids of a conversation with the system prompt and turns, in which user and assistant alternate
	// and the user has the first and the last, up to the start of the assistant's answer. If system is empty, Prompt
	// uses the template's default. Text in system and turns never becomes a special token.
	Prompt(system string, turns ...string) []int
	// LosesDefault reports whether the template has a default system prompt that Prompt does not know. Prompt then
	// omits it.
	LosesDefault() bool
}

// Special tokens with which ChatML marks turns (https://huggingface.co/docs/transformers, "Chat templates"). Qwen and
// SmolLM2 use ChatML.
const (
	turnStart = "<|im_start|>"
	turnEnd   = "<|im_end|>"
)

// Qwen3 puts its reasoning between these tokens. noThinking is the string with which its template begins an answer
// without reasoning (enable_thinking=False). Prompts end with it, because reasoning takes more tokens than completions
// have.
const (
	thinkStart = "<think>"
	thinkEnd   = "</think>"
	noThinking = thinkStart + `\n\n` + thinkEnd + `\n\n`
)

// defaultSystems are the templates' default system prompts: Qwen2.5's, Qwen2's and SmolLM2's. Qwen3's template has
// none.
var defaultSystems = []string{
	"You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
	"You are a helpful assistant.",
	"You are a helpful AI assistant named SmolLM, trained by Hugging Face",
}

// knownSystem finds one of defaultSystems in a template, as a whole string. otherSystem finds a system prompt in a
// string of the template, or in a variable.
var (
	knownSystem = func() *regexp.Regexp {
		texts := make([]string, len(defaultSystems))
		for i, text := range defaultSystems {
			texts[i] = regexp.QuoteMeta(text)
		}
		return regexp.MustCompile(`(?:\\n|[\n'"])(` + strings.Join(texts, "|") + `)(?:['"]|<\|im_end\|>)`)
	}()
	otherSystem = regexp.MustCompile(`<\|im_start\|>system(?:\\n|\n)[^{<'"](?:[^<'"]|\\['"])*<\|im_end\|>|\bset \w*system\w* *= *(?:'[^']|"[^"])`)
)

// chatML is the tokenizer of a model that ends its turns with <|im_end|>.
type chatML struct {
	*bpe
	start, end int
	think      []int  // the tokens around reasoning, nil if the template does not offer answers without it
	system     string // the template's default
	loses      bool   // the template has another default
}

var _ Chat = (*chatML)(nil)

// chatModels lists the architectures that use ChatML for their instruct models.
var chatModels = []string{"llama", "qwen2", "qwen3"}

// chatML detects a ChatML model: <|im_end|> is one of its end tokens. Then <|im_end|> is its EOS, whatever end token
// the file lists first. A base model has the same tokens and template, but ends only with <|endoftext|> and gets plain
// text. Templates are Jinja programs. chatML only searches their text and never runs them.
func (f file) chatML(t *bpe, about modelFiles) (Chat, bool) {
	c := &chatML{start: -1, end: -1}
	think := map[string]int{}
	for _, token := range f.AddedTokens {
		switch {
		case token.Content == turnStart && token.Special:
			c.start = token.ID
		case token.Content == turnEnd && token.Special:
			c.end = token.ID
		case token.Content == thinkStart || token.Content == thinkEnd:
			think[token.Content] = token.ID
		}
	}
	if len(think) == 2 && strings.Contains(about.template, noThinking) {
		c.think = []int{think[thinkStart], think[thinkEnd]}
	}
	own, ends := t.endingWith(c.end)
	if !slices.Contains(chatModels, about.modelType) || c.start < 0 || c.end < 0 || !ends {
		return nil, false
	}
	c.bpe = own
	if found := knownSystem.FindStringSubmatch(about.template); found != nil {
		c.system = found[1]
	}
	c.loses = c.system == "" && otherSystem.MatchString(about.template)
	return c, true
}

func (c *chatML) LosesDefault() bool { return c.loses }

// roles are the names of the sides whose turns alternate.
var roles = []string{"user", "assistant"}

func (c *chatML) Prompt(system string, turns ...string) []int {
	if system == "" {
		system = c.system
	}
	var ids []int
	if system != "" {
		ids = c.appendTurn(ids, "system", system)
	}
	for i, text := range turns {
		ids = c.appendTurn(ids, roles[i%2], text)
	}
	ids = c.appendText(append(ids, c.start), "assistant\n")
	for _, id := range c.think {
		ids = c.appendText(append(ids, id), "\n\n")
	}
	return ids
}

// appendTurn appends a complete turn. Like the library, it encodes the text between two special tokens as one text.
func (c *chatML) appendTurn(ids []int, role, text string) []int {
	ids = c.appendText(append(ids, c.start), role+"\n"+text)
	return c.appendText(append(ids, c.end), "\n")
}
