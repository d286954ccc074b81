package study

import (
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Recorded returns, for each study with recorded runs, the options that compare these runs: users' studies, then the
// program's own. A study that was run with several models occurs once for each. Runs of another study that share an
// experiment do not count.
func Recorded(runs []store.Run, users ...configs.Study) ([]stats.CompareOptions, error) {
	studies := slices.Clone(users)
	for _, name := range configs.Studies() {
		s, err := configs.LoadStudy(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(users, func(u configs.Study) bool { return u.Name == name }) {
			studies = append(studies, s)
		}
	}
	models := make([][]string, len(studies))
	for _, run := range runs {
		i, model := studyOf(studies, run.Experiment)
		if i >= 0 && (studies[i].FixesModels() || sameModel(run.Model, model)) && !slices.Contains(models[i], model) {
			models[i] = append(models[i], model)
		}
	}
	var out []stats.CompareOptions
	for i, s := range studies {
		for _, model := range models[i] {
			o, err := CompareOptions(s, model)
			if err != nil {
				return nil, err
			}
			out = append(out, o)
		}
	}
	return out, nil
}

// studyOf finds the study of an experiment by its name, and the model that the name contains. The index is -1 if there
// is none. The study with the longest name counts: sparse-tags-8loc0ext belongs to sparse-tags, not to sparse.
func studyOf(studies []configs.Study, experiment string) (index int, model string) {
	index = -1
	for i, s := range studies {
		of, ok := modelOf(s, experiment)
		if ok && (index < 0 || len(s.Name) > len(studies[index].Name)) {
			index, model = i, of
		}
	}
	return index, model
}

// modelOf returns the model in the name of an experiment, if the experiment is the study's own. Empty: nano, or the
// models that the study fixes.
func modelOf(s configs.Study, experiment string) (model string, ok bool) {
	rest, ok := strings.CutPrefix(experiment, s.Name+"-")
	if !ok {
		return "", false
	}
	arm := ""
	for _, e := range s.Experiments {
		if of, ok := strings.CutSuffix("-"+rest, "-"+e.Name); ok && len(e.Name) > len(arm) {
			arm, model = e.Name, strings.TrimPrefix(of, "-")
		}
	}
	ok = arm != "" && s.ExperimentName(model, arm) == experiment && (model == "" || !s.FixesModels())
	return model, ok
}

// sameModel reports whether a run's model can be the one in its experiment's name. If it is not, a study that is not
// known here has a longer name. Names of folders and revisions differ from their paths.
func sameModel(trained, named string) bool {
	trained, named = configs.ModelName(trained), configs.ModelName(named)
	presets := configs.Models()
	return trained == named || !slices.Contains(presets, trained) && !slices.Contains(presets, named)
}
