package table

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/charset"
)

// Page collects a command's output, laid out for a screen, until Flush writes it. Adding to a page never fails.
type Page struct {
	Screen
	out   io.Writer
	done  bytes.Buffer // finished lines
	begun []byte       // the unfinished line
}

// NewPage returns an empty page for out.
func NewPage(out io.Writer, s Screen) *Page { return &Page{Screen: s, out: out} }

// Write adds text and wraps its lines to the width. It implements io.Writer and never fails.
func (p *Page) Write(text []byte) (int, error) {
	p.begun = append(p.begun, text...)
	for {
		line, rest, ended := bytes.Cut(p.begun, []byte{'\n'})
		if !ended {
			return len(text), nil
		}
		p.line(string(line))
		p.begun = rest
	}
}

// Printf formats and adds text as Write does.
func (p *Page) Printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// Println adds a line as Write does.
func (p *Page) Println(args ...any) { fmt.Fprintln(p, args...) }

// Table adds a table, after ending an unfinished line.
func (p *Page) Table(t *Table) {
	p.endLine()
	for _, line := range t.Lines(p.Screen) {
		p.done.WriteString(line + "\n")
	}
}

// Lines adds lines that are already laid out, such as a plot.
func (p *Page) Lines(lines []string) {
	p.endLine()
	for _, line := range lines {
		if p.ASCII {
			line = charset.Cells(line)
		}
		p.done.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// Command adds a shell command. It breaks a command that is too wide with backslashes, only at spaces outside
// quotes, so that users can copy it.
func (p *Page) Command(text string) {
	p.endLine()
	for _, line := range commandLines(text, p.Width) {
		p.done.WriteString(line + "\n")
	}
}

// Flush writes the collected output and empties the page.
func (p *Page) Flush() error {
	p.endLine()
	_, err := p.out.Write(p.done.Bytes())
	p.done.Reset()
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

func (p *Page) endLine() {
	if len(p.begun) > 0 {
		p.line(string(p.begun))
		p.begun = nil
	}
}

func (p *Page) line(text string) {
	if p.ASCII {
		text = charset.Text(text)
	}
	for _, line := range Wrap(text, p.Width) {
		p.done.WriteString(line + "\n")
	}
}

// commandLines breaks a command with backslashes to fit width.
func commandLines(text string, width int) []string {
	if width <= 0 || ansi.StringWidth(text) <= width {
		return []string{text}
	}
	const indent, onward = "    ", " \\"
	var lines []string
	lead := text[:leading(text)]
	line := lead
	for i, word := range shellWords(text[len(lead):]) {
		switch {
		case i == 0:
			line += word
		case ansi.StringWidth(line)+1+ansi.StringWidth(word)+len(onward) > width:
			lines, line = append(lines, line+onward), lead+indent+word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// shellWords splits a command at spaces outside quotes. It keeps the quotes.
func shellWords(text string) []string {
	var words []string
	var b strings.Builder
	quote, escaped := rune(0), false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case r == ' ':
			if b.Len() > 0 {
				words = append(words, b.String())
				b.Reset()
			}
			continue
		}
		b.WriteRune(r)
	}
	if b.Len() > 0 {
		words = append(words, b.String())
	}
	return words
}
