package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
)

// Answers holds the completions of a question.
type Answers struct {
	Run           string            `json:"run"` // empty: no run trained the model
	Model         string            `json:"model"`
	Node          string            `json:"node"` // empty: no run trained the model
	Choice        string            `json:"node_chosen_by"`
	Round         int               `json:"round"` // rounds that the weights were trained for
	Device        string            `json:"device"`
	Task          string            `json:"task"` // empty: the question belongs to no task
	Index         int64             `json:"index"`
	Seed          int64             `json:"seed"`
	SystemPrompt  string            `json:"system_prompt"` // by name
	Question      string            `json:"question"`
	CorrectAnswer *string           `json:"correct_answer"`
	PromptTokens  int               `json:"prompt_tokens"`
	Temperature   float64           `json:"temperature"`
	Completions   []node.Completion `json:"completions"`
	MeanScore     *float64          `json:"mean_score"`

	Because string `json:"-"` // why this node was chosen

	drawn string // describes the question
	limit int    // most tokens per completion
}

// Sampling has the sampling options of completions. nil means as in training.
type Sampling struct {
	MaxCompletionLength, TopK *int
	Temperature, TopP         *float64
}

func (s Sampling) apply(c *configs.Config) {
	for _, of := range []struct {
		given *int
		value *int
	}{{s.MaxCompletionLength, &c.MaxCompletionLength}, {s.TopK, &c.TopK}} {
		if of.given != nil {
			*of.value = *of.given
		}
	}
	if s.Temperature != nil {
		c.Temperature = *s.Temperature
	}
	if s.TopP != nil {
		c.TopP = *s.TopP
	}
}

// Prepare applies the question and the sampling options to the model's configuration, from which the caller plans
// memory. It returns the question's tokens. It warns if a limit shortens the completions.
func (m *Model) Prepare(q Question, s Sampling, completions int, warnings io.Writer) ([]int, error) {
	item := task.Item{Question: q.Text}
	if q.Item != nil {
		item = *q.Item
	}
	prompt := node.Prompt(m.Config, m.tasks, m.tokens, item)
	if message := node.LosesDefault(m.Config, m.tokens); message != "" {
		fmt.Fprintln(warnings, "Warning:", message)
	}
	trained := m.Config.MaxPromptLength
	s.apply(&m.Config)
	c := &m.Config
	left := m.Preset.Shape.Context - len(prompt)
	switch {
	case len(prompt) == 0:
		return nil, fail.Usage(errors.New("the question is empty"), "a question, or --task NAME")
	case left < 1:
		err := fmt.Errorf("the question has %d tokens, but the context of %s has only %d", len(prompt), m.Preset.Name, m.Preset.Shape.Context)
		return nil, fail.Usage(err, "a shorter question, or another --index")
	case left < c.MaxCompletionLength:
		fmt.Fprintf(warnings, "Warning: the context of %s has room for %d tokens after the question, not %d\n", m.Preset.Name, left, c.MaxCompletionLength)
		c.MaxCompletionLength = left
	}
	if len(prompt) > trained {
		fmt.Fprintf(warnings, "Warning: the question has %d tokens, but training uses at most %d (max_prompt_length)\n", len(prompt), trained)
	}
	c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations, c.MaxPromptLength = 1, 0, completions, len(prompt)
	return prompt, nil
}

// Ask samples completions of a prepared question, and scores them if the question has an item.
func (e *Engine) Ask(ctx context.Context, q Question, prompt []int, completions int, seed, index int64, stderr io.Writer) (*Answers, error) {
	c, tokens := e.model.Config, e.model.tokens
	fmt.Fprintf(stderr, "Sampling %s of at most %d tokens.\n", units.Plural(completions, "completion"), c.MaxCompletionLength)
	list, err := node.Ask(ctx, policy.GenerateParams{
		Prompts: [][]int{prompt}, NumGenerations: completions, MaxNewTokens: c.MaxCompletionLength, Temperature: c.Temperature,
		TopK: c.TopK, TopP: c.TopP, EOSTokenID: tokens.EOS(), StopTokenIDs: tokens.Stops(), Seed: seed, MicroBatch: completions,
	}, tokens, e.Generate, q.Score)
	if err != nil {
		return nil, err
	}
	a := &Answers{
		Model: e.model.Preset.Name, Round: e.rounds, Device: e.device, Task: q.Task, Index: index, Seed: seed,
		SystemPrompt: c.Tasks.SystemPrompt, Question: q.Text, PromptTokens: len(prompt), Temperature: c.Temperature, Completions: list,
		drawn: q.Drawn, limit: c.MaxCompletionLength,
	}
	if q.Item != nil {
		a.CorrectAnswer, a.MeanScore = q.Item.Answer, meanScore(list)
	}
	return a, nil
}

func meanScore(list []node.Completion) *float64 {
	mean := 0.0
	for _, c := range list {
		mean += *c.Score
	}
	mean /= float64(len(list))
	return &mean
}
