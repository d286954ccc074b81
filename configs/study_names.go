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

// ExperimentNames are the names that the study's experiments are recorded under when they are run with a model (a
// preset, its Hugging Face id, or a folder; "" is nano), in the study's order.
func (s Study) ExperimentNames(model string) []string {
	var names []string
	for _, e := range s.Experiments {
		names = append(names, s.ExperimentName(model, e.Name))
	}
	return names
}

// ExperimentName is the name that one of the study's experiments is recorded under: paper-8loc0ext,
// paper-gpt2-8loc0ext. One that is another study's has the name it has there, if both are run alike with the model.
func (s Study) ExperimentName(model, experiment string) string {
	if other, name, ok := s.recordedAs(model, experiment); ok {
		return other.ExperimentName(model, name)
	}
	if model = ModelName(model); model == NanoModel {
		return s.Name + "-" + experiment
	}
	return s.Name + "-" + model + "-" + experiment
}

// longestModelName is how many bytes of a name of 64 a folder's may take beside a study's and an experiment's.
const longestModelName = 24

var notInModelName = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// ModelName is a model as a study's experiments' names have it, of the text that --model names it by ("" is nano): its
// preset's name, or that of its folder or repository. Of these one that a preset has gets folder- before it, and of a
// long one the end gives way to a hash.
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
