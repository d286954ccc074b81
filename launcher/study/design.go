package study

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// CompareOptions returns the options that compare a study's runs with a model (empty: nano).
func CompareOptions(study configs.Study, model string) (o stats.CompareOptions, err error) {
	o.Study, o.Measure = Design(study, model), study.Measure
	o.Study.Keys, err = Keys(study, model)
	return o, err
}

// Design returns the design of a study with a model (empty: nano), without the compared keys.
func Design(study configs.Study, model string) *stats.StudyDesign {
	d := &stats.StudyDesign{Name: study.Name, Source: cmp.Or(study.Path, study.Name), Question: study.Question, Baseline: study.Baseline,
		Seeds: study.With(model).Seeds, Contrasts: study.Contrasts, Explored: study.With(model).Explored}
	if !study.FixesModels() {
		d.Model = configs.ModelName(model)
	}
	for _, e := range study.Experiments {
		d.Arms = append(d.Arms, stats.StudyArm{Name: e.Name, Experiment: study.ExperimentName(model, e.Name), Nodes: e.Nodes,
			Models: len(study.Trained(e))})
	}
	return d
}

// Keys returns the settings in which a study's experiments differ by design. They include the default settings of
// the models.
func Keys(study configs.Study, model string) ([]string, error) {
	m, err := configs.LoadModel(configs.ModelName(model))
	if err != nil { // a folder: the model's shape has no effect here
		m = configs.Model{Name: model}
	}
	settings, err := study.Settings(model, m)
	if err != nil {
		return nil, err
	}
	keys := configs.Compared(settings)
	if !study.FixesModels() || study.Base() != "" { // all experiments have one model
		return keys, nil
	}
	keys = append(keys, "model", "models", "weights")
	for _, e := range study.Experiments {
		for _, name := range study.Trained(e) {
			m, err := configs.LoadModel(name)
			if err != nil {
				return nil, err
			}
			values, err := configs.PresetValues(m.Defaults)
			if err != nil {
				return nil, err
			}
			keys = slices.AppendSeq(keys, maps.Keys(values))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}
