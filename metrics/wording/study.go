package wording

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// listedRuns bounds the runs listed on one line.
const listedRuns = 8

// study sets the texts of a study: the verdicts of its pairs and models, its lines, and its verdict, which is the first
// line.
func study(s *stats.Study) {
	for i := range s.Pairs {
		s.Pairs[i].Verdict = verdict(s.Pairs[i].Pair)
	}
	for i := range s.Models {
		s.Models[i].Pair.Verdict = verdict(s.Models[i].Pair)
	}
	for i, c := range s.Contrasts {
		s.Contrasts[i].Verdict = contrastLine(c, len(s.Contrasts))
	}
	s.Lines = judgment{s.Judgment}.lines(*s)
	if text := unequal(s.Unequal, s.Per.EqualRounds()); text != "" {
		s.Lines[0] += " " + text
	}
	if text := alarmed(s.Unfinished); text != "" {
		s.Lines[0] += " " + text
	}
	s.Verdict = s.Lines[0]
}

// judgment describes a study's comparison by the measure that decides.
type judgment struct{ *stats.Judgment }

// lines returns the verdict and its evidence.
func (j judgment) lines(s stats.Study) []string {
	lines := []string{j.lead()}
	if s.OfModels() {
		lines = []string{modelsLead(s)}
		for _, m := range s.Models {
			lines = append(lines, modelLine(m))
		}
		lines = append(lines, "Ranking the experiments by the mean over nodes of all models answers a different question: "+j.lead())
	}
	for _, c := range s.Contrasts {
		lines = append(lines, c.Verdict)
	}
	if len(j.Ranked) > 0 {
		best, base := j.Ranked[0].Experiment, j.Design.BaselineArm().Experiment
		if best != base {
			lines = append(lines, j.gainLine("Over the baseline", best, base)...)
		}
		if len(j.Ranked) > 1 && j.Ranked[1].Experiment != base {
			lines = append(lines, j.gainLine("Over the next best", best, j.Ranked[1].Experiment)...)
		}
	}
	if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  By pairs") }) {
		lines = append(lines, "  Pairs of equal seeds share first weights and questions, but their swarms diverge within a few rounds.")
	}
	lines = append(lines, perLines(s)...)
	if s.MoreSeeds != nil {
		lines = append(lines, "P-values are valid only for a number of seeds fixed in advance: add the number named above, then decide once.")
	}
	if most := mostSeeds(s); j.Design.Seeds > 0 && most > j.Design.Seeds && len(j.Ranked) > 1 {
		lines = append(lines, fmt.Sprintf("Some experiments have %d seeds, but the study plans %d. If seeds were added after a look at the verdict, only fresh seeds decide: %s",
			most, j.Design.Seeds, j.freshSweep()))
	}
	lines = append(lines, besideLine(s)...)
	lines = append(lines, teacherLine(s.Teachers)...)
	lines = append(lines, paperLines(s.Paper, s.Measure)...)
	lines = append(lines, j.besideStudied()...)
	lines = append(lines, j.unvalued()...)
	lines = append(lines, runsLine("Failed, not in any mean: ", s.Failed)...)
	lines = append(lines, runsLine("Unfinished, not in any mean: ", s.Unfinished)...)
	return append(lines, runsLine("Not begun: ", s.Missing)...)
}

// freshSweep returns a command that decides by fresh seeds alone. They get a home of their own, because a study's
// verdict counts all seeds of a home.
func (j judgment) freshSweep() string {
	var next int64
	for _, bySeed := range j.Values {
		for seed := range bySeed {
			next = max(next, seed+1)
		}
	}
	seeds := make([]string, max(j.Design.Seeds, sample.SeedsToDecide(j.Comparison.Tests(), 0, 0)))
	for i := range seeds {
		seeds[i] = strconv.FormatInt(next+int64(i), 10)
	}
	list := "--home fresh --seeds " + strings.Join(seeds, ",")
	if len(seeds) == 1 {
		list += ","
	}
	if j.Design.Source == "" {
		return "the same sweep with " + list
	}
	if j.Design.Model != "" {
		list = "--model " + shell.Quote(j.Design.Model) + " " + list
	}
	return "swarm sweep --study " + shell.Quote(j.Design.Source) + " " + list
}

// mostSeeds returns the largest number of seeds of an arm.
func mostSeeds(s stats.Study) (most int) {
	for _, a := range s.Arms {
		most = max(most, a.Seeds)
	}
	return most
}

// lead is the verdict in one sentence. Unless the study compares at equal rounds, it begins with the axis.
func (j judgment) lead() string {
	text, at := j.decision(), j.atEqual()
	if word, _, _ := strings.Cut(text, " "); at != "" && (word == "Undecided" || word == "Undecided:" || word == "The") {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return at + text
}

// decision is the verdict without the axis.
func (j judgment) decision() string {
	base := j.Design.BaselineArm()
	if len(j.Ranked) == 0 {
		if !j.Per.EqualRounds() {
			return "Undecided which is best: " + noCost(j.Per) + "."
		}
		if stats.HeldOut(j.Comparison.Measure) {
			return "Undecided which is best: no finished run has a held-out evaluation."
		}
		return "Undecided which is best: no run is finished."
	}
	best := j.Ranked[0]
	isBase := best.Experiment == base.Experiment
	value := fmt.Sprintf("%s %s", Measure(j.Comparison.Measure), figure(best.Value))
	switch {
	case len(j.Design.Arms) < 2:
		return fmt.Sprintf("Undecided: %s is the study's only experiment (%s).", j.label(best.Experiment), value)
	case j.Outcome == stats.StudyBest && isBase:
		return fmt.Sprintf("The baseline %s is best: %s%s.", j.label(best.Experiment), value, j.above(best, j.Ranked[1], "the next best"))
	case j.Outcome == stats.StudyBest:
		text := fmt.Sprintf("%s is best: %s%s", j.label(best.Experiment), value, j.above(best, *j.Ranking(base.Experiment), "the baseline"))
		if j.Ranked[1].Experiment != base.Experiment {
			text += j.above(best, j.Ranked[1], "the next best")
		}
		return text + "."
	case j.Outcome == stats.StudyBetter:
		return fmt.Sprintf("%s is better than the baseline %s, but not significantly better than %s: %s%s.", j.label(best.Experiment), j.label(base.Experiment),
			j.openNames(), value, j.above(best, *j.Ranking(base.Experiment), "the baseline"))
	case isBase:
		return fmt.Sprintf("Undecided which is best: the baseline %s is highest (%s), but not significantly better than %s: %s.",
			j.label(best.Experiment), value, j.openNames(), j.why())
	}
	return fmt.Sprintf("Undecided which is best: %s is highest (%s), but not significantly better than the baseline %s: %s.",
		j.label(best.Experiment), value, j.label(base.Experiment), j.why())
}

// above describes by how much the best arm exceeds another: ", 31.0 % above the next best 2loc6ext (2/6) (0.1090)".
func (j judgment) above(best, other stats.Row, role string) string {
	by := "above"
	if change := stats.Improvement(*best.Value, *other.Value); units.Finite(change) {
		by = fmt.Sprintf("%.1f %% above", 100*change)
	}
	return fmt.Sprintf(", %s %s %s (%s)", by, role, j.label(other.Experiment), figure(other.Value))
}

// why explains why the highest arm is not proven best.
func (j judgment) why() string {
	p, _ := j.Deciding()
	if p.SeedsA > 0 && p.SeedsB > 0 {
		return strings.TrimPrefix(j.words(p), "undecided: ")
	}
	missing := "finished run"
	if p.SeedsB == 0 && j.Ranking(p.B) == nil && stats.HeldOut(j.Comparison.Measure) &&
		slices.ContainsFunc(j.Comparison.Rows, func(r stats.Row) bool { return r.Experiment == p.B }) {
		missing = "held-out evaluation"
	}
	return fmt.Sprintf("%s has no %s, at least %d seeds needed", j.label(p.B), missing, j.LeastSeeds())
}

// gainLine describes the evidence for an arm's gain over another.
func (j judgment) gainLine(role, a, b string) []string {
	p, ok := j.Pair(a, b)
	if !ok || p.Difference == nil {
		return nil
	}
	facts := []string{}
	if p.CILow != nil && p.CIHigh != nil {
		facts = append(facts, fmt.Sprintf("95 %% interval %+.4f to %+.4f", *p.CILow, *p.CIHigh))
	}
	if deciding := p.DecidingP(); deciding != nil {
		text := Test(p.DecidedBy) + "p = " + pText(*deciding)
		if tests := j.Comparison.Tests(); p.PValueHolm != nil && tests > 1 {
			text += fmt.Sprintf(", %s corrected for %d comparisons", pText(*p.PValueHolm), tests)
		}
		facts = append(facts, text)
	}
	facts = append(facts, fmt.Sprintf("%s against %d", units.Plural(p.SeedsA, "seed"), p.SeedsB))
	text := fmt.Sprintf("%s %s: %+.4f", role, j.label(b), *p.Difference)
	if p.Improvement != nil {
		text += fmt.Sprintf(", %+.1f %%", 100**p.Improvement)
	}
	text += " (" + strings.Join(facts, "; ") + "): " + j.words(p) + "."
	return append([]string{text}, j.pairedLine(a, b)...)
}

// pairedLine describes the same gain for pairs of equal seeds.
func (j judgment) pairedLine(a, b string) []string {
	p := stats.Paired(j.Values[a], j.Values[b])
	if p == nil || p.PValue == nil || p.CILow == nil || p.CIHigh == nil {
		return nil
	}
	return []string{fmt.Sprintf("  By pairs of equal seeds: %+.4f (95 %% interval %+.4f to %+.4f; p = %s, not corrected; %d pairs): "+
		"not used for the verdict.",
		*p.Difference, *p.CILow, *p.CIHigh, pText(*p.PValue), p.Seeds)}
}

// words is a pair's verdict with the arms' short names.
func (j judgment) words(p stats.Pair) string { return j.Design.Shorten(verdict(p)) }

// label names an arm, and adds its I/J if the name does not contain it.
func (j judgment) label(experiment string) string {
	name := j.Name(experiment)
	for _, r := range j.Comparison.Rows {
		if r.Experiment == experiment && !strings.HasPrefix(name, r.Config) {
			return fmt.Sprintf("%s (%s)", name, r.Config)
		}
	}
	return name
}

// openNames lists the arms that are not proven worse than the highest.
func (j judgment) openNames() string {
	names := make([]string, len(j.Open))
	for i, arm := range j.Open {
		names[i] = j.label(arm.Experiment)
	}
	return units.List(names, "and")
}

// besideStudied lists the settings that differ between the arms although the study does not compare them.
func (j judgment) besideStudied() []string {
	var keys []string
	for _, p := range j.Comparison.Pairs {
		for _, d := range p.Differs {
			if d.Role != stats.RoleStudy && d.Effect != stats.EffectName && !slices.Contains(keys, d.Key) {
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
	return []string{"Apart from what the study compares, its runs differ in " + strings.Join(keys, ", ") + "."}
}

// unvalued lists finished runs that have no value of the measure.
func (j judgment) unvalued() []string {
	var lines []string
	if !stats.HeldOut(j.Comparison.Measure) {
		return nil
	}
	known := ""
	if !j.Per.EqualRounds() {
		known = ", with recorded " + j.Per.Axis
	}
	for _, r := range j.Comparison.Rows {
		if seeds := len(j.Values[r.Experiment]); seeds < r.Runs && seeds == 0 {
			lines = append(lines, fmt.Sprintf("%s: none of its %d finished %s has a held-out evaluation of the study's questions%s.",
				j.label(r.Experiment), r.Runs, units.Noun(r.Runs, "run"), known))
		} else if seeds < r.Runs {
			lines = append(lines, fmt.Sprintf("%s: its %d finished runs give %d %s, because the others repeat a seed or have no held-out evaluation of "+
				"the study's questions%s.", j.label(r.Experiment), r.Runs, seeds, units.Noun(seeds, "value"), known))
		}
	}
	return lines
}

// unequal describes how runs differ in facts that all runs of a study should share. It is empty if they agree. Rounds
// may differ unless the study compares at equal rounds.
func unequal(list []stats.Inequality, equalRounds bool) string {
	var facts []string
	for _, x := range list {
		if x.What == "rounds" && !equalRounds {
			continue
		}
		var parts []string
		for _, n := range x.Counts {
			parts = append(parts, fmt.Sprintf("%d (%s)", n.Count, strings.Join(n.Arms, ", ")))
		}
		facts = append(facts, x.What+": "+strings.Join(parts, ", "))
	}
	if facts == nil {
		return ""
	}
	return "But the comparison is not like for like: the runs differ in " + strings.Join(facts, "; in ") + "."
}

func runsLine(lead string, runs []stats.StudyRun) []string {
	if len(runs) == 0 {
		return nil
	}
	var parts []string
	for _, r := range runs[:min(len(runs), listedRuns)] {
		text := fmt.Sprintf("%s seed %d", r.Name, r.Seed)
		if r.State != stats.StateMissing {
			state := r.State
			if store.StoppedByAlarm(r.State, r.Message) {
				state = store.AlarmStop
			}
			text += " (" + state
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

func figure(v *float64) string { return fmt.Sprintf("%.4f", *v) }

func pText(p float64) string {
	if p < 0.0001 {
		return "below 0.0001"
	}
	return fmt.Sprintf("%.2g", p)
}
