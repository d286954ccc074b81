package stats

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// StudyModel compares the nodes of one model in a swarm of several models with a swarm of that model alone. A mean over
// nodes of different models would mostly reflect which models they are.
type StudyModel struct {
	Model      string   `json:"model"`
	Mixed      string   `json:"mixed"` // arm with several models
	Alone      string   `json:"alone"` // arm with only that model
	MixedValue *float64 `json:"mixed_value"`
	AloneValue *float64 `json:"alone_value"`
	Pair       Pair     `json:"pair"` // A: mixed, B: alone; corrected for the study's pairs of this kind
}

// newStudyModels compares each model's nodes in each arm of several models with the first arm of that model alone, by
// pass@1.
func newStudyModels(j Judgment, runs Runs) []StudyModel {
	out := []StudyModel{}
	var pairs []Pair
	seen := 0 // models in arms of several models, with or without an arm of their own
	groups := groupRuns(runs.Totals, CompareOptions{arms: true})
	for _, mixed := range groups {
		models := modelsOf(mixed, runs)
		for _, model := range models {
			i := slices.IndexFunc(groups, func(g group) bool { return slices.Equal(modelsOf(g, runs), []string{model}) })
			if len(models) < 2 {
				continue
			}
			if seen++; i < 0 {
				continue
			}
			x := StudyModel{Model: model, Mixed: j.Name(mixed.name), Alone: j.Name(groups[i].name)}
			a := side{fmt.Sprintf("%s nodes of %s", model, x.Mixed), j.ofModel(mixed, model, runs)}
			b := side{fmt.Sprintf("%s nodes of %s", model, x.Alone), j.ofModel(groups[i], model, runs)}
			x.MixedValue, x.AloneValue = Optional(sample.Mean(a.values)), Optional(sample.Mean(b.values))
			pair := newPair(a, b)
			if !j.sameRound(model, runs, mixed, groups[i]) {
				a.values, b.values = nil, nil
				pair = newPair(a, b)
				pair.short = true
			}
			out, pairs = append(out, x), append(pairs, pair)
		}
	}
	decide(pairs, ReasonNoEvaluation, max(seen, j.Design.modelPairs()))
	for i := range out {
		out[i].Pair = pairs[i]
	}
	return out
}

// modelsOf lists the models with which a group's nodes were evaluated.
func modelsOf(g group, runs Runs) []string {
	models := map[string]bool{}
	for _, r := range g.runs {
		for model := range runs.ModelEvals[r.Run.Run] {
			models[model] = true
		}
	}
	return slices.Sorted(maps.Keys(models))
}

// ofModel returns pass@1 of a group's nodes of one model, one value per seed, ascending.
func (j *Judgment) ofModel(g group, model string, runs Runs) []float64 {
	return g.perSeed(func(r store.Totals) (float64, bool) {
		e := runs.ModelEvals[r.Run.Run][model]
		completions := e.Questions * e.Generations
		if e.Set != j.Comparison.EvalSet || completions <= 0 {
			return 0, false
		}
		return float64(e.Correct) / float64(completions), true
	})
}

// sameRound reports whether the evaluations of a model's nodes have the same round in both groups.
func (j *Judgment) sameRound(model string, runs Runs, groups ...group) bool {
	rounds := map[int]bool{}
	for _, g := range groups {
		for _, r := range g.runs {
			if e, ok := runs.ModelEvals[r.Run.Run][model]; ok && e.Set == j.Comparison.EvalSet {
				rounds[e.Round] = true
			}
		}
	}
	return len(rounds) < 2
}

// modelPairs returns the planned number of pairs in Models.
func (d StudyDesign) modelPairs() int {
	n := 0
	for _, a := range d.Arms {
		if a.Models > 1 {
			n += a.Models
		}
	}
	return n
}

// OfModels reports whether the study compares models within mixed swarms.
func (s Study) OfModels() bool { return s.ofModels(s.Judgment.Design) }

func (s Study) ofModels(d StudyDesign) bool { return len(s.Models) > 0 || d.modelPairs() > 0 }

// ModelTally counts the models that gain and those that lose.
func ModelTally(models []StudyModel) (better, worse int) {
	for _, m := range models {
		switch m.Pair.Outcome {
		case OutcomeBetter:
			better++
		case OutcomeWorse:
			worse++
		}
	}
	return better, worse
}

// modelsOutcome returns the outcome of a study of several models with a planned number of pairs. It is undecided until
// every pair is decided.
func modelsOutcome(models []StudyModel, planned int) string {
	better, worse := ModelTally(models)
	switch {
	case better+worse < max(1, len(models), planned):
		return StudyUndecided
	case worse == 0:
		return StudyBetter
	case better == 0:
		return StudyWorse
	}
	return StudyMixed
}

// moreSeedsOf returns the least number of additional seeds per side that would decide every model, with that many
// planned pairs; nil: none needed, or unknown.
func moreSeedsOf(models []StudyModel, planned int) *int {
	var most *int
	for _, m := range models {
		if m.Pair.MoreSeeds != nil && (most == nil || *m.Pair.MoreSeeds > *most) {
			most = m.Pair.MoreSeeds
		}
	}
	if len(models) == 0 {
		most = new(int)
		*most = sample.SeedsToDecide(planned, 0, 0)
	}
	return most
}
