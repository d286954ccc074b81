package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/policy"
)

// maxQuestion bounds a question, in bytes.
const maxQuestion = 1 << 20

type promptOptions struct {
	node, task, device string
	output             *string
	round              int // -1: the newest
	completions        int
	seed, index        int64
	maxNew, topK       int
	temperature, topP  float64
	given              func(flag string) bool
}

func newModelPromptCommand(g *globals, output *string) *cobra.Command {
	o := promptOptions{output: output}
	cmd := &cobra.Command{
		Use:   "prompt NAME [QUESTION]",
		Short: "Ask a trained node or a model a question and score its answers",
		Long: "prompt samples completions of a question. NAME is a run or an experiment, of which the newest run counts, else a model: a folder,\n" +
			"a preset, or a name of the hub that is cached. Of a run the node with the best held-out reward answers, or --node, with its newest\n" +
			"checkpoint. The model gets the question as in training: the run's system prompt, and the chat template if its tokenizer has one.\n\n" +
			"Without a QUESTION the task draws it and scores the answers: --task NAME, --seed and --index name the question as swarm task sample\n" +
			"does, with the task's parameters of the run; without --task it is a held-out question of the run's tasks. QUESTION - reads stdin.\n" +
			"Nothing is recorded or downloaded. The same command gives the same completions. A run that goes on is left alone: if the GPU has\n" +
			"too little memory free, the CPU answers.",
		Example: "  swarm model prompt 4loc4ext\n  swarm model prompt 4loc4ext --task bf --seed 1 -n 8\n" +
			"  swarm model prompt ./trained \"What is 17 + 25?\" --temperature 0 -n 1\n  echo \"What is 17 + 25?\" | swarm model prompt nano - -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fail.Usage(fmt.Errorf("%s takes a run or a model, and at most one question, not %d arguments", cmd.CommandPath(), len(args)),
					cmd.CommandPath()+" --help")

			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = cmd.Flags().Changed
			return runModelPrompt(cmd.Context(), g, &o, args[0], args[1:])
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.completions, "completions", "n", 4, "completions to sample")
	f.StringVar(&o.task, "task", "", "draw a question of this `task` and score the answers")
	f.Int64Var(&o.seed, "seed", 42, "seed of the question that is drawn, and of the sampling")
	f.Int64Var(&o.index, "index", 0, "which question of that seed is drawn")
	f.StringVar(&o.node, "node", "", "`node` of the run that answers (default: that with the best held-out reward, else the best recent one)")
	f.IntVar(&o.round, "round", -1, "`rounds` that its checkpoint holds; 0 is the model before training (default: the newest)")
	f.IntVar(&o.maxNew, "max-completion-length", 0, "most `tokens` of a completion (default: as in training)")
	f.Float64Var(&o.temperature, "temperature", 0, "sampling temperature; 0 takes the likeliest token (default: as in training)")
	f.Float64Var(&o.topP, "top-p", 0, "sample from the likeliest tokens of this total probability (default: as in training)")
	f.IntVar(&o.topK, "top-k", 0, "sample from so many of the likeliest tokens; 0 is off (default: as in training)")
	f.StringVar(&o.device, "device", "", "auto, cpu, cuda or cuda:N (default: the run's, or the CPU if that has no room)")
	return cmd
}

// check refuses values that make no sense for any model.
func (o *promptOptions) check(question []string) error {
	whole := func(flag string, value, low, high int64) error {
		if !o.given(flag) || low <= value && value <= high {
			return nil
		}
		return &configs.Error{Key: flag, Value: strconv.FormatInt(value, 10), Allowed: fmt.Sprintf("a whole number from %d to %d", low, high)}
	}
	err := errors.Join(whole("completions", int64(o.completions), 1, 256), whole("seed", o.seed, 0, configs.MaxSeed),
		whole("index", o.index, 0, 1<<40), whole("round", int64(o.round), 0, 10_000_000),
		whole("max-completion-length", int64(o.maxNew), 1, 1<<20), whole("top-k", int64(o.topK), 0, 1_000_000))
	switch {
	case err != nil:
		return err
	case o.given("temperature") && !(o.temperature >= 0 && o.temperature <= 100):
		return &configs.Error{Key: "temperature", Value: fmt.Sprint(o.temperature), Allowed: "a number from 0 to 100"}
	case o.given("top-p") && !(o.topP > 0 && o.topP <= 1):
		return &configs.Error{Key: "top-p", Value: fmt.Sprint(o.topP), Allowed: "a number above 0, at most 1"}
	case len(question) > 0 && o.given("task"):
		return fail.Usage(errors.New("--task draws a question of its own and takes none"), "the same without the question, or without --task")
	case len(question) > 0 && o.given("index"):
		return fail.Usage(errors.New("--index is of a question that is drawn"), "the same without the question, or without --index")
	}
	return checkOutput(*o.output)
}

// apply puts the flags above what the model was trained with.
func (o *promptOptions) apply(c *configs.Config) {
	if o.given("max-completion-length") {
		c.MaxCompletionLength = o.maxNew
	}
	if o.given("temperature") {
		c.Temperature = o.temperature
	}
	if o.given("top-p") {
		c.TopP = o.topP
	}
	if o.given("top-k") {
		c.TopK = o.topK
	}
}

// prompted is what swarm model prompt prints.
type prompted struct {
	Run           string            `json:"run"` // empty: a model that no run has trained
	Model         string            `json:"model"`
	Node          string            `json:"node"` // empty: a model that no run has trained
	Choice        string            `json:"node_chosen_by"`
	Round         int               `json:"round"` // rounds that the weights hold
	Device        string            `json:"device"`
	Task          string            `json:"task"` // empty: a question of nobody's
	Index         int64             `json:"index"`
	Seed          int64             `json:"seed"`
	SystemPrompt  string            `json:"system_prompt"` // its name
	Question      string            `json:"question"`
	CorrectAnswer *string           `json:"correct_answer"`
	PromptTokens  int               `json:"prompt_tokens"`
	Temperature   float64           `json:"temperature"`
	Completions   []node.Completion `json:"completions"`
	MeanScore     *float64          `json:"mean_score"`

	why   string // of the node
	drawn string // which question it is
	limit int    // most tokens
}

func runModelPrompt(ctx context.Context, g *globals, o *promptOptions, name string, question []string) error {
	if err := o.check(question); err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	x, choice, err := o.find(ctx, g, name)
	if err != nil {
		return err
	}
	if err := x.openText(); err != nil {
		return err
	}
	q, err := o.question(g, x, question)
	if err != nil {
		return err
	}
	document, err := o.ask(ctx, g, x, q)
	if err != nil {
		return interrupt.Exit(ctx, outOfRoom(err))
	}
	if x.node != "" {
		document.Run, document.Node, document.Choice, document.why = x.run.Run, x.node, choice.By, chosenBecause(choice)
	}
	if *o.output == "json" {
		return writeJSON(g.stdout, document)
	}
	return printPrompted(g.stdout, document)
}

// ask plans for the question, opens the model and samples.
func (o *promptOptions) ask(ctx context.Context, g *globals, x *examinee, q asked) (*prompted, error) {
	prompt := node.Prompt(x.config, x.tokens, q.text)
	trained := x.config.MaxPromptLength
	o.apply(&x.config)
	c := &x.config
	room := x.model.Shape.Context - len(prompt)
	switch {
	case len(prompt) == 0:
		return nil, fail.Usage(errors.New("the question is empty"), "a question, or --task NAME")
	case room < 1:
		err := fmt.Errorf("the question has %d tokens, and the context of %s %d", len(prompt), x.model.Name, x.model.Shape.Context)
		return nil, fail.Usage(err, "a shorter question, or another --index")
	case room < c.MaxCompletionLength:
		fmt.Fprintf(g.stderr, "Warning: the context of %s has room for %d tokens after the question, not %d\n", x.model.Name, room, c.MaxCompletionLength)
		c.MaxCompletionLength = room
	}
	if len(prompt) > trained {
		fmt.Fprintf(g.stderr, "Warning: the question has %d tokens; training takes questions of at most %d (max_prompt_length)\n", len(prompt), trained)
	}
	// Memory is planned for this one call.
	c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations, c.MaxPromptLength = 1, 0, o.completions, len(prompt)
	err := x.place(ctx, g)
	if errors.Is(err, fit.ErrDoesNotFit) && !o.given("device") && c.Device != fit.DeviceCPU {
		fmt.Fprintf(g.stderr, "Warning: %s. The CPU answers.\n", err)
		c.Device = fit.DeviceCPU
		err = x.place(ctx, g)
	}
	if err != nil {
		return nil, err
	}
	engine, err := x.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	fmt.Fprintf(g.stderr, "Sampling %s of at most %d tokens.\n", units.Plural(o.completions, "completion"), c.MaxCompletionLength)
	list, err := node.Ask(ctx, policy.GenerateParams{
		Prompts: [][]int{prompt}, NumGenerations: o.completions, MaxNewTokens: c.MaxCompletionLength, Temperature: c.Temperature,
		TopK: c.TopK, TopP: c.TopP, EOSTokenID: x.tokens.EOS(), Seed: o.seed, MicroBatch: o.completions,
	}, x.tokens, engine.Generate, q.score)
	if err != nil {
		return nil, err
	}
	d := &prompted{
		Model: x.model.Name, Round: engine.rounds, Device: x.plan.Device, Task: q.task, Index: o.index, Seed: o.seed,
		SystemPrompt: c.Tasks.SystemPrompt, Question: q.text, PromptTokens: len(prompt), Temperature: c.Temperature, Completions: list,
		drawn: q.drawn, limit: c.MaxCompletionLength,
	}
	if q.item != nil {
		d.CorrectAnswer, d.MeanScore = q.item.Answer, meanScore(list)
	}
	return d, nil
}

func meanScore(list []node.Completion) *float64 {
	scores := make([]float64, len(list))
	for i, c := range list {
		scores[i] = *c.Score
	}
	mean := stats.Mean(scores)
	return &mean
}

// readQuestion is the question of the command line, or of stdin where that is "-".
func readQuestion(stdin io.Reader, argument string) (string, error) {
	text := argument
	if argument == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, maxQuestion+1))
		if err != nil {
			return "", fmt.Errorf("read the question: %w", err)
		}
		text = strings.TrimRight(string(data), "\r\n")
	}
	if len(text) > maxQuestion {
		return "", fail.Usage(fmt.Errorf("the question is longer than %d bytes", maxQuestion), "a shorter question")
	}
	return strings.ToValidUTF8(text, "\uFFFD"), nil
}
