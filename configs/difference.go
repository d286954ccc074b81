package configs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Class says what a key of the configuration decides.
type Class string

const (
	ClassExperiment  Class = "experiment"  // what is learnt. Keys that classes doesn't name are of this class
	ClassLength      Class = "length"      // only how many rounds are trained
	ClassHost        Class = "host"        // device and precision: compare what they resolve to, which this package doesn't know
	ClassMeasure     Class = "measure"     // what the held-out evaluation asks: it changes the measurement, not the training
	ClassOperational Class = "operational" // memory, recovery, how often evaluations and checkpoints are made
	ClassName        Class = "name"        // what the experiment or a part of it is called
)

// classes are the keys that don't decide what is learnt.
var classes = map[string]Class{
	"experiment": ClassName,
	"preset":     ClassName, // the values that it stands for are compared
	"tasks.set":  ClassName, // the mixture that it stands for is compared

	"rounds": ClassLength,

	"device": ClassHost, "precision": ClassHost,

	"eval_questions": ClassMeasure, "eval_generations": ClassMeasure, // an evaluation draws nothing of training's

	"swarm_size":  ClassOperational, // a limit: a run's own number of nodes is compared
	"micro_batch": ClassOperational, "gradient_checkpointing": ClassOperational, "gradient_accumulation_steps": ClassOperational,
	"auto_batch_size": ClassOperational, "optimizer_offload": ClassOperational, "param_offload": ClassOperational,
	"clear_cache_every_n_rounds": ClassOperational, "cuda_graphs": ClassOperational,
	"barrier_deadline": ClassOperational, "barrier_quorum": ClassOperational,
	"checkpoint_every": ClassOperational, "eval_every": ClassOperational,
	"share": ClassOperational, "gpus_per_node": ClassOperational, "cpu_fallback": ClassOperational, "max_restarts": ClassOperational,
}

// ClassOf is the class of a key of AllKeys.
func ClassOf(key string) Class { return cmp.Or(classes[key], ClassExperiment) }

// KeysOf names the keys of a class, in alphabetical order.
func KeysOf(class Class) []string {
	return slices.DeleteFunc(Keys(), func(key string) bool { return ClassOf(key) != class })
}

// Difference is one fact in which two configurations differ.
type Difference struct {
	Key           string // of AllKeys, or below one: tasks.mixture.bf.weight, members.gpt2.learning_rate
	Class         Class
	Before, After string // the two values as text: short, and never equal
}

// String is the difference on one line: learning_rate 0.001 → 0.002.
func (d Difference) String() string { return fmt.Sprintf("%s %s → %s", d.Key, d.Before, d.After) }

// absent is the text of a value that one side doesn't have. No value's text is equal to it: text is quoted.
const absent = "absent"

// Differences lists every key in which two configurations differ, one entry a fact: keys by name, then models of a
// swarm of different ones one by one, then the task mixture entry by entry. A configuration that was stored and read
// again doesn't differ from itself.
func Differences(before, after Config) []Difference {
	var d differences
	old, now := Values(before), Values(after)
	for _, key := range slices.Sorted(maps.Keys(now)) {
		d.compare(key, ClassOf(key), old[key], now[key])
	}
	d.members(before, after)
	d.mixture(before.Tasks.Mixture, after.Tasks.Mixture)
	return d
}

// Changes are the Differences in what is learnt, nil where there are none: a run can't go on under them.
func Changes(before, after Config) (list []Difference) {
	for _, d := range Differences(before, after) {
		if d.Class == ClassExperiment {
			list = append(list, d)
		}
	}
	return list
}

type differences []Difference

// compare adds an entry where two values of a key differ.
func (d *differences) compare(key string, class Class, before, after any) {
	if before != after {
		d.texts(key, class, valueText(before), valueText(after))
	}
}

// texts adds an entry where two texts differ, shortened to where they do.
func (d *differences) texts(key string, class Class, before, after string) {
	if before != after {
		before, after = shorten(before, after)
		*d = append(*d, Difference{key, class, before, after})
	}
}

// valueText is a key's value as text; different values have different texts.
func valueText(v any) string {
	if text, ok := v.(string); ok {
		return strconv.Quote(text)
	}
	return fmt.Sprint(v)
}

// Bounds of shorten, in characters.
const (
	longestValue = 80
	leadingValue = 20 // of what is equal, shown before the difference
)

// shorten cuts two different texts to at most longestValue characters and an ellipsis on either side, such that the
// first difference is in what is left of them.
func shorten(a, b string) (string, string) {
	x, y := []rune(a), []rune(b)
	if max(len(x), len(y)) <= longestValue {
		return a, b
	}
	at := 0
	for at < min(len(x), len(y)) && x[at] == y[at] {
		at++
	}
	from := max(0, at-leadingValue)
	if from == 1 {
		from = 0 // an ellipsis is no shorter
	}
	return window(x, from), window(y, from)
}

func window(text []rune, from int) string {
	var b strings.Builder
	if from > 0 {
		b.WriteString("…")
	}
	end := min(len(text), from+longestValue)
	b.WriteString(string(text[from:end]))
	if end < len(text) {
		b.WriteString("…")
	}
	return b.String()
}
