package configs

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// namingKeys are the keys of Settings that identify an experiment and its model.
var namingKeys = []string{"experiment", "model", "models"}

// Settings returns, in the study's order, each experiment's values by key above the model's defaults: its name,
// rounds and model, its preset's values, the study's and its own. If any experiment has a key, all have it, with the
// default where nothing sets it. So a lower layer can't change an experiment. named is the user's name for the model
// ("" is nano), m the model. Experiments that name their models ignore both, but m is also the model of Base.
func (s Study) Settings(named string, m Model) ([]map[string]any, error) {
	of := s.With(named)
	var all, defaults []map[string]any
	keys := map[string]bool{}
	for _, e := range s.Experiments {
		below, values, err := of.settings(m, e)
		if err != nil {
			return nil, err
		}
		values["experiment"] = s.ExperimentName(named, e.Name)
		if s.FixesModels() {
			values["experiment"] = s.ExperimentName("", e.Name)
		}
		for key := range values {
			keys[key] = true
		}
		all, defaults = append(all, values), append(defaults, below)
	}
	delete(keys, "models") // an experiment without it has one model, which is set
	for i, values := range all {
		for key := range keys {
			if _, ok := values[key]; !ok {
				values[key] = defaults[i][key]
			}
		}
	}
	return all, nil
}

// settings returns an experiment's values, and the layers below them: the program's defaults and its model's. If the
// first nodes only generate, the values begin with the defaults of the first model that trains: a swarm takes the
// defaults of its first node's model.
func (s Study) settings(m Model, e StudyExperiment) (below, values map[string]any, err error) {
	if trained := s.Trained(e); len(trained) > 0 && s.Base() == "" {
		if m, err = LoadModel(trained[0]); err != nil {
			return nil, nil, err
		}
	}
	preset, err := Experiment(e.Config)
	if err != nil {
		return nil, nil, err
	}
	own := map[string]any{"rounds": s.Rounds, "model": cmp.Or(s.Base(), m.Name)}
	if m.Folder() {
		own["model"] = m.Weights
	}
	if len(e.Models) > 1 {
		own["models"] = strings.Join(e.Models, ",")
	}
	taught := map[string]any{}
	if s.teachers(e) > 0 && len(e.Models) > 0 {
		own["model"], taught = e.Models[0], maps.Clone(m.Defaults)
		delete(taught, "micro_batch") // each model's own
	}
	if below, err = stack(Values(Default()), m.Defaults); err != nil {
		return nil, nil, err
	}
	if rate, ok := below["learning_rate"].(float64); ok && e.LearningRateFactor > 0 {
		own["learning_rate"] = round6(rate * e.LearningRateFactor)
	}
	values, err = stack(map[string]any{}, taught, s.algorithm(), preset, own, s.Set, e.Set)
	return below, values, err
}

// algorithm returns PaperValues if the study has the paper's algorithm, else nothing. Recorded runs have auto, which is
// the paper's uniform sampling at the barrier.
func (s Study) algorithm() map[string]any {
	if !s.Paper {
		return map[string]any{}
	}
	values := PaperValues()
	values["external_sampling"] = SamplingAuto
	return values
}

// Fixed returns the values that the study sets in all experiments, unless an experiment or its preset sets another.
func (s Study) Fixed() map[string]any {
	fixed := s.algorithm()
	maps.Copy(fixed, s.Set)
	return fixed
}

// stack merges presets into values, which it changes. Later presets win.
func stack(values map[string]any, presets ...map[string]any) (map[string]any, error) {
	for _, preset := range presets {
		typed, err := PresetValues(preset)
		if err != nil {
			return nil, err
		}
		maps.Copy(values, typed)
	}
	return values, nil
}

// Compared returns the keys that the study compares: those whose values differ between its experiments, in
// alphabetical order. settings is the result of Settings.
func Compared(settings []map[string]any) []string {
	var keys []string
	for _, values := range settings {
		for key, value := range values {
			if first, ok := settings[0][key]; (!ok || first != value) && !slices.Contains(namingKeys, key) && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// ComparesNodes tells whether the study's experiments differ in their number of nodes.
func (s Study) ComparesNodes() bool {
	return slices.ContainsFunc(s.Experiments, func(e StudyExperiment) bool { return s.NodesOf(e) != s.NodesOf(s.Experiments[0]) })
}

// round6 rounds to six significant digits, so that a rate times a factor prints as a short number.
func round6(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		return x
	}
	return y
}
