package configs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Class is the kind of effect that a key of the configuration has.
type Class string

const (
	ClassExperiment  Class = "experiment"  // what is learned; the class of keys that classes doesn't list
	ClassLength      Class = "length"      // only the number of rounds
	ClassHost        Class = "host"        // device and precision: the caller compares their resolved values, which this package can't know
	ClassMeasure     Class = "measure"     // the held-out evaluation: the measurement changes, not the training
	ClassOperational Class = "operational" // memory, recovery, frequency of evaluations and checkpoints
	ClassName        Class = "name"        // the name of the experiment or of a part of it
)

// classes lists the keys that don't affect what is learned.
var classes = map[string]Class{
	"experiment": ClassName,
	"preset":     ClassName, // the preset's values are compared
	"tasks.set":  ClassName, // the set's mixture is compared

	"rounds": ClassLength,

	"device": ClassHost, "precision": ClassHost,

	"eval_questions": ClassMeasure, "eval_generations": ClassMeasure, "eval_draws": ClassMeasure, // an evaluation uses none of training's random draws

	"swarm_size":  ClassOperational, // a limit: the run's own number of nodes is compared
	"micro_batch": ClassOperational, "gradient_checkpointing": ClassOperational, "gradient_accumulation_steps": ClassOperational,
	"auto_batch_size": ClassOperational, "optimizer_offload": ClassOperational, "param_offload": ClassOperational,
	"clear_cache_every_n_rounds": ClassOperational, "cuda_graphs": ClassOperational,
	"barrier_deadline": ClassOperational, "barrier_quorum": ClassOperational,
	"checkpoint_every": ClassOperational, "eval_every": ClassOperational,
	"share": ClassOperational, "gpus_per_node": ClassOperational, "cpu_fallback": ClassOperational, "max_restarts": ClassOperational,
	"on_alarm": ClassOperational, "validation_questions": ClassOperational, // a choice of weights draws nothing of training's
}

// ClassOf returns the class of a key of AllKeys.
func ClassOf(key string) Class { return cmp.Or(classes[key], ClassExperiment) }

// KeysOf returns the keys of a class, in alphabetical order.
func KeysOf(class Class) []string {
	return slices.DeleteFunc(Keys(), func(key string) bool { return ClassOf(key) != class })
}

// Difference is one value that differs between two configurations.
type Difference struct {
	Key           string // one of AllKeys, or a part of one: tasks.mixture.bf.weight, members.gpt2.learning_rate
	Class         Class
	Before, After string // the two values as text: short, and never equal
}

// String formats the difference on one line: learning_rate 0.001 → 0.002.
func (d Difference) String() string { return fmt.Sprintf("%s %s → %s", d.Key, d.Before, d.After) }

// absent is the text of a value that one side doesn't have. No value's text equals it, because text values are
// quoted.
const absent = "absent"

// Differences lists every key in which two configurations differ, one entry per value: keys by name, then each model
// of a mixed swarm, then each entry of the task mixture. A configuration that was stored and read back doesn't differ
// from itself.
func Differences(before, after Config) []Difference {
	var d differences
	old, now := Values(before), Values(after)
	for _, key := range slices.Sorted(maps.Keys(now)) {
		class := ClassOf(key)
		if key == "on_alarm" && (before.OnAlarm == AlarmLower || after.OnAlarm == AlarmLower) {
			class = ClassExperiment // it decides what is learned
		}
		d.compare(key, class, old[key], now[key])
	}
	d.members(before, after)
	d.mixture(before.Tasks.Mixture, after.Tasks.Mixture)
	return d
}

// Changes returns the Differences that affect what is learned, nil if there are none. A run can't resume with such
// changes.
func Changes(before, after Config) (list []Difference) {
	for _, d := range Differences(before, after) {
		if d.Class == ClassExperiment {
			list = append(list, d)
		}
	}
	return list
}

type differences []Difference

// compare adds an entry if two values of a key differ.
func (d *differences) compare(key string, class Class, before, after any) {
	if before != after {
		d.texts(key, class, valueText(before), valueText(after))
	}
}

// texts adds an entry if two texts differ, shortened to the part that differs.
func (d *differences) texts(key string, class Class, before, after string) {
	if before != after {
		before, after = shorten(before, after)
		*d = append(*d, Difference{key, class, before, after})
	}
}

// valueText formats a key's value. Different values have different texts.
func valueText(v any) string {
	if text, ok := v.(string); ok {
		return strconv.Quote(text)
	}
	return fmt.Sprint(v)
}

// Bounds of shorten, in characters.
const (
	longestValue = 80
	leadingValue = 20 // characters of the equal part shown before the difference
)

// shorten cuts two different texts to at most longestValue characters each, plus an ellipsis on either side. The
// first difference stays visible.
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
		from = 0 // an ellipsis is as long as the character it replaces
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
