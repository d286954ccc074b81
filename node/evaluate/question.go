package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// maxQuestion bounds a question, in bytes.
const maxQuestion = 1 << 20

// Question is the question that a model gets.
type Question struct {
	Text  string
	Item  *task.Item                // nil: a question of nobody's, without a score
	Task  string                    // of the item; empty: of a file, or none
	Score func(text string) float64 // nil without an item
	Drawn string                    // which one it is, for people
}

// Draw draws a question: of a task's dataset by seed and index, or, without a task's name, one that no node trains on.
func (m *Model) Draw(name string, seed, index int64) (Question, error) {
	if name != "" {
		return m.ofTask(name, seed, index)
	}
	item, err := m.heldOut(seed, index)
	if err != nil {
		return Question{}, err
	}
	name = item.Task()
	return Question{
		Text: item.Question, Item: &item, Task: name, Score: func(text string) float64 { return m.tasks.Score(item, text) },
		Drawn: fmt.Sprintf("%s, held out from training, seed %d, index %d", cmp.Or(name, "a question of the file"), seed, index),
	}, nil
}

// heldOut draws a question that no node trains on and that is as long as training allows.
func (m *Model) heldOut(seed, index int64) (task.Item, error) {
	for try := range 1000 {
		item, err := m.tasks.DrawHeldOut(sapo.Seed(seed, "", int(index), sapo.PurposeHeldOut, try))
		if err != nil {
			return item, err
		}
		if n := len(node.Prompt(m.Config, m.tokens, item.Question)); n > 0 && n <= m.Config.MaxPromptLength {
			return item, nil
		}
	}
	return task.Item{}, fail.Hint(errors.New("the tasks have no held-out question that fits max_prompt_length"), "a question, or --task NAME")
}

// ofTask is an item of a task's dataset, with the parameters that the model is trained with, or the paper's where its
// tasks lack this one.
func (m *Model) ofTask(name string, seed, index int64) (Question, error) {
	params, whose := m.Config.Tasks.Mixture, "as trained"
	if !slices.ContainsFunc(params, func(s configs.TaskSpec) bool { return s.Name == name }) {
		var err error
		if params, err = configs.TaskSet("paper"); err != nil {
			return Question{}, err
		}
		whose = "the paper's parameters"
	}
	t, err := task.Named(name, params, m.Config.Tasks.Words)
	if err != nil {
		return Question{}, err
	}
	item := t.Item(seed, index)
	return Question{
		Text: item.Question, Item: &item, Task: name, Score: func(text string) float64 { return t.Score(item, task.ExtractAnswer(text)) },
		Drawn: fmt.Sprintf("%s (%s), seed %d, index %d", name, whose, seed, index),
	}, nil
}

// ReadQuestion is the question that was given, or that of stdin where "-" was.
func ReadQuestion(stdin io.Reader, argument string) (Question, error) {
	text := argument
	if argument == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, maxQuestion+1))
		if err != nil {
			return Question{}, fmt.Errorf("read the question: %w", err)
		}
		text = strings.TrimRight(string(data), "\r\n")
	}
	if len(text) > maxQuestion {
		return Question{}, fail.Usage(fmt.Errorf("the question is longer than %d bytes", maxQuestion), "a shorter question")
	}
	return Question{Text: strings.ToValidUTF8(text, "\uFFFD")}, nil
}
