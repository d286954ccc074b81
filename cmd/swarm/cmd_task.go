package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/node/task"
)

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
		Use: "sample NAME", Short: "Print items of a task's dataset with a seed", Args: taskName,
		Long: "sample prints items 0..N-1 of reasoning-gym's dataset of that name and seed. Answer and metadata are\n" +
			"the library's own, byte for byte. The question's wording is ours. With -o json it prints one object\n" +
			"a line. For the library's words in bf, give its list with --words.",
		RunE: func(cmd *cobra.Command, args []string) error { return runTaskSample(g, o, args[0]) },
	}
	addLinesFlag(sample.Flags(), &o.output, "one item")
	sample.Flags().Int64VarP(&o.n, "n", "n", 3, "how many items")
	sample.Flags().Int64Var(&o.seed, "seed", 42, "the dataset's seed")
	score := &cobra.Command{
		Use: "score NAME", Short: "Score completions or answers from lines of JSON", Args: taskName,
		Long: "score reads lines of JSON and writes a line {\"score\": X} for each. A line is an item as `swarm task\n" +
			"sample -o json` prints it, with a \"completion\": a model's text, from which the answer is extracted\n" +
			"as in training. Or it is {\"entry\": ITEM, \"answer\": TEXT or null}, with the answer itself. An item\n" +
			"alone is refused, because its \"answer\" is the right one.",
		Example: `  swarm task sample basic_arithmetic -n 2 -o json | sed 's/}$/,"completion":"<answer>4<\/answer>"}/' | swarm task score basic_arithmetic`,
		RunE:    func(cmd *cobra.Command, args []string) error { return runTaskScore(g, o, args[0]) },
	}
	extract := &cobra.Command{
		Use: "extract", Short: "Extract answers from lines of completions", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return task.ExtractLines(g.stdin, g.stdout, g.stderr) },
	}
	for _, c := range []*cobra.Command{list, sample, score} {
		c.Flags().StringVar(&o.set, "set", "paper", "task set whose parameters to use")
	}
	for _, c := range []*cobra.Command{sample, score} {
		c.Flags().StringVar(&o.words, "words", "", "file with the words for task bf, one per line")
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

// open returns a task with the set's parameters.
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
	return task.Sample(g.stdout, t, o.seed, o.n, o.output == "json")
}

func runTaskScore(g *globals, o taskOptions, name string) error {
	t, err := o.open(name)
	if err != nil {
		return err
	}
	return task.ScoreLines(t, g.stdin, g.stdout, g.stderr)
}
