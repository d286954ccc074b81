package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// asked is the question that a model gets.
type asked struct {
	text  string
	item  *task.Item                // nil: a question of nobody's, without a score
	task  string                    // of the item; empty: of a file, or none
	score func(text string) float64 // nil without an item
	drawn string                    // which one it is, for people
}

// question is the one of the command line, else one that is drawn.
func (o *promptOptions) question(g *globals, x *examinee, given []string) (asked, error) {
	if len(given) > 0 {
		text, err := readQuestion(g.stdin, given[0])
		return asked{text: text}, err
	}
	if o.task != "" {
		return o.ofTask(x)
	}
	item, err := o.heldOut(x)
	if err != nil {
		return asked{}, err
	}
	name := item.Task()
	return asked{
		text: item.Question, item: &item, task: name, score: func(text string) float64 { return x.tasks.Score(item, text) },
		drawn: fmt.Sprintf("%s, held out from training, seed %d, index %d", cmp.Or(name, "a question of the file"), o.seed, o.index),
	}, nil
}

// heldOut draws a question that no node trains on and that is as long as training allows.
func (o *promptOptions) heldOut(x *examinee) (task.Item, error) {
	for try := range 1000 {
		item, err := x.tasks.DrawHeldOut(sapo.Seed(o.seed, "", int(o.index), sapo.PurposeHeldOut, try))
		if err != nil {
			return item, err
		}
		if n := len(node.Prompt(x.config, x.tokens, item.Question)); n > 0 && n <= x.config.MaxPromptLength {
			return item, nil
		}
	}
	return task.Item{}, fail.Hint(errors.New("the tasks have no held-out question that fits max_prompt_length"), "a question, or --task NAME")
}

// ofTask is an item of a task's dataset, with the parameters that the model is trained with, or the paper's where its tasks lack this one.
func (o *promptOptions) ofTask(x *examinee) (asked, error) {
	params, whose := x.config.Tasks.Mixture, "as trained"
	if !slices.ContainsFunc(params, func(s configs.TaskSpec) bool { return s.Name == o.task }) {
		var err error
		if params, err = configs.TaskSet("paper"); err != nil {
			return asked{}, err
		}
		whose = "the paper's parameters"
	}
	t, err := openTask(o.task, params, x.config.Tasks.Words)
	if err != nil {
		return asked{}, err
	}
	item := t.Item(o.seed, o.index)
	return asked{
		text: item.Question, item: &item, task: o.task, score: func(text string) float64 { return t.Score(item, task.ExtractAnswer(text)) },
		drawn: fmt.Sprintf("%s (%s), seed %d, index %d", o.task, whose, o.seed, o.index),
	}, nil
}

// openTask makes a task with the parameters that specs have of it; words, if not empty, is the file of bf's.
func openTask(name string, specs []configs.TaskSpec, words string) (task.Task, error) {
	params := map[string]any{}
	for _, s := range specs {
		if s.Name == name {
			params = s.Params
		}
	}
	if words != "" && name == "bf" {
		list, err := task.ReadWords(words)
		if err != nil {
			return nil, err
		}
		params = task.WithWords(params, list)
	}
	t, err := task.New(name, params)
	if errors.Is(err, task.ErrUnknownTask) {
		e := &configs.Error{Problem: fmt.Sprintf("unknown task %q", name), Allowed: strings.Join(task.Names(), ", "), Near: units.Nearest(name, task.Names())}
		return nil, fail.Usage(e, "swarm task list")
	}
	return t, err
}
