package stats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// listedRuns is how many runs one line names.
const listedRuns = 8

// lines put the verdict, and what it rests on, into words.
func (j *judged) lines(s Study) []string {
	lines := []string{j.lead()}
	if s.ofModels(j.d) {
		lines = []string{s.modelsLead()}
		for _, m := range s.Models {
			lines = append(lines, m.line())
		}
		lines = append(lines, "The experiments by the mean over all nodes, whatever their model, which answers another question: "+j.lead())
	}
	if len(j.ranked) > 0 {
		best, base := j.ranked[0].Experiment, j.d.baseline().Experiment
		if best != base {
			lines = append(lines, j.gainLine("Over the baseline", best, base)...)
		}
		if len(j.ranked) > 1 && j.ranked[1].Experiment != base {
			lines = append(lines, j.gainLine("Over the next best", best, j.ranked[1].Experiment)...)
		}
	}
	if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  By pairs") }) {
		lines = append(lines, "  Welch's test decides: equal seeds share first weights and questions, but their swarms part ways within rounds.")
	}
	if s.MoreSeeds != nil {
		lines = append(lines, "P-values hold for a number of seeds that was chosen beforehand: add the number named, then decide once.")
	}
	if most := s.mostSeeds(); j.d.Seeds > 0 && most > j.d.Seeds && len(j.ranked) > 1 {
		lines = append(lines, fmt.Sprintf("Up to %d seeds, where the study plans %d: if some were added after a look at the verdict, count its p-values double.", most, j.d.Seeds))
	}
	lines = append(lines, j.besideLine(s)...)
	lines = append(lines, s.Paper.lines(j.c.Measure)...)
	lines = append(lines, j.besideStudied()...)
	lines = append(lines, j.unvalued()...)
	lines = append(lines, runsLine("Failed, and in no mean: ", s.Failed)...)
	lines = append(lines, runsLine("Unfinished, and in no mean: ", s.Unfinished)...)
	return append(lines, runsLine("Not begun: ", s.Missing)...)
}

// mostSeeds is that of the arm with the most.
func (s *Study) mostSeeds() (most int) {
	for _, a := range s.Arms {
		most = max(most, a.Seeds)
	}
	return most
}

// lead is the verdict in one sentence.
func (j *judged) lead() string {
	base := j.d.baseline()
	if len(j.ranked) == 0 {
		if heldOut(j.c.Measure) {
			return "Undecided which is best: no finished run has a held-out evaluation."
		}
		return "Undecided which is best: no run is finished."
	}
	best := j.ranked[0]
	isBase := best.Experiment == base.Experiment
	value := fmt.Sprintf("%s %s", MeasureName(j.c.Measure), figure(best.Value))
	switch {
	case len(j.d.Arms) < 2:
		return fmt.Sprintf("Undecided: %s is the study's only experiment (%s).", j.label(best.Experiment), value)
	case j.outcome == StudyBest && isBase:
		return fmt.Sprintf("The baseline %s is best: %s%s.", j.label(best.Experiment), value, j.above(best, j.ranked[1], "the next best"))
	case j.outcome == StudyBest:
		text := fmt.Sprintf("%s is best: %s%s", j.label(best.Experiment), value, j.above(best, *j.ranking(base.Experiment), "the baseline"))
		if j.ranked[1].Experiment != base.Experiment {
			text += j.above(best, j.ranked[1], "the next best")
		}
		return text + "."
	case j.outcome == StudyBetter:
		return fmt.Sprintf("%s is better than the baseline %s, but not told apart from %s: %s%s.", j.label(best.Experiment), j.label(base.Experiment),
			j.openNames(), value, j.above(best, *j.ranking(base.Experiment), "the baseline"))
	case isBase:
		return fmt.Sprintf("Undecided which is best: the baseline %s is highest (%s), but not told apart from %s: %s.",
			j.label(best.Experiment), value, j.openNames(), j.why())
	}
	return fmt.Sprintf("Undecided which is best: %s is highest (%s), but not told apart from the baseline %s: %s.",
		j.label(best.Experiment), value, j.label(base.Experiment), j.why())
}

// above is ", 31.0 % above the next best 2loc6ext (2/6) (0.1090)".
func (j *judged) above(best, other Row, role string) string {
	by := "above"
	if change := Improvement(*best.Value, *other.Value); units.Finite(change) {
		by = fmt.Sprintf("%.1f %% above", 100*change)
	}
	return fmt.Sprintf(", %s %s %s (%s)", by, role, j.label(other.Experiment), figure(other.Value))
}

// why is what keeps the highest from being the best.
func (j *judged) why() string {
	p, _ := j.deciding()
	if p.SeedsA > 0 && p.SeedsB > 0 {
		return strings.TrimPrefix(j.words(p.Verdict), "undecided: ")
	}
	missing := "finished run"
	if p.SeedsB == 0 && j.ranking(p.B) == nil && heldOut(j.c.Measure) && slices.ContainsFunc(j.c.Rows, func(r Row) bool { return r.Experiment == p.B }) {
		missing = "held-out evaluation"
	}
	return fmt.Sprintf("%s has no %s, at least %d seeds needed", j.label(p.B), missing, enoughSeeds)
}

// gainLine is what an arm's gain over another rests on.
func (j *judged) gainLine(role, a, b string) []string {
	p, ok := j.pair(a, b)
	if !ok || p.Difference == nil {
		return nil
	}
	facts := []string{}
	if p.CILow != nil && p.CIHigh != nil {
		facts = append(facts, fmt.Sprintf("95 %% interval %+.4f to %+.4f", *p.CILow, *p.CIHigh))
	}
	if p.PValue != nil {
		text := "p = " + pText(*p.PValue)
		if tests := j.c.tests(); p.PValueHolm != nil && tests > 1 {
			text += fmt.Sprintf(", %s corrected for %d comparisons", pText(*p.PValueHolm), tests)
		}
		facts = append(facts, text)
	}
	facts = append(facts, fmt.Sprintf("%d %s against %d", p.SeedsA, units.Noun(p.SeedsA, "seed"), p.SeedsB))
	text := fmt.Sprintf("%s %s: %+.4f", role, j.label(b), *p.Difference)
	if p.Improvement != nil {
		text += fmt.Sprintf(", %+.1f %%", 100**p.Improvement)
	}
	text += " (" + strings.Join(facts, "; ") + "): " + j.words(p.Verdict) + "."
	return append([]string{text}, j.pairedLine(a, b)...)
}

// pairedLine is the same by pairs of equal seeds.
func (j *judged) pairedLine(a, b string) []string {
	p := Paired(j.values[a], j.values[b])
	if p == nil || p.PValue == nil || p.CILow == nil || p.CIHigh == nil {
		return nil
	}
	return []string{fmt.Sprintf("  By pairs of equal seeds: %+.4f (95 %% interval %+.4f to %+.4f; p = %s, not corrected; %d pairs): "+
		"decides nothing.",
		*p.Difference, *p.CILow, *p.CIHigh, pText(*p.PValue), p.Seeds)}
}

func (j *judged) besideLine(s Study) []string {
	b := s.Beside
	if b == nil || b.Best == "" {
		return nil
	}
	what := MeasureName(b.Measure)
	if b.Measure == MeasureReward {
		what = "own reward a node-round" // nodes or rounds differ, so that sums don't compare
		if b.Basis == BasisCumulative {
			what = "cumulative own reward"
		}
	}
	text := fmt.Sprintf("By %s: %s is highest", what, b.Best)
	if b.Improvement != nil {
		text += fmt.Sprintf(", %+.1f %% over the baseline", 100**b.Improvement)
		if b.PValueHolm != nil {
			text += fmt.Sprintf(" (p = %s corrected)", pText(*b.PValueHolm))
		}
	}
	text += map[string]string{
		StudyBest: "; it is best by that measure", StudyBetter: "; better than the baseline, not told apart from every other",
		StudyUndecided: "; undecided which is best",
	}[b.Outcome]
	switch {
	case b.Agrees == nil:
	case *b.Agrees:
		text += ". Both measures have the same highest"
	default:
		text += fmt.Sprintf(". The measures disagree: by %s it is %s", MeasureName(s.Measure), s.Best)
	}
	return []string{text + "."}
}

// paperWords say an outcome. A pair that is decided the other way here was not reproduced under these settings. That does not contradict the
// paper, whose model and rate are others.
var paperWords = map[string]string{
	PaperConfirmed:    "confirmed",
	PaperContradicted: "not reproduced here (decided the other way)",
	PaperOpen:         "open",
}

func (p *StudyPaper) lines(measure string) []string {
	if p == nil {
		return nil
	}
	confirmed, confirmedReward := p.count(PaperConfirmed)
	contradicted, contradictedReward := p.count(PaperContradicted)
	open, openReward := p.count(PaperOpen)
	text := fmt.Sprintf("The paper's order is %s. Of its %d %s, at equal rounds, by %s %d confirmed, %d not reproduced, %d open", strings.Join(p.Order, " > "), len(p.Pairs),
		units.Noun(len(p.Pairs), "pair"), MeasureName(measure), confirmed, contradicted, open)
	if measure != MeasureReward {
		text += fmt.Sprintf("; by own reward %d, %d, %d", confirmedReward, contradictedReward, openReward)
	}
	lines := []string{text + "."}
	for _, outcome := range []string{PaperConfirmed, PaperContradicted, PaperOpen} {
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

// besideStudied names the settings that differ between the arms although the study doesn't compare them.
func (j *judged) besideStudied() []string {
	var keys []string
	for _, p := range j.c.Pairs {
		for _, d := range p.Differs {
			if d.Role != RoleStudy && d.effect != EffectName && !slices.Contains(keys, d.Key) {
				keys = append(keys, d.Key)
			}
		}
	}
	if keys == nil {
		return nil
	}
	slices.Sort(keys)
	for i, key := range keys {
		if key == "swarm" || key == "torch" {
			keys[i] = "the version of " + key
		}
	}
	return []string{"Beside what the study compares, its runs differ in " + strings.Join(keys, ", ") + "."}
}

// unvalued tells of finished runs that have no value of the measure.
func (j *judged) unvalued() []string {
	var lines []string
	if !heldOut(j.c.Measure) {
		return nil
	}
	for _, r := range j.c.Rows {
		if seeds := len(j.values[r.Experiment]); seeds < r.Runs && seeds == 0 {
			lines = append(lines, fmt.Sprintf("%s: none of its %d finished %s has a held-out evaluation of the study's questions.",
				j.label(r.Experiment), r.Runs, units.Noun(r.Runs, "run")))
		} else if seeds < r.Runs {
			lines = append(lines, fmt.Sprintf("%s: its %d finished runs give %d %s: the others repeat a seed, or have no held-out evaluation of "+
				"the study's questions.", j.label(r.Experiment), r.Runs, seeds, units.Noun(seeds, "value")))
		}
	}
	return lines
}

func runsLine(lead string, runs []StudyRun) []string {
	if len(runs) == 0 {
		return nil
	}
	var parts []string
	for _, r := range runs[:min(len(runs), listedRuns)] {
		text := fmt.Sprintf("%s seed %d", r.Name, r.Seed)
		if r.State != stateMissing {
			text += " (" + r.State
			if r.Message != "" && (r.State == store.RunFailed || r.State == store.RunLost) {
				text += ": " + r.Message
			}
			if r.Again {
				text += "; run again since"
			}
			text += ")"
		}
		parts = append(parts, text)
	}
	if more := len(runs) - listedRuns; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return []string{lead + strings.Join(parts, ", ") + "."}
}

// words is a verdict with the arms' short names.
func (j *judged) words(verdict string) string { return shortNames(j.d.Arms).Replace(verdict) }

// label is an arm with its I/J, as far as the name doesn't tell.
func (j *judged) label(experiment string) string {
	name := j.name(experiment)
	for _, r := range j.c.Rows {
		if r.Experiment == experiment && !strings.HasPrefix(name, r.Config) {
			return fmt.Sprintf("%s (%s)", name, r.Config)
		}
	}
	return name
}

// openNames are the arms that the highest isn't told apart from.
func (j *judged) openNames() string {
	names := make([]string, len(j.open))
	for i, arm := range j.open {
		names[i] = j.label(arm.Experiment)
	}
	return units.List(names, "and")
}

// ranking is the row of an experiment that has a value, nil of one that hasn't.
func (j *judged) ranking(experiment string) *Row {
	if i := slices.IndexFunc(j.ranked, func(r Row) bool { return r.Experiment == experiment }); i >= 0 {
		return &j.ranked[i]
	}
	return nil
}

func figure(v *float64) string { return fmt.Sprintf("%.4f", *v) }

func pText(p float64) string {
	if p < 0.0001 {
		return "below 0.0001"
	}
	return fmt.Sprintf("%.2g", p)
}
