package task

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Spec is one task of a mixture.
type Spec struct {
	Name string `mapstructure:"name" yaml:"name" json:"name"`
	// Weight is the task's share of the draws, relative to the others; positive.
	Weight float64 `mapstructure:"weight" yaml:"weight" json:"weight"`
	// Params are the library's parameters, over rl-swarm's values; see New.
	Params map[string]any `mapstructure:"params" yaml:"params" json:"params"`
}

// Set draws questions, from a weighted mixture of tasks or from a list of items, and scores answers. It is
// immutable and safe for concurrent use.
type Set struct {
	tasks   []Task
	weights []float64
	// train and heldOut are the parts of a list of items; empty in a mixture.
	train, heldOut []Item
	examples       int
	solved         map[string][]solved // by task, see show; nil without examples
	// scorers has all nine tasks, because peers may send items of any. Tasks of the mixture have its parameters.
	scorers map[string]Task
}

// draw keeps a task for triesPerTask tries, so that the weights hold. Then it picks a task again, in case the
// parameters of the first allow no item of the wanted part.
const (
	maxTries     = 1000
	triesPerTask = 100
)

// maxCompletion bounds the completion that Score reads, in bytes.
const maxCompletion = 1 << 20

// NewSet makes a mixture, in the order of specs. It refuses duplicate tasks, and parameters that leave no item to
// train on or to evaluate on.
func NewSet(specs []Spec) (*Set, error) {
	if len(specs) == 0 {
		return nil, errors.New("no tasks: name at least one")
	}
	s := &Set{scorers: map[string]Task{}}
	for i, spec := range specs {
		if !(spec.Weight > 0) || math.IsInf(spec.Weight, 1) {
			return nil, fmt.Errorf("task %s: weight is %v: it must be a positive number", spec.Name, spec.Weight)
		}
		if slices.ContainsFunc(specs[:i], func(other Spec) bool { return other.Name == spec.Name }) {
			return nil, fmt.Errorf("task %s is named twice: give it one weight and one set of parameters", spec.Name)
		}
		task, err := New(spec.Name, spec.Params)
		if err != nil {
			return nil, err
		}
		s.tasks, s.weights = append(s.tasks, task), append(s.weights, spec.Weight)
		s.scorers[spec.Name] = task
	}
	if err := s.addScorers(); err != nil {
		return nil, err
	}
	_, trainErr := s.Draw(0)
	_, heldOutErr := s.DrawHeldOut(0)
	if err := cmp.Or(trainErr, heldOutErr); err != nil {
		return nil, err
	}
	return s, nil
}

// NewFileSet makes a set from items. It refuses a list with fewer than two items to train on or fewer than two to
// evaluate on.
func NewFileSet(items []Item) (*Set, error) {
	s := &Set{scorers: map[string]Task{}}
	for _, item := range items {
		if HeldOut(item) {
			s.heldOut = append(s.heldOut, item)
		} else {
			s.train = append(s.train, item)
		}
	}
	if len(s.train) < 2 || len(s.heldOut) < 2 {
		return nil, fmt.Errorf("of %d items, %d are for training and %d held out: at least 2 of each are needed, "+
			"and about one in %d is held out by its content. Use about 100 items or more",
			len(items), len(s.train), len(s.heldOut), heldOutShare)
	}
	return s, s.addScorers()
}

// addScorers adds the tasks that s lacks, with rl-swarm's parameters.
func (s *Set) addScorers() error {
	for _, name := range Names() {
		if s.scorers[name] != nil {
			continue
		}
		task, err := New(name, nil)
		if err != nil {
			return err
		}
		s.scorers[name] = task
	}
	return nil
}

// Only returns the part of a mixture that has these tasks, with their weights. It scores the answers of all tasks, as s
// does. A name that the mixture lacks is left out.
func (s *Set) Only(names []string) *Set {
	part := &Set{scorers: s.scorers, examples: s.examples, solved: s.solved}
	for i, t := range s.tasks {
		if slices.Contains(names, t.Name()) {
			part.tasks, part.weights = append(part.tasks, t), append(part.weights, s.weights[i])
		}
	}
	return part
}

// Draw returns the training item of a seed, never a held-out one. In a mixture each seed has its own fresh item. It
// returns an error if the tasks' parameters leave no such item.
func (s *Set) Draw(seed uint64) (Item, error) { return s.draw(seed, false) }

// DrawHeldOut returns the held-out item of a seed.
func (s *Set) DrawHeldOut(seed uint64) (Item, error) { return s.draw(seed, true) }

func (s *Set) draw(seed uint64, heldOut bool) (Item, error) {
	source := splitMix(seed)
	if len(s.tasks) == 0 {
		items := s.train
		if heldOut {
			items = s.heldOut
		}
		position, _ := bits.Mul64(source.next(), uint64(len(items)))
		return items[position], nil
	}
	var task Task
	for try := range maxTries {
		if try%triesPerTask == 0 {
			task = s.pick(source.fraction())
		}
		// The shift keeps seed and index within int64.
		item := task.Item(int64(source.next()>>1), 0)
		if HeldOut(item) == heldOut {
			return item, nil
		}
	}
	part := "outside"
	if heldOut {
		part = "within"
	}
	return Item{}, fmt.Errorf("no item %s the held-out part in %d draws, the last from task %s: "+
		"widen the tasks' parameters", part, maxTries, task.Name())
}

// pick returns the task at fraction, in [0, 1), of the sum of weights.
func (s *Set) pick(fraction float64) Task {
	var total, running float64
	for _, weight := range s.weights {
		total += weight
	}
	for i, weight := range s.weights {
		if running += weight; running > fraction*total {
			return s.tasks[i]
		}
	}
	return s.tasks[len(s.tasks)-1]
}

// Score is the reward of a completion, in [0, 1]: the score that the task in metadata.source_dataset gives to the
// text in the answer tags. An item of an unknown task scores 1 for its answer's exact text, stripped, and otherwise
// DecimalReward. A completion above 1 MiB scores 0.
func (s *Set) Score(item Item, completion string) float64 {
	if len(completion) > maxCompletion {
		return 0
	}
	answer := ExtractAnswer(completion)
	if task := s.scorers[item.Task()]; task != nil {
		return task.Score(item, answer)
	}
	switch {
	case answer == nil || item.Answer == nil || *item.Answer == "":
		return 0
	case *answer == pyStrip(*item.Answer):
		return 1
	}
	return DecimalReward(answer, *item.Answer, true)
}

// splitMix is the generator of Steele, Lea and Flood (OOPSLA 2014): any seed gives an independent stream.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// fraction is uniform in [0, 1).
func (s *splitMix) fraction() float64 { return float64(s.next()>>11) / (1 << 53) }
