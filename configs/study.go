package configs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Values of Study.Measure and of compare --measure.
const (
	MeasurePass   = "pass"   // held-out pass@1 of the last evaluation
	MeasureReward = "reward" // cumulative own reward, which the paper's totals may be
)

// NanoModel is the default model of a study. With it, experiments have their plain names.
const NanoModel = "nano"

// Study is a question and the experiments that answer it, each run with the same seeds. `swarm sweep --study` runs
// it.
type Study struct {
	Name        string                `yaml:"-"`        // the file's name
	Path        string                `yaml:"-"`        // a user's file, as typed; empty: a built-in study
	Question    string                `yaml:"question"` // the question that the study answers
	Baseline    string                `yaml:"baseline"` // the experiment that all others are compared with
	Measure     string                `yaml:"measure"`  // decides the verdict: MeasurePass or MeasureReward
	Seeds       int                   `yaml:"seeds"`
	Rounds      int                   `yaml:"rounds"`
	Nodes       int                   `yaml:"nodes"`     // default of its experiments; 0: as many as fit
	Contrasts   [][2]string           `yaml:"contrasts"` // planned comparisons: names of experiments, the first against the second
	Explored    []int64               `yaml:"explored"`  // seeds whose results were looked at before the study was decided: they decide nothing
	Paper       bool                  `yaml:"paper"`     // all experiments have PaperValues, except for keys that they, their presets or Set set
	Set         map[string]any        `yaml:"set"`       // Config keys of all experiments
	Models      map[string]StudyModel `yaml:"models"`    // overrides by model preset
	Prepare     string                `yaml:"prepare"`   // the command that makes the model in Folders; the error for a missing one names it
	Experiments []StudyExperiment     `yaml:"experiments"`
	Grid        Grid                  `yaml:"grid"` // keys with several values: each experiment is run with each combination

	shared map[string]sharedExperiment // by experiment: those that belong to another study
}

// StudyModel overrides parts of a study for one model. Zero values keep the study's own.
type StudyModel struct {
	Seeds  int            `yaml:"seeds"`
	Rounds int            `yaml:"rounds"`
	Set    map[string]any `yaml:"set"`

	Explored []int64 `yaml:"explored"`
}

// StudyExperiment is one experiment of the comparison.
type StudyExperiment struct {
	Name               string         `yaml:"name"`
	As                 string         `yaml:"as"`     // the same as another study's experiment, such as paper-4loc4ext: it runs once for both, and that study sets the other fields
	Config             string         `yaml:"config"` // experiment preset
	Set                map[string]any `yaml:"set"`
	Nodes              int            `yaml:"nodes"`                // 0: the study's
	Models             []string       `yaml:"models"`               // of the nodes, in turn; replaces the study's model: presets, a folder for nodes that only generate, or Base alone
	LearningRateFactor float64        `yaml:"learning_rate_factor"` // multiplies the model's own rate; 0: 1
}

// Studies lists the built-in studies: the paper's first, then the others by name.
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

// LoadStudy returns the study with that name. An unknown name is an *Error.
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

// parseStudy reads and checks a study's text.
func parseStudy(name string, text []byte) (Study, error) {
	s := Study{Name: name}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil {
		return s, badStudy(name, err)
	}
	if err := s.expand(); err != nil {
		return s, err
	}
	if err := s.adopt(); err != nil {
		return s, err
	}
	return s, s.check()
}

// unknownField matches the parser's error for a key that a study does not have.
var unknownField = regexp.MustCompile(`^line ([0-9]+): field (\S+) not found in type configs\.(\w+)$`)

// inLine begins the source of badStudy's errors, before the line's number. ParseStudyFile replaces it by the file's
// name.
const inLine = "line "

// badStudy turns the parser's error into one for the user.
func badStudy(name string, err error) error {
	if errors.Is(err, io.EOF) {
		return &Error{Problem: "bad study " + quote(name), Remedy: "the file is empty"}
	}
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
	var faults *yaml.TypeError
	if errors.As(err, &faults) {
		text = strings.Join(faults.Errors, "; ")
		if m := unknownField.FindStringSubmatch(faults.Errors[0]); m != nil {
			e := unknown("key", m[2], studyKeys(m[3]))
			e.Source = inLine + m[1]
			if e.Near == "" {
				e.Remedy = "allowed: " + strings.Join(studyKeys(m[3]), ", ")
			}
			return e
		}
	}
	return &Error{Problem: "bad study " + quote(name), Remedy: text}
}

// studyKeys returns the keys that a study's YAML has at the place of a type.
func studyKeys(typeName string) (keys []string) {
	for _, of := range []reflect.Type{reflect.TypeFor[Study](), reflect.TypeFor[StudyModel](), reflect.TypeFor[StudyExperiment]()} {
		if of.Name() != typeName {
			continue
		}
		for i := range of.NumField() {
			if key := of.Field(i).Tag.Get("yaml"); key != "" && key != "-" {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// ParseStudyFile reads a user's study. Its name is the file's base name without extension. A mistake is an *Error.
func ParseStudyFile(path string, text []byte) (Study, error) {
	if len(text) > MaxDocument || !utf8.Valid(text) {
		return Study{}, &Error{Problem: "bad study", Source: path, Remedy: fmt.Sprintf("allowed: UTF-8 of at most %d bytes", MaxDocument)}
	}
	base := filepath.Base(path)
	name := strings.Trim(notInModelName.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-"), "-._")
	if len(name) == 0 || len(name) > longestModelName {
		return Study{}, &Error{Key: "study", Value: base, Source: path, Allowed: fmt.Sprintf("a file name of 1 to %d characters, because experiments are named after it",
			longestModelName)}
	}
	if slices.Contains(Studies(), name) {
		return Study{}, &Error{Key: "study", Value: base, Source: path, Allowed: "another file name, because study " + name + " is part of the program"}
	}
	s, err := parseStudy(name, text)
	if err == nil && len(s.Experiments) > MaxArms {
		err = s.refuse("experiments", strconv.Itoa(len(s.Experiments)), fmt.Sprintf("at most %d, because all pairs are compared", MaxArms))
	}
	var mistake *Error
	if errors.As(err, &mistake) && (mistake.Source == "" || mistake.Source == "study "+name) {
		mistake.Source = path
	} else if mistake != nil {
		if line, ok := strings.CutPrefix(mistake.Source, inLine); ok {
			mistake.Source = path + ":" + line
		}
	}
	s.Path = path
	return s, err
}

// Named returns the value of --study for this study: a name of Studies, or a file.
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

// Experiment returns the study's experiment with that name. An unknown name is an *Error.
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

// With returns the study as run with a model, by any of the model's names: the model's seeds, rounds and keys
// override the study's.
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
	if own.Explored != nil {
		s.Explored = own.Explored
	}
	set := maps.Clone(s.Set)
	if set == nil {
		set = map[string]any{}
	}
	maps.Copy(set, own.Set)
	s.Set = set
	return s
}

// NodesOf returns an experiment's number of nodes; 0: as many as fit.
func (s Study) NodesOf(e StudyExperiment) int { return cmp.Or(e.Nodes, s.Nodes) }

// Trained returns the models of an experiment's nodes that train, each once; nil: the study's model. The first nodes
// may only generate (nodes.generate_only).
func (s Study) Trained(e StudyExperiment) (models []string) {
	for node := max(0, s.teachers(e)); len(e.Models) > 0 && node < max(s.NodesOf(e), len(e.Models)); node++ {
		if name := e.Models[node%len(e.Models)]; !slices.Contains(models, name) {
			models = append(models, name)
		}
	}
	return models
}

// teachers returns an experiment's number of nodes that only generate.
func (s Study) teachers(e StudyExperiment) (nodes int) {
	for _, set := range []map[string]any{s.Set, e.Set} {
		values, _ := PresetValues(set) // check refuses what it can't read
		if n, ok := values["nodes.generate_only"].(int); ok {
			nodes = n
		}
	}
	return nodes
}

// Folders returns the models of the study's experiments that are folders. They are relative to the current directory.
func (s Study) Folders() (folders []string) {
	for _, e := range s.Experiments {
		for _, name := range e.Models {
			if isFolder(name) && !slices.Contains(folders, name) {
				folders = append(folders, name)
			}
		}
	}
	return folders
}

// Base returns the folder whose model all nodes of the study train, such as ./sparse-tags. It is empty if they train
// presets.
func (s Study) Base() string {
	for _, e := range s.Experiments {
		if trained := s.Trained(e); len(trained) > 0 && isFolder(trained[0]) {
			return trained[0]
		}
	}
	return ""
}

// isFolder tells whether a study's model is a folder rather than a preset.
func isFolder(name string) bool { return strings.HasPrefix(name, ".") || filepath.IsAbs(name) }

// FixesModels tells whether the study's experiments name their models. Such a study accepts no --model.
func (s Study) FixesModels() bool {
	return slices.ContainsFunc(s.Experiments, func(e StudyExperiment) bool { return len(e.Models) > 0 })
}
