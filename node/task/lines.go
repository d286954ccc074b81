package task

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
)

// MaxLine bounds an input line, in bytes.
const MaxLine = 16 << 20

// ScoreLines reads JSON lines, each an item with a completion or an entry with an answer, and writes a line
// {"score"} for each.
func ScoreLines(t Task, in io.Reader, out, stderr io.Writer) error {
	type output struct {
		Score float64 `json:"score"`
	}
	return eachLine(in, out, stderr, "score", `{"question": …, "answer": …, "metadata": …, "completion": TEXT}`, func(line scoredLine) (output, error) {
		item, answer, err := line.read()
		if err != nil {
			return output{}, err
		}
		return output{t.Score(item, answer)}, nil
	})
}

// ExtractLines reads lines {"completion"} and writes a line {"answer"} for each.
func ExtractLines(in io.Reader, out, stderr io.Writer) error {
	type input struct {
		Completion *string `json:"completion"`
	}
	type output struct {
		Answer *string `json:"answer"`
	}
	return eachLine(in, out, stderr, "extract", `{"completion": TEXT}`, func(line input) (output, error) {
		if line.Completion == nil {
			return output{}, errors.New("it has no completion")
		}
		return output{ExtractAnswer(*line.Completion)}, nil
	})
}

// scoredLine is an input line of swarm task score: an item as swarm task sample prints it with the text of a
// completion, or an entry with an answer, in reasoning-gym's names.
type scoredLine struct {
	Item               // used with Completion
	Entry      *Item   `json:"entry"` // used with the outer answer, or with Completion
	Completion *string `json:"completion"`
}

// read returns the item and the answer to score. The answer is nil if the completion has none. read refuses an item
// without a completion, because the item's own right answer would always get full marks.
func (l *scoredLine) read() (Item, *string, error) {
	item, answer := l.Item, l.Answer
	if l.Entry != nil {
		item = *l.Entry
	}
	switch {
	case l.Completion != nil:
		answer = ExtractAnswer(*l.Completion)
	case l.Entry == nil && l.Question == "" && len(l.Metadata) == 0:
		return item, nil, errors.New("it has no entry and no question")
	case l.Entry == nil:
		return item, nil, fail.Usage(errors.New("it has no completion, only the item's own correct answer"), `add a "completion" with the whole text of a model, including <answer>, to each line of swarm task sample -o json`)
	}
	return item, answer, nil
}

// eachLine writes one line to stdout for each JSON line of stdin. At an invalid line it returns an error with exit
// code 2, after the answers to the lines before it. On a terminal it first prints a description of the input lines.
func eachLine[In, Out any](stdin io.Reader, stdout, stderr io.Writer, command, lines string, answer func(In) (Out, error)) error {
	help := "swarm task " + command + " --help"
	if screen.IsTerminal(stdin) {
		fmt.Fprintf(stderr, "Reading lines of JSON from the terminal until Ctrl-D: %s\n", lines)
	}
	w := bufio.NewWriter(stdout)
	defer w.Flush()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	r := bufio.NewReaderSize(stdin, 64<<10)
	for number := 1; ; number++ {
		line, err := readBoundedLine(r)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fail.Usage(fmt.Errorf("line %d: %w", number, err), help)
		}
		if strings.TrimSpace(string(line)) == "" {
			continue
		}
		var in In
		if err := json.Unmarshal(line, &in); err != nil {
			return fail.Usage(fmt.Errorf("line %d is not the expected JSON: %w", number, err), help)
		}
		out, err := answer(in)
		if err != nil {
			try := help
			var usage *fail.UsageError
			if errors.As(err, &usage) {
				try = usage.Try
			}
			return fail.Usage(fmt.Errorf("line %d: %w", number, err), try)
		}
		if err := enc.Encode(out); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		// A caller that pipes line by line waits for this answer.
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
	}
}

func readBoundedLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			return nil, fmt.Errorf("longer than %d bytes", MaxLine)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Sample writes items 0 to n-1 of a task's dataset with that seed: one JSON object a line, or text for people.
func Sample(out io.Writer, t Task, seed, n int64, asJSON bool) error {
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range n {
		item := t.Item(seed, i)
		if asJSON {
			if err := enc.Encode(item); err != nil {
				return fmt.Errorf("write item %d: %w", i, err)
			}
			continue
		}
		answer := "null"
		if item.Answer != nil {
			answer = *item.Answer
		}
		text := fmt.Sprintf("── item %d\n%s\n── answer\n%s\n── metadata\n%s\n\n", i, item.Question, answer, item.Metadata)
		if _, err := w.WriteString(charset.Fit(text, os.Environ())); err != nil {
			return fmt.Errorf("write item %d: %w", i, err)
		}
	}
	return w.Flush()
}
