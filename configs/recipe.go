package configs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Recipe holds the settings for training a small base model from scratch on a task set's questions and answers.
// Pretraining needs only these, a shape, tasks and a seed.
type Recipe struct {
	Steps        int     `yaml:"steps" json:"steps"`
	Batch        int     `yaml:"batch" json:"batch"`                 // questions per step
	LearningRate float64 `yaml:"learning_rate" json:"learning_rate"` // peak
	TagShare     float64 `yaml:"tag_share" json:"tag_share"`         // share of answers in <answer> tags, 0-1
	// TagShares overrides TagShare for single tasks. Hard tasks have more answers in tags, so that every task starts
	// with some reward.
	TagShares map[string]float64 `yaml:"tag_shares" json:"tag_shares,omitempty"`
	// Weights are the draw weights of tasks. Tasks not listed have weight 1.
	Weights map[string]float64 `yaml:"weights" json:"weights,omitempty"`
}

// DefaultRecipe is the recipe of models whose preset has none.
func DefaultRecipe() Recipe {
	return Recipe{Steps: 2000, Batch: 64, LearningRate: 3e-3, TagShare: 0.2}
}

// Validate returns an *Error for the first value out of bounds.
func (r Recipe) Validate() error {
	for _, rule := range []check{
		whole("steps", int64(r.Steps), 1, 1_000_000),
		whole("batch", int64(r.Batch), 1, 65_536),
		real("learning_rate", r.LearningRate, 0, 1, false, false),
		real("tag_share", r.TagShare, 0, 1, true, true),
	} {
		if !rule.ok {
			return &Error{Key: rule.key, Value: rule.value, Allowed: rule.allowed}
		}
	}
	return cmp.Or(
		checkTasks("weights", r.Weights, "a number above 0", func(w float64) bool { return w > 0 && !math.IsInf(w, 1) }),
		checkTasks("tag_shares", r.TagShares, "a number from 0 to 1", func(share float64) bool { return share >= 0 && share <= 1 }),
	)
}

// checkTasks returns an *Error for the first key that is not a task, or whose value good rejects.
func checkTasks(key string, values map[string]float64, allowed string, good func(float64) bool) error {
	known := taskNames()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) {
			return &Error{Key: key, Value: name, Allowed: strings.Join(known, ", ")}
		}
		if !good(values[name]) {
			return &Error{Key: key + "." + name, Value: fmt.Sprint(values[name]), Allowed: allowed}
		}
	}
	return nil
}

// TagShareOf returns a task's share of answers in tags.
func (r Recipe) TagShareOf(task string) float64 {
	if share, ok := r.TagShares[task]; ok {
		return share
	}
	return r.TagShare
}

// Weigh returns the mixture with its weights multiplied by the recipe's.
func (r Recipe) Weigh(mixture []TaskSpec) []TaskSpec {
	weighed := slices.Clone(mixture)
	for i, spec := range weighed {
		if w, ok := r.Weights[spec.Name]; ok {
			weighed[i].Weight *= w
		}
	}
	return weighed
}
