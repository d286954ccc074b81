package configs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ExperimentNames returns the recorded names of the study's experiments with a model, in the study's order. model is
// a preset, its Hugging Face id, or a folder; "" is nano.
func (s Study) ExperimentNames(model string) []string {
	var names []string
	for _, e := range s.Experiments {
		names = append(names, s.ExperimentName(model, e.Name))
	}
	return names
}

// ExperimentName returns the recorded name of one of the study's experiments: paper-8loc0ext, paper-gpt2-8loc0ext. An
// experiment shared with another study has that study's name, if both run it with the same settings for the model.
func (s Study) ExperimentName(model, experiment string) string {
	if other, name, ok := s.recordedAs(model, experiment); ok {
		return other.ExperimentName(model, name)
	}
	if model = ModelName(model); model == NanoModel {
		return s.Name + "-" + experiment
	}
	return s.Name + "-" + model + "-" + experiment
}

// longestModelName is the maximum bytes of a folder's name within an experiment's name of 64, beside the study's and
// the experiment's.
const longestModelName = 24

var notInModelName = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// ModelName returns the form of a model in the names of a study's experiments. model is the value of --model ("" is
// nano). The result is the preset's name, or the base name of the folder or repository. If a preset has that name,
// "folder-" is prepended. A long name is cut and ends in a hash.
func ModelName(model string) string {
	if model == "" {
		return NanoModel
	}
	if m, err := LoadModel(model); err == nil {
		return m.Name
	}
	base := filepath.Base(filepath.Clean(model))
	name := cmp.Or(strings.Trim(notInModelName.ReplaceAllString(base, "-"), "-._"), "folder")
	if slices.ContainsFunc(Models(), func(preset string) bool { return strings.EqualFold(preset, name) }) {
		name = "folder-" + name
	}
	if len(name) <= longestModelName {
		return name
	}
	hash := sha256.Sum256([]byte(base))
	return strings.TrimRight(name[:longestModelName-7], "-._") + "-" + hex.EncodeToString(hash[:3])
}
