package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/node/task"
)

// maxTaskLine bounds one line of swarm task score and extract, in bytes.
const maxTaskLine = 16 << 20

type taskOptions struct {
	set, words, output string
	n, seed            int64
}

func newTaskCommand(g *globals) *cobra.Command {
	var o taskOptions
	cmd := &cobra.Command{
		Use:   "task",
		Short: "List, sample and score the reasoning tasks",
		Args:  usage.OnlySubcommands,
		RunE:  func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	list := &cobra.Command{
		Use: "list", Short: "List the tasks of a task set", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return runTaskList(g, o) },
	}
	addOutputFlag(list.Flags(), &o.output)
	sample := &cobra.Command{
		Use: "sample NAME", Short: "Print items 0..N-1 of reasoning-gym's dataset with a seed (the wording is ours)", Args: taskName,
		Long: "sample prints items 0..N-1 of reasoning-gym's dataset of that name and seed: answer and metadata are the library's\n" +
			"own, byte for byte; the question's wording is ours. With -o json, one object a line. For bf to draw the library's words,\n" +
			"give its list with --words.",
		RunE: func(cmd *cobra.Command, args []string) error { return runTaskSample(g, o, args[0]) },
	}
	addLinesFlag(sample.Flags(), &o.output, "one item")
	sample.Flags().Int64VarP(&o.n, "n", "n", 3, "how many items")
	sample.Flags().Int64Var(&o.seed, "seed", 42, "the dataset's seed")
	score := &cobra.Command{
		Use: "score NAME", Short: "Score completions or answers: reads lines of JSON, writes lines {score}", Args: taskName,
		Long: "score reads lines of JSON and writes a line {\"score\": X} for each. A line is an item as swarm task sample -o json prints it, with\n" +
			"a \"completion\": what a model wrote, from which the answer is extracted as in training. Or it is {\"entry\": ITEM, \"answer\": TEXT or\n" +
			"null}, with the answer itself. An item alone is refused: its \"answer\" is the right one.",
		Example: `  swarm task sample basic_arithmetic -n 2 -o json | sed 's/}$/,"completion":"<answer>4<\/answer>"}/' | swarm task score basic_arithmetic`,
		RunE:    func(cmd *cobra.Command, args []string) error { return runTaskScore(g, o, args[0]) },
	}
	extract := &cobra.Command{
		Use: "extract", Short: "Extract answers: reads lines {completion}, writes lines {answer}", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return runTaskExtract(g) },
	}
	for _, c := range []*cobra.Command{list, sample, score} {
		c.Flags().StringVar(&o.set, "set", "paper", "task set whose parameters to use")
	}
	for _, c := range []*cobra.Command{sample, score} {
		c.Flags().StringVar(&o.words, "words", "", "file with bf's words, one a line")
	}
	cmd.AddCommand(list, sample, score, extract)
	return cmd
}

func taskName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fail.Usage(fmt.Errorf("%s takes one task name, not %d", cmd.CommandPath(), len(args)), "swarm task list")
	}
	return nil
}

// open makes a task with the set's parameters.
func (o taskOptions) open(name string) (task.Task, error) {
	specs, err := configs.TaskSet(o.set)
	if err != nil {
		return nil, err
	}
	return task.Named(name, specs, o.words)
}

func runTaskList(g *globals, o taskOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	specs, err := configs.TaskSet(o.set)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return writeJSON(g.stdout, specs)
	}
	t := table.New(table.Column{Title: "TASK"}, table.Column{Title: "PARAMETERS", Wrap: true})
	for _, s := range specs {
		params, err := json.Marshal(s.Params)
		if err != nil {
			return err
		}
		t.Add(s.Name, string(params))
	}
	return screen.Print(g.stdout, func(p *table.Page) { p.Table(t) })
}

func runTaskSample(g *globals, o taskOptions, name string) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.n < 0 {
		return &configs.Error{Key: "n", Value: fmt.Sprint(o.n), Allowed: "a number of items, 0 or more"}
	}
	t, err := o.open(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(g.stdout)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range o.n {
		item := t.Item(o.seed, i)
		if o.output == "json" {
			if err := enc.Encode(item); err != nil {
				return fmt.Errorf("write item %d: %w", i, err)
			}
			continue
		}
		answer := "null"
		if item.Answer != nil {
			answer = *item.Answer
		}
		fmt.Fprintf(w, "── item %d\n%s\n── answer\n%s\n── metadata\n%s\n\n", i, item.Question, answer, item.Metadata)
	}
	return w.Flush()
}

func runTaskScore(g *globals, o taskOptions, name string) error {
	t, err := o.open(name)
	if err != nil {
		return err
	}
	type output struct {
		Score float64 `json:"score"`
	}
	return eachLine(g, "score", `{"question": …, "answer": …, "metadata": …, "completion": TEXT}`, func(in scoredLine) (output, error) {
		item, answer, err := in.read()
		if err != nil {
			return output{}, err
		}
		return output{t.Score(item, answer)}, nil
	})
}

// scoredLine is a line that swarm task score reads: an item as swarm task sample prints it with the text of a completion, or an
// entry with an answer, as reasoning-gym names them.
type scoredLine struct {
	task.Item             // with Completion
	Entry      *task.Item `json:"entry"` // with the outer answer, or with Completion
	Completion *string    `json:"completion"`
}

// read is the item and the answer to score; nil: the completion has none. The right answer of an item alone is never scored: it
// would get full marks whatever a model had said.
func (l *scoredLine) read() (task.Item, *string, error) {
	item, answer := l.Item, l.Answer
	if l.Entry != nil {
		item = *l.Entry
	}
	switch {
	case l.Completion != nil:
		answer = task.ExtractAnswer(*l.Completion)
	case l.Entry == nil && l.Question == "" && len(l.Metadata) == 0:
		return item, nil, errors.New("it has no entry and no question")
	case l.Entry == nil:
		return item, nil, fail.Usage(errors.New("it has no completion: only the item's own right answer"), `a "completion" with what a model wrote, <answer> and all, in each line of swarm task sample -o json`)
	}
	return item, answer, nil
}

func runTaskExtract(g *globals) error {
	type input struct {
		Completion *string `json:"completion"`
	}
	type output struct {
		Answer *string `json:"answer"`
	}
	return eachLine(g, "extract", `{"completion": TEXT}`, func(in input) (output, error) {
		if in.Completion == nil {
			return output{}, errors.New("it has no completion")
		}
		return output{task.ExtractAnswer(*in.Completion)}, nil
	})
}

// eachLine answers each JSON line of stdin with one on stdout. A line that can't be read ends it with exit code 2, after the
// answers to the lines before it. On a terminal it says first which lines it reads.
func eachLine[In, Out any](g *globals, command, lines string, answer func(In) (Out, error)) error {
	help := "swarm task " + command + " --help"
	if screen.IsTerminal(g.stdin) {
		fmt.Fprintf(g.stderr, "Reading lines of JSON from the terminal, to Ctrl-D: %s\n", lines)
	}
	w := bufio.NewWriter(g.stdout)
	defer w.Flush()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	r := bufio.NewReaderSize(g.stdin, 64<<10)
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
			return fail.Usage(fmt.Errorf("line %d is not the JSON it should be: %w", number, err), help)
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
		// Whoever pipes line by line waits for this answer.
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
		if len(line)+len(part) > maxTaskLine {
			return nil, fmt.Errorf("longer than %d bytes", maxTaskLine)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
