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

// Question is a question for the model.
type Question struct {
	Text  string
	Item  *task.Item                // nil: a user's question, without a score
	Task  string                    // of the item; empty: from a file, or no item
	Score func(text string) float64 // nil without an item
	Drawn string                    // description of the question, for messages
}

// Draw draws a question: from a task's dataset by seed and index, or, if name is empty, a held-out question.
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
		Drawn: fmt.Sprintf("%s, held out from training, seed %d, index %d", cmp.Or(name, "a question from the file"), seed, index),
	}, nil
}

// heldOut draws a held-out question that fits max_prompt_length.
func (m *Model) heldOut(seed, index int64) (task.Item, error) {
	for try := range 1000 {
		item, err := m.tasks.DrawHeldOut(sapo.Seed(seed, "", int(index), sapo.PurposeHeldOut, try))
		if err != nil {
			return item, err
		}
		if n := len(node.Prompt(m.Config, m.tasks, m.tokens, item)); n > 0 && n <= m.Config.MaxPromptLength {
			return item, nil
		}
	}
	return task.Item{}, fail.Hint(errors.New("the tasks have no held-out question that fits max_prompt_length"), "a question, or --task NAME")
}

// ofTask returns an item of a task's dataset. It uses the parameters with which the model was trained, or the
// paper's if its tasks do not include this one.
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

// ReadQuestion returns the question in argument, or the one on stdin if argument is "-".
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
