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
	lead := j.lead(s)
	if waiting := j.waiting(s); waiting != "" {
		lead += " " + waiting
	}
	lines := []string{lead}
	if s.OfModels() {
		lines = []string{modelsLead(s)}
		for _, m := range s.Models {
			lines = append(lines, modelLine(m))
		}
		lines = append(lines, "Ranking the experiments by the mean over nodes of all models answers a different question: "+lead)
	}
	for _, c := range s.Contrasts {
		lines = append(lines, c.Verdict)
	}
	if len(j.Ranked) > 0 && len(s.Contrasts) == 0 {
		best, base := j.Ranked[0].Experiment, j.Design.BaselineArm().Experiment
		if best != base {
			lines = append(lines, j.gainLine("Over the baseline", best, base)...)
		}
		if len(j.Ranked) > 1 && j.Ranked[1].Experiment != base {
			lines = append(lines, j.gainLine("Over the next best", best, j.Ranked[1].Experiment)...)
		}
	}
	lines = append(lines, perLines(s)...)
	lines = append(lines, j.goOn(s)...)
	lines = append(lines, seedLines(s)...)
	lines = append(lines, besideLine(s)...)
	lines = append(lines, teacherLine(s.Teachers)...)
	lines = append(lines, paperLines(s.Paper, s.Measure)...)
	lines = append(lines, j.besideStudied()...)
	lines = append(lines, j.unvalued()...)
	lines = append(lines, runsLine("Failed, not in any mean: ", s.Failed)...)
	lines = append(lines, runsLine("Unfinished, not in any mean: ", s.Unfinished)...)
	return append(lines, runsLine("Not begun: ", s.Missing)...)
}

// goOn says how to go on if the verdict is undecided, or rests on more seeds than were planned. Seeds that could not
// decide may be added to. After a look at seeds that could, only fresh ones count.
func (j judgment) goOn(s stats.Study) []string {
	tests := len(s.Contrasts)
	open, could := false, false
	for _, c := range s.Contrasts {
		if c.Outcome == stats.OutcomeUndecided && c.SeedsA > 0 && c.SeedsB > 0 && !c.Selected {
			open, could = true, could || c.CanDecide()
		}
	}
	if tests == 0 {
		p, _ := j.Deciding()
		tests, open, could = j.Comparison.Tests(), s.MoreSeeds != nil, p.Reason.Kind == stats.ReasonChance
	}
	most := mostSeeds(s)
	switch {
	case s.Chosen != nil || len(j.Ranked) < 2:
		return nil
	case j.Design.Seeds > 0 && most > j.Design.Seeds && j.Design.Seeds >= sample.SeedsToDecide(tests, 0, 0):
		return []string{fmt.Sprintf("Some experiments have %d seeds, but the study plans %d. If seeds were added after a look at the verdict, only fresh seeds decide: %s",
			most, j.Design.Seeds, j.freshSweep(s, tests))}
	case open && could:
		return []string{"These seeds could have decided, so more of them would be a second chance. Fresh seeds alone may decide: " + j.freshSweep(s, tests)}
	case open:
		return []string{"So few seeds could decide nothing, so you may add some: choose their number first, then decide once."}
	}
	return nil
}

// freshSweep returns the commands that decide by fresh seeds alone.
func (j judgment) freshSweep(s stats.Study, tests int) string {
	var next int64
	for _, bySeed := range j.Values {
		for seed := range bySeed {
			next = max(next, seed+1)
		}
	}
	for _, x := range s.Explored {
		next = max(next, slices.Max(x.Seeds)+1)
	}
	seeds := make([]string, max(j.Design.Seeds, sample.SeedsToDecide(tests, 0, 0)))
	for i := range seeds {
		seeds[i] = strconv.FormatInt(next+int64(i), 10)
	}
	list := "--seeds " + strings.Join(seeds, ",")
	if len(seeds) == 1 {
		list += ","
	}
	if j.Design.Source == "" {
		return "the same sweep with --home fresh " + list
	}
	if j.Design.Model != "" {
		list = "--model " + shell.Quote(j.Design.Model) + " " + list
	}
	list = "--study " + shell.Quote(j.Design.Source) + " " + list
	return "swarm sweep " + list + ", then swarm compare " + list
}

// seedLines says which seeds decide, if not all do, and what the others reached.
func seedLines(s stats.Study) []string {
	var parts []string
	var seeds []int64
	for _, x := range s.Explored {
		part := fmt.Sprintf("%s not so far (%s)", x.Name, units.Plural(len(x.Seeds), "seed"))
		if x.Value != nil {
			part = fmt.Sprintf("%s %s (%s)", x.Name, figure(x.Value), units.Plural(len(x.Seeds), "seed"))
		}
		parts, seeds = append(parts, part), append(seeds, x.Seeds...)
	}
	slices.Sort(seeds)
	text := ""
	which := "these seeds"
	switch {
	case s.Chosen != nil:
		text, which = chosenSeeds(s.Chosen), seedList(slices.Compact(seeds))
	case parts != nil:
		text = fmt.Sprintf("In no test: %s. Their results were looked at before, and only fresh seeds decide. Tables by cost and curves include them.",
			seedList(slices.Compact(seeds)))
	default:
		return nil
	}
	if parts != nil {
		text += fmt.Sprintf(" By %s %s reached: %s.", Measure(s.Measure), which, strings.Join(parts, ", "))
	}
	return []string{text}
}

// chosenSeeds says that only the seeds of --seeds are compared.
func chosenSeeds(seeds []int64) string {
	return fmt.Sprintf("Only %s %s compared (--seeds). P-values are valid only if no result of these seeds was known when they were chosen.", seedList(seeds),
		units.Verb(len(seeds), "be"))
}

// seedList names seeds: "seed 42", "seeds 42, 43 and 44".
func seedList(seeds []int64) string {
	var texts []string
	for _, seed := range seeds {
		texts = append(texts, strconv.FormatInt(seed, 10))
	}
	return units.Noun(len(seeds), "seed") + " " + units.List(texts, "and")
}

// mostSeeds returns the largest number of seeds of an arm.
func mostSeeds(s stats.Study) (most int) {
	for _, a := range s.Arms {
		most = max(most, a.Seeds)
	}
	return most
}

// lead is the verdict: the planned comparisons, and which experiment is best. It begins with the axis, if there is one.
func (j judgment) lead(s stats.Study) string {
	text, at := j.decision(len(s.Contrasts) > 0), j.atEqual()
	if planned := plannedLead(s.Contrasts); planned != "" && !s.OfModels() {
		text = planned + " " + text
	}
	if word, _, _ := strings.Cut(text, " "); at != "" && (word == "Undecided" || word == "Undecided:" || word == "The" || word == "Of") {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return at + text
}

// decision says which experiment is best, or why that is undecided. It is short if planned comparisons precede it.
func (j judgment) decision(short bool) string {
	base := j.Design.BaselineArm()
	if len(j.Ranked) == 0 {
		if len(j.Comparison.Rows) == 0 && len(j.Design.Explored) > 0 {
			return "Undecided which is best: no run of a fresh seed is finished."
		}
		if !j.Per.EqualRounds() {
			return "Undecided which is best: " + noCost(j.Per, j.Comparison.Measure) + "."
		}
		if stats.HeldOut(j.Comparison.Measure) {
			return "Undecided which is best: no finished run has a held-out evaluation" + withCompletions(j.Comparison.Measure) + "."
		}
		return "Undecided which is best: no run is finished."
	}
	best := j.Ranked[0]
	isBase := best.Experiment == base.Experiment
	value := fmt.Sprintf("%s %s", strings.TrimSpace(Measure(j.Comparison.Measure)+" "+over(j.Cut, j.Comparison.Measure)), figure(best.Value))
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
		return fmt.Sprintf("%s is better than the baseline %s%s: %s%s.", j.label(best.Experiment), j.label(base.Experiment),
			j.butNotBetter(), value, j.above(best, *j.Ranking(base.Experiment), "the baseline"))
	case short:
		return fmt.Sprintf("Which of the %d experiments is best is undecided: %s is highest (%s).", len(j.Design.Arms), j.label(best.Experiment), value)
	case isBase:
		return fmt.Sprintf("Undecided which is best: the baseline %s is highest (%s)%s: %s.",
			j.label(best.Experiment), value, j.butNotBetter(), j.why())
	case !j.finished(base):
		return fmt.Sprintf("Undecided which is best: %s is highest (%s): the baseline %s.", j.label(best.Experiment), value, j.why())
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
		missing = "held-out evaluation" + withCompletions(j.Comparison.Measure)
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
	facts = append(facts, overQuestions(p.QuestionInterval)...)
	if text := PValue(p.DecidedBy, p.PermutationPValue, nil, p.PValue); text != "" {
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
	return []string{text}
}

// overQuestions formats the interval over seeds and questions of a difference, which decides nothing.
func overQuestions(x stats.QuestionInterval) []string {
	if x.Questions == nil {
		return nil
	}
	return []string{fmt.Sprintf("%+.4f to %+.4f over other seeds and questions", *x.QuestionsLow, *x.QuestionsHigh)}
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

// finished reports whether an arm has a finished run.
func (j judgment) finished(arm stats.StudyArm) bool {
	return slices.ContainsFunc(j.Comparison.Rows, func(r stats.Row) bool { return r.Experiment == arm.Experiment })
}

// butNotBetter names the arms with finished runs that are not proven worse than the highest. It is empty if there are
// none.
func (j judgment) butNotBetter() string {
	var names []string
	for _, arm := range j.Open {
		if j.finished(arm) {
			names = append(names, j.label(arm.Experiment))
		}
	}
	if names == nil {
		return ""
	}
	return ", but not significantly better than " + units.List(names, "and")
}

// waiting names the arms that no verdict covers yet, because none of their runs is finished. It is empty if no arm has
// a finished run or all have.
func (j judgment) waiting(s stats.Study) string {
	if len(j.Comparison.Rows) == 0 {
		return ""
	}
	var unrun, begun []string
	for _, arm := range j.Design.Arms {
		of := func(r stats.StudyRun) bool { return r.Experiment == arm.Experiment }
		switch {
		case j.finished(arm):
		case slices.ContainsFunc(s.Failed, of), slices.ContainsFunc(s.Unfinished, of):
			begun = append(begun, arm.Name)
		default:
			unrun = append(unrun, arm.Name)
		}
	}
	var parts []string
	if unrun != nil {
		fresh := ""
		if len(s.Explored) > 0 && s.Chosen == nil {
			fresh = " with fresh seeds"
		}
		parts = append(parts, "Not run yet"+fresh+": "+units.List(unrun, "and")+".")
	}
	if begun != nil {
		parts = append(parts, "Without a finished run: "+units.List(begun, "and")+".")
	}
	return strings.Join(parts, " ")
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
	known := withCompletions(j.Comparison.Measure)
	if !j.Per.EqualRounds() {
		known += ", with recorded " + j.Per.Axis
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
