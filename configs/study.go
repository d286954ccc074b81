package configs

import (
	"bytes"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Values of Study.Measure.
const (
	MeasureEval   = "eval"   // held-out pass@1 of the last evaluation
	MeasureReward = "reward" // cumulative own reward, the paper's
)

// NanoModel is the model of a study that is run without a choice of one: its experiments have the plain names.
const NanoModel = "nano"

// Study is a question and the experiments that answer it, each run with the same seeds. `swarm sweep --study` runs it.
type Study struct {
	Name        string                `yaml:"-"`        // the file's
	Question    string                `yaml:"question"` // that it answers
	Baseline    string                `yaml:"baseline"` // the experiment that the others are compared with
	Measure     string                `yaml:"measure"`  // what decides: MeasureEval or MeasureReward
	Seeds       int                   `yaml:"seeds"`
	Rounds      int                   `yaml:"rounds"`
	Set         map[string]any        `yaml:"set"`    // Config keys of all experiments
	Models      map[string]StudyModel `yaml:"models"` // what is otherwise with a model, by its preset
	Experiments []StudyExperiment     `yaml:"experiments"`
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
	Config             string         `yaml:"config"` // experiment preset
	Set                map[string]any `yaml:"set"`
	Nodes              int            `yaml:"nodes"`                // 0: as many as fit
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
	return s, s.check()
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

// ExperimentNames are the names that the study's experiments are recorded under when they are run with a model (a preset, its Hugging
// Face id, or a folder; "" is nano), in the study's order.
func (s Study) ExperimentNames(model string) []string {
	var names []string
	for _, e := range s.Experiments {
		names = append(names, s.ExperimentName(model, e.Name))
	}
	return names
}

// ExperimentName is the name that one of the study's experiments is recorded under: paper-8loc0ext, paper-gpt2-8loc0ext.
func (s Study) ExperimentName(model, experiment string) string {
	return s.Prefix(model) + experiment
}

// Prefix is what the names of ExperimentNames begin with.
func (s Study) Prefix(model string) string {
	if model = modelName(model); model == NanoModel {
		return s.Name + "-"
	}
	return s.Name + "-" + model + "-"
}

// With is the study as it is run with a model: that model's seeds, rounds and keys in the places of the study's own.
func (s Study) With(model string) Study {
	own, ok := s.Models[modelName(model)]
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

// FixesModels tells whether the study's experiments name their models, so that it has no choice of one.
func (s Study) FixesModels() bool {
	return slices.ContainsFunc(s.Experiments, func(e StudyExperiment) bool { return len(e.Models) > 0 })
}

// Settings are the values by key that an experiment of the study has above its preset and the model's defaults: its name, rounds and
// model among them. m is the model it is run with: the first of its Models, where it has any.
func (s Study) Settings(m Model, e StudyExperiment) (map[string]any, error) {
	of := s.With(m.Name)
	values := map[string]any{"experiment": s.ExperimentName(m.Name, e.Name), "rounds": of.Rounds, "model": m.Name}
	if m.Folder() {
		values["model"] = m.Weights
	}
	if s.FixesModels() {
		values["experiment"] = s.ExperimentName("", e.Name)
	}
	if len(e.Models) > 1 {
		values["models"] = strings.Join(e.Models, ",")
	}
	defaults, err := PresetValues(m.Defaults)
	if err != nil {
		return nil, err
	}
	if e.LearningRateFactor > 0 {
		rate, ok := defaults["learning_rate"].(float64)
		if !ok {
			rate = Default().LearningRate
		}
		values["learning_rate"] = round6(rate * e.LearningRateFactor)
	}
	for _, set := range []map[string]any{of.Set, e.Set} {
		typed, err := PresetValues(set)
		if err != nil {
			return nil, err
		}
		maps.Copy(values, typed)
	}
	return values, nil
}

var notInModelName = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// modelName is a model as experiments' names have it: its preset's, or its folder's.
func modelName(model string) string {
	if model == "" {
		return NanoModel
	}
	if m, err := LoadModel(model); err == nil {
		return m.Name
	}
	name := strings.Trim(notInModelName.ReplaceAllString(filepath.Base(filepath.Clean(model)), "-"), "-._")
	return name[:min(len(name), 24)]
}

// round6 keeps six significant digits: a rate times a factor, as people write it.
func round6(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		return x
	}
	return y
}
