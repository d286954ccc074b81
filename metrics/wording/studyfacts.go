package wording

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// modelsLead is the verdict of a study of several models in one sentence.
func modelsLead(s stats.Study) string {
	if len(s.Models) == 0 {
		return fmt.Sprintf("Undecided whether every model gains in a mixed swarm: this needs finished runs with held-out evaluations of the mixed swarm "+
			"and of each model alone, at least %d seeds of each.", *s.MoreSeeds)
	}
	better, worse := stats.ModelTally(s.Models)
	text := "Undecided whether every model gains"
	switch {
	case s.Outcome == stats.StudyBetter:
		text = "Every model gains"
	case s.Outcome == stats.StudyWorse:
		text = "Every model loses"
	case s.Outcome == stats.StudyMixed:
		text = fmt.Sprintf("Of %d models %d %s and %d %s", len(s.Models), better, units.Verb(better, "gain"), worse, units.Verb(worse, "lose"))
	case worse > 0:
		text = "Not every model gains, and some are undecided"
	}
	var parts []string
	for _, m := range s.Models {
		part := m.Model + " " + m.Pair.Outcome
		if m.MixedValue != nil && m.AloneValue != nil {
			part += fmt.Sprintf(" (%s against %s)", figure(m.MixedValue), figure(m.AloneValue))
		}
		parts = append(parts, part)
	}
	return text + " in a mixed swarm over a swarm of that model alone, by held-out pass@1: " + strings.Join(parts, ", ") + "."
}

// modelLine compares the nodes of one model in a mixed swarm with a swarm of that model alone.
func modelLine(m stats.StudyModel) string {
	if m.MixedValue == nil || m.AloneValue == nil {
		return fmt.Sprintf("Nodes with model %s: %s or %s has no held-out evaluation.", m.Model, m.Mixed, m.Alone)
	}
	text := fmt.Sprintf("Nodes with model %s: held-out pass@1 %s in %s against %s in %s", m.Model,
		figure(m.MixedValue), m.Mixed, figure(m.AloneValue), m.Alone)
	if p := m.Pair; p.CILow != nil && p.CIHigh != nil && p.PValueHolm != nil {
		text += fmt.Sprintf(" (%+.4f, 95 %% interval %+.4f to %+.4f; p = %s corrected)", *p.Difference, *p.CILow, *p.CIHigh, pText(*p.PValueHolm))
	}
	return text + ": " + verdict(m.Pair) + "."
}

// teacherLine says what the nodes that only generate count for.
func teacherLine(arms []string) []string {
	if arms == nil {
		return nil
	}
	return []string{fmt.Sprintf("Held-out pass@1 and rewards leave out the nodes of %s that only generate. Completions, tokens, times and money include them.",
		units.List(arms, "and"))}
}

// besideLine describes the study's outcome by the measure that does not decide.
func besideLine(s stats.Study) []string {
	b := s.Beside
	if s.Drawn != nil {
		return []string{fmt.Sprintf("Own rewards are not compared, because the experiments draw other questions (%s).", units.List(s.Drawn, "and"))}
	}
	if b == nil || b.Best == "" {
		return nil
	}
	what := Measure(b.Measure)
	if b.Measure == stats.MeasureReward {
		what = "own reward per node and round" // nodes or rounds differ, so sums are not comparable
		if b.Basis == stats.BasisCumulative {
			what = "cumulative own reward"
		}
	}
	by := "By"
	if !s.Per.EqualRounds() {
		by = "At equal rounds, by"
	}
	text := fmt.Sprintf("%s %s: %s is highest", by, what, b.Best)
	if b.Improvement != nil {
		text += fmt.Sprintf(", %+.1f %% over the baseline", 100**b.Improvement)
		if b.PValueHolm != nil {
			text += fmt.Sprintf(" (p = %s corrected)", pText(*b.PValueHolm))
		}
	}
	text += map[string]string{
		stats.StudyBest: "; it is best by that measure", stats.StudyBetter: "; better than the baseline, but not significantly better than all others",
		stats.StudyUndecided: "; undecided which is best",
	}[b.Outcome]
	switch {
	case b.Agrees == nil, !s.Per.EqualRounds():
	case *b.Agrees:
		text += ". Both measures have the same experiment highest"
	default:
		text += fmt.Sprintf(". The measures disagree: by %s it is %s", Measure(s.Measure), s.Best)
	}
	return []string{text + "."}
}

// paperWords has the text of each outcome. A pair that is decided the other way was not reproduced under these
// settings. That does not contradict the paper, which used another model and learning rate.
var paperWords = map[string]string{
	stats.PaperConfirmed:    "confirmed",
	stats.PaperContradicted: "not reproduced with this model and learning rate (decided the other way)",
	stats.PaperOpen:         "open",
}

// paperLines describes how many pairs of the paper's order a measure confirms.
func paperLines(p *stats.StudyPaper, measure string) []string {
	if p == nil {
		return nil
	}
	confirmed, confirmedReward := p.Count(stats.PaperConfirmed)
	contradicted, contradictedReward := p.Count(stats.PaperContradicted)
	open, openReward := p.Count(stats.PaperOpen)
	text := fmt.Sprintf("The paper's order is %s. Of its %s, at equal rounds, by %s %d confirmed, %d not reproduced, %d open", strings.Join(p.Order, " > "),
		units.Plural(len(p.Pairs), "pair"), Measure(measure), confirmed, contradicted, open)
	if measure != stats.MeasureReward {
		text += fmt.Sprintf("; by own reward %d, %d, %d", confirmedReward, contradictedReward, openReward)
	}
	lines := []string{text + "."}
	for _, outcome := range []string{stats.PaperConfirmed, stats.PaperContradicted, stats.PaperOpen} {
		var names []string
		for _, x := range p.Pairs {
			if x.Outcome == outcome {
				names = append(names, x.High+" > "+x.Low)
			}
		}
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("  %s: %s.", paperWords[outcome], strings.Join(names, ", ")))
		}
	}
	return lines
}
