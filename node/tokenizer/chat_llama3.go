package tokenizer

import (
	"strings"
	"unicode"
)

// Special tokens of Llama 3's chat template (https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/).
const (
	beginOfText = "<|begin_of_text|>"
	startHeader = "<|start_header_id|>"
	endHeader   = "<|end_header_id|>"
	endOfTurn   = "<|eot_id|>"
)

// llama3Dates is the text that Llama 3.1's and 3.2's templates put before the system prompt. The date is the template's
// default if the program passes none. So equal prompts have equal tokens on every day.
const llama3Dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

// llama3Chat is the tokenizer of a model that marks turns with headers and ends them with <|eot_id|>.
type llama3Chat struct {
	*bpe
	begin, start, end, turn int
	dates                   bool // the template includes llama3Dates, with or without a system prompt
}

var _ Chat = (*llama3Chat)(nil)

// llama3 detects Llama 3's template: the model has its special tokens, and <|eot_id|> is one of its end tokens. Then
// <|eot_id|> is its EOS, whatever end token the file lists first.
func (f file) llama3(t *bpe, about modelFiles) (Chat, bool) {
	c := &llama3Chat{begin: -1, start: -1, end: -1, turn: -1, dates: strings.Contains(about.template, "Cutting Knowledge Date")}
	for _, token := range f.AddedTokens {
		if !token.Special {
			continue
		}
		switch token.Content {
		case beginOfText:
			c.begin = token.ID
		case startHeader:
			c.start = token.ID
		case endHeader:
			c.end = token.ID
		case endOfTurn:
			c.turn = token.ID
		}
	}
	own, ends := t.endingWith(c.turn)
	if about.modelType != "llama" || min(c.begin, c.start, c.end, c.turn) < 0 || !ends || !strings.Contains(about.template, startHeader) {
		return nil, false
	}
	c.bpe = own
	return c, true
}

// LosesDefault returns false: the dates are the whole default.
func (c *llama3Chat) LosesDefault() bool { return false }

func (c *llama3Chat) Prompt(system string, turns ...string) []int {
	ids := []int{c.begin}
	switch {
	case c.dates:
		ids = c.appendTurn(ids, "system", llama3Dates+trim(system))
	case system != "":
		ids = c.appendTurn(ids, "system", trim(system))
	}
	for i, text := range turns {
		ids = c.appendTurn(ids, roles[i%2], trim(text))
	}
	return c.appendHeader(ids, "assistant", "")
}

// trim removes white space at both ends like Jinja's trim, which is Python's str.strip. For Python, the four separators
// from U+001C are white space too.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f })
}

func (c *llama3Chat) appendTurn(ids []int, role, text string) []int {
	return append(c.appendHeader(ids, role, text), c.turn)
}

// appendHeader appends a turn's header and text. Like the library, it encodes the text between two special tokens as
// one text.
func (c *llama3Chat) appendHeader(ids []int, role, text string) []int {
	ids = append(c.appendText(append(ids, c.start), role), c.end)
	return c.appendText(ids, "\n\n"+text)
}
