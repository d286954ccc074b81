package evaluate

import (
	"bufio"
	"fmt"
	"io"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/units"
)

// Print shows a question and its completions. It indents text from a model or a user, so that no line of it looks
// like the program's own output.
func (p *Answers) Print(out io.Writer) error {
	w := bufio.NewWriter(out)
	if p.Node != "" {
		fmt.Fprintf(w, "run       %s, %s after %s", p.Run, p.Node, units.Plural(p.Round, "round"))
		if p.Because != "" {
			fmt.Fprintf(w, " (%s)", p.Because)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "model     %s on %s, temperature %g, seed %d, system prompt %s\n", charset.Line(p.Model), p.Device, p.Temperature, p.Seed, p.SystemPrompt)
	if p.drawn != "" {
		fmt.Fprintf(w, "task      %s\n", charset.Line(p.drawn))
	}
	fmt.Fprintln(w, "question")
	indent(w, p.Question)
	if p.drawn != "" {
		answer := "no fixed answer: the task checks each answer"
		if p.CorrectAnswer != nil {
			answer = charset.Line(*p.CorrectAnswer)
		}
		fmt.Fprintf(w, "correct   %s\n", answer)
	}
	for i, c := range p.Completions {
		fmt.Fprintf(w, "\ncompletion %d of %d: ", i+1, len(p.Completions))
		if c.Score != nil {
			fmt.Fprintf(w, "score %.3g, ", *c.Score)
		}
		if c.Answer != nil {
			fmt.Fprintf(w, "answer %s, ", charset.Line(*c.Answer))
		} else {
			fmt.Fprint(w, "no answer tags, ")
		}
		fmt.Fprint(w, units.Plural(c.Tokens, "token"))
		if !c.Finished {
			fmt.Fprintf(w, ", cut at %d", p.limit)
		}
		fmt.Fprintln(w)
		indent(w, c.Text)
	}
	if p.MeanScore != nil {
		fmt.Fprintf(w, "\nmean score %.3f of %s\n", *p.MeanScore, units.Plural(len(p.Completions), "completion"))
	}
	return w.Flush()
}

func indent(w io.Writer, text string) {
	for _, line := range charset.Lines(text) {
		fmt.Fprintf(w, "  %s\n", line)
	}
}
