package task

import (
	"encoding/json"
	"maps"
	"slices"
)

// exampleSeed is the seed of the datasets that examples come from: `swarm task sample NAME --seed 0` prints them.
const exampleSeed = 0

// exampleTries is the maximum number of items of a dataset that are examined for examples.
const exampleTries = 1000

// solved is a question with its answer in tags.
type solved struct{ question, answer string }

// Solution returns an item's answer as text. For propositional_logic, which has no answer, it returns the conclusion
// that its generator found.
func (i Item) Solution() (string, bool) {
	if i.Answer != nil {
		return *i.Answer, *i.Answer != ""
	}
	var meta struct {
		Example string `json:"example_answer"`
	}
	if err := json.Unmarshal(i.Metadata, &meta); err != nil || meta.Example == "" {
		return "", false
	}
	return meta.Example, true
}

// show makes Turns begin with n examples. They depend only on the tasks' parameters, or on the file, so that they are
// the same for all nodes and evaluations. None is held out, and each has reward 1. It chooses one more than n of each
// task, for Turns to leave one out.
func (s *Set) show(n int) {
	if n == 0 {
		return
	}
	s.examples, s.solved = n, map[string][]solved{}
	add := func(name string, item Item) (enough bool) {
		list := s.solved[name]
		answer, ok := item.Solution()
		answer = "<answer>" + answer + "</answer>"
		known := slices.ContainsFunc(list, func(e solved) bool { return e.question == item.Question })
		if ok && !known && len(list) <= n && !HeldOut(item) && s.Score(item, answer) == 1 {
			s.solved[name] = append(list, solved{item.Question, answer})
		}
		return len(s.solved[name]) > n
	}
	for _, item := range s.train {
		add(item.Task(), item)
	}
	if len(s.train) > 0 {
		return
	}
	for name, t := range s.scorers {
		for index := range int64(exampleTries) {
			if add(name, t.Item(exampleSeed, index)) {
				break
			}
		}
	}
}

// Turns returns the conversation that asks an item's question: tasks.examples questions of its task, each followed by
// its answer in tags, and last the question. No example is the question itself. A question that belongs to no task
// follows one example of each task in turn.
func (s *Set) Turns(item Item) []string {
	if s == nil || s.examples == 0 {
		return []string{item.Question}
	}
	list := s.solved[item.Task()]
	if len(item.Metadata) == 0 {
		list = nil
		for _, name := range slices.Sorted(maps.Keys(s.solved)) {
			list = append(list, s.solved[name][0])
		}
	}
	var turns []string
	for _, e := range list {
		if e.question != item.Question && len(turns) < 2*s.examples {
			turns = append(turns, e.question, e.answer)
		}
	}
	return append(turns, item.Question)
}
