package configs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Values of Study.Measure, as compare --measure has them.
const (
	MeasurePass   = "pass"   // held-out pass@1 of the last evaluation
	MeasureReward = "reward" // cumulative own reward, the paper's
)

// NanoModel is the model of a study that is run without a choice of one: its experiments have the plain names.
const NanoModel = "nano"

// Study is a question and the experiments that answer it, each run with the same seeds. `swarm sweep --study` runs it.
type Study struct {
	Name        string                `yaml:"-"`        // the file's
	Path        string                `yaml:"-"`        // of a user's file, as it was named; empty: it is part of the program
	Question    string                `yaml:"question"` // that it answers
	Baseline    string                `yaml:"baseline"` // the experiment that the others are compared with
	Measure     string                `yaml:"measure"`  // what decides: MeasurePass or MeasureReward
	Seeds       int                   `yaml:"seeds"`
	Rounds      int                   `yaml:"rounds"`
	Nodes       int                   `yaml:"nodes"`  // of experiments that don't say otherwise; 0: as many as fit
	Set         map[string]any        `yaml:"set"`    // Config keys of all experiments
	Models      map[string]StudyModel `yaml:"models"` // what is otherwise with a model, by its preset
	Experiments []StudyExperiment     `yaml:"experiments"`
	Grid        Grid                  `yaml:"grid"` // keys with several values: the study has each experiment with each combination of them

	shared map[string]sharedExperiment // by experiment: those that are another study's
}

// StudyModel is what of a study is otherwise with one model; zero values leave the study's own.
type StudyModel struct {
	Seeds  int            `yaml:"seeds"`
	Rounds int            `yaml:"rounds"`
	Set    map[string]any `yaml:"set"`
}

// StudyExperiment is one side of the comparison.
type StudyExperiment struct {
	Name               string         `yaml:"name"`
	As                 string         `yaml:"as"`     // another study's that this one is, paper-4loc4ext: it is run once for both; the rest is that one's
	Config             string         `yaml:"config"` // experiment preset
	Set                map[string]any `yaml:"set"`
	Nodes              int            `yaml:"nodes"`                // 0: the study's
	Models             []string       `yaml:"models"`               // of the nodes, turn by turn, in place of the study's model
	LearningRateFactor float64        `yaml:"learning_rate_factor"` // times the model's own rate; 0: 1
}

// Studies names the studies that are part of the program: the paper's first, then the others by name.
func Studies() []string {
	names := presetNames("studies")
	slices.SortStableFunc(names, func(a, b string) int {
		switch "paper" {
		case a:
			return -1
		case b:
			return 1
		}
		return strings.Compare(a, b)
	})
	return names
}

// LoadStudy is the study of that name. An unknown name is an *Error.
func LoadStudy(name string) (Study, error) {
	if known := Studies(); !slices.Contains(known, name) {
		return Study{}, unknown("study", name, known)
	}
	text, err := presetFiles.ReadFile(path.Join("studies", name+".yaml"))
	if err != nil {
		return Study{}, err
	}
	return parseStudy(name, text)
}

// parseStudy reads a study's text and checks it.
func parseStudy(name string, text []byte) (Study, error) {
	s := Study{Name: name}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil {
		return s, &Error{Problem: "bad study " + quote(name), Remedy: strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")}
	}
	if err := s.expand(); err != nil {
		return s, err
	}
	if err := s.adopt(); err != nil {
		return s, err
	}
	return s, s.check()
}

// ParseStudyFile reads a study of a user's own. Its name is the file's without folder and ending. A mistake is an
// *Error.
func ParseStudyFile(path string, text []byte) (Study, error) {
	if len(text) > MaxDocument || !utf8.Valid(text) {
		return Study{}, &Error{Problem: "bad study", Source: path, Remedy: fmt.Sprintf("allowed: UTF-8 of at most %d bytes", MaxDocument)}
	}
	base := filepath.Base(path)
	name := strings.Trim(notInModelName.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-"), "-._")
	if len(name) == 0 || len(name) > longestModelName {
		return Study{}, &Error{Key: "study", Value: base, Source: path, Allowed: fmt.Sprintf("a file whose name has 1 to %d characters: experiments are named after it",
			longestModelName)}
	}
	if slices.Contains(Studies(), name) {
		return Study{}, &Error{Key: "study", Value: base, Source: path, Allowed: "another file name: study " + name + " is part of the program"}
	}
	s, err := parseStudy(name, text)
	if err == nil && len(s.Experiments) > MaxArms {
		err = s.refuse("experiments", strconv.Itoa(len(s.Experiments)), fmt.Sprintf("at most %d: all are compared, each with each", MaxArms))
	}
	var mistake *Error
	if errors.As(err, &mistake) && (mistake.Source == "" || mistake.Source == "study "+name) {
		mistake.Source = path
	}
	s.Path = path
	return s, err
}

// Named is what --study takes for it: a name of Studies, or a file.
func (s Study) Named() string { return cmp.Or(s.Path, s.Name) }

// IsStudy tells whether a YAML text is a study rather than a configuration.
func IsStudy(text []byte) bool {
	var keys map[string]yaml.Node
	if yaml.Unmarshal(text, &keys) != nil {
		return false
	}
	_, study := keys["experiments"]
	_, grid := keys["grid"]
	return study || grid
}

// Experiment is the study's experiment of that name. An unknown name is an *Error.
func (s Study) Experiment(name string) (StudyExperiment, error) {
	var names []string
	for _, e := range s.Experiments {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return StudyExperiment{}, unknown("experiment of study "+s.Name, name, names)
}

// With is the study as it is run with a model, by any name of it: that model's seeds, rounds and keys in the places of
// the study's own.
func (s Study) With(model string) Study {
	own, ok := s.Models[ModelName(model)]
	if !ok {
		return s
	}
	if own.Seeds > 0 {
		s.Seeds = own.Seeds
	}
	if own.Rounds > 0 {
		s.Rounds = own.Rounds
	}
	set := maps.Clone(s.Set)
	if set == nil {
		set = map[string]any{}
	}
	maps.Copy(set, own.Set)
	s.Set = set
	return s
}

// NodesOf is how many nodes an experiment of the study has; 0: as many as fit.
func (s Study) NodesOf(e StudyExperiment) int { return cmp.Or(e.Nodes, s.Nodes) }

// FixesModels tells whether the study's experiments name their models, so that it has no choice of one.
func (s Study) FixesModels() bool {
	return slices.ContainsFunc(s.Experiments, func(e StudyExperiment) bool { return len(e.Models) > 0 })
}
