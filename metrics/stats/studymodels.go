package stats

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
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
	var sides []matched
	var pairs []Pair
	seen := 0 // models in swarms of several, whether there are runs of theirs alone or not
	groups := groupRuns(runs.Totals, CompareOptions{least: enoughSeeds})
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
			x := StudyModel{Model: model, Mixed: j.name(mixed.name), Alone: j.name(groups[i].name)}
			a := sample{fmt.Sprintf("%s nodes of %s", model, x.Mixed), j.ofModel(mixed, model, runs)}
			b := sample{fmt.Sprintf("%s nodes of %s", model, x.Alone), j.ofModel(groups[i], model, runs)}
			x.MixedValue, x.AloneValue = optional(Mean(a.values)), optional(Mean(b.values))
			pair := newPair(a, b)
			if !j.sameRound(model, runs, mixed, groups[i]) {
				a.values, b.values = nil, nil
				pair = newPair(a, b)
				pair.short = true
			}
			out, pairs, sides = append(out, x), append(pairs, pair), append(sides, matched{a, b})
		}
	}
	decide(pairs, sides, "no held-out evaluation", enoughSeeds, max(seen, j.d.modelPairs()))
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
		completions := e.Questions * e.Generations
		if e.Set != j.c.EvalSet || completions <= 0 {
			return 0, false
		}
		return float64(e.Correct) / float64(completions), true
	})
}

// sameRound tells whether the evaluations of a model's nodes are after equally many rounds in both groups.
func (j *judged) sameRound(model string, runs Runs, groups ...group) bool {
	rounds := map[int]bool{}
	for _, g := range groups {
		for _, r := range g.runs {
			if e, ok := runs.ModelEvals[r.Run.Run][model]; ok && e.Set == j.c.EvalSet {
				rounds[e.Round] = true
			}
		}
	}
	return len(rounds) < 2
}

// modelPairs is how many pairs of Models the design comes to.
func (d StudyDesign) modelPairs() int {
	n := 0
	for _, a := range d.Arms {
		if a.Models > 1 {
			n += a.Models
		}
	}
	return n
}

// ofModels tells whether the study asks what swarms of several models do to each of these.
func (s Study) ofModels(d StudyDesign) bool { return len(s.Models) > 0 || d.modelPairs() > 0 }

// tally counts the models that gain, and those that lose.
func tally(models []StudyModel) (better, worse int) {
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

// modelsOutcome is the outcome of a study of several models, of which so many pairs are planned: decided where each of them is.
func modelsOutcome(models []StudyModel, planned int) string {
	better, worse := tally(models)
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

// moreSeedsOf is how many more seeds a side at least decide every model; nil: none, or nobody can say.
func moreSeedsOf(models []StudyModel) *int {
	var most *int
	for _, m := range models {
		if m.Pair.MoreSeeds != nil && (most == nil || *m.Pair.MoreSeeds > *most) {
			most = m.Pair.MoreSeeds
		}
	}
	if len(models) == 0 {
		most = new(int)
		*most = enoughSeeds
	}
	return most
}

// modelsLead is the verdict of a study of several models in one sentence.
func (s Study) modelsLead() string {
	if len(s.Models) == 0 {
		return fmt.Sprintf("Undecided whether every model gains in a swarm of several: it takes finished runs with held-out evaluations of that swarm "+
			"and of each model alone, at least %d seeds of each.", enoughSeeds)
	}
	better, worse := tally(s.Models)
	text := "Undecided whether every model gains"
	switch {
	case s.Outcome == StudyBetter:
		text = "Every model gains"
	case s.Outcome == StudyWorse:
		text = "Every model loses"
	case s.Outcome == StudyMixed:
		text = fmt.Sprintf("Of %d models %d %s and %d %s", len(s.Models), better, units.Verb(better, "gain"), worse, units.Verb(worse, "lose"))
	case worse > 0:
		text = "Not every model gains, and of some it is undecided"
	}
	var parts []string
	for _, m := range s.Models {
		part := m.Model + " " + m.Pair.Outcome
		if m.MixedValue != nil && m.AloneValue != nil {
			part += fmt.Sprintf(" (%s against %s)", figure(m.MixedValue), figure(m.AloneValue))
		}
		parts = append(parts, part)
	}
	return text + " in a swarm of several over one of its own, by held-out pass@1: " + strings.Join(parts, ", ") + "."
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
