package stats

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// StudyModel is what the nodes of one model come to in a swarm of several models, against a swarm of that model alone: an arm's mean over nodes of
// different models tells mostly which models they are.
type StudyModel struct {
	Model      string   `json:"model"`
	Mixed      string   `json:"mixed"` // arm with several models
	Alone      string   `json:"alone"` // arm with that model only
	MixedValue *float64 `json:"mixed_value"`
	AloneValue *float64 `json:"alone_value"`
	Pair       Pair     `json:"pair"` // A is of mixed, B of alone; corrected for the study's pairs of this kind
}

// newStudyModels compares each model's nodes in each arm of several models with the first arm of that model alone, by pass@1.
func newStudyModels(j judged, runs Runs) []StudyModel {
	out := []StudyModel{}
	samples := map[string]sample{}
	var pairs []Pair
	groups := groupRuns(runs.Totals, CompareOptions{})
	for _, mixed := range groups {
		models := modelsOf(mixed, runs)
		for _, model := range models {
			i := slices.IndexFunc(groups, func(g group) bool { return slices.Equal(modelsOf(g, runs), []string{model}) })
			if len(models) < 2 || i < 0 {
				continue
			}
			x := StudyModel{Model: model, Mixed: j.name(mixed.name), Alone: j.name(groups[i].name)}
			a := sample{fmt.Sprintf("%s nodes of %s", model, x.Mixed), j.ofModel(mixed, model, runs)}
			b := sample{fmt.Sprintf("%s nodes of %s", model, x.Alone), j.ofModel(groups[i], model, runs)}
			samples[a.name], samples[b.name] = a, b
			x.MixedValue, x.AloneValue = optional(Mean(a.values)), optional(Mean(b.values))
			out, pairs = append(out, x), append(pairs, newPair(a, b))
		}
	}
	decide(pairs, samples, "no held-out evaluation", enoughSeeds)
	for i := range out {
		out[i].Pair = pairs[i]
	}
	return out
}

// modelsOf names the models that a group's nodes were evaluated with.
func modelsOf(g group, runs Runs) []string {
	models := map[string]bool{}
	for _, r := range g.runs {
		for model := range runs.ModelEvals[r.Run.Run] {
			models[model] = true
		}
	}
	return slices.Sorted(maps.Keys(models))
}

// ofModel is pass@1 of a group's nodes of one model, by seed ascending.
func (j *judged) ofModel(g group, model string, runs Runs) []float64 {
	return g.perSeed(func(r store.Totals) (float64, bool) {
		e := runs.ModelEvals[r.Run.Run][model]
		return passValue(map[string]store.EvalTotal{r.Run.Run: e}, j.c.EvalSet)(r)
	})
}

// line puts it into words.
func (m StudyModel) line() string {
	if m.MixedValue == nil || m.AloneValue == nil {
		return fmt.Sprintf("Of the nodes with model %s, %s or %s has no held-out evaluation.", m.Model, m.Mixed, m.Alone)
	}
	text := fmt.Sprintf("Nodes with model %s: held-out pass@1 %s in %s against %s in %s", m.Model,
		figure(m.MixedValue), m.Mixed, figure(m.AloneValue), m.Alone)
	if p := m.Pair; p.CILow != nil && p.CIHigh != nil && p.PValueHolm != nil {
		text += fmt.Sprintf(" (%+.4f, 95 %% interval %+.4f to %+.4f; p = %s corrected)", *p.Difference, *p.CILow, *p.CIHigh, pText(*p.PValueHolm))
	}
	return text + ": " + m.Pair.Verdict + "."
}
