package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// Verdict is the report's first paragraph: the best configuration, its margin, and the certainty.
type Verdict struct {
	Tone  string   // good: decided; warn: undecided; empty: nothing to decide
	Lead  string   // one sentence
	Rest  string   // evidence
	Lines []string // other rows against the baseline
	Foot  string
}

// verdict describes a comparison in words. The outcomes come from the comparison.
func verdict(c stats.Comparison) Verdict {
	if c.Study != nil {
		return studyVerdict(*c.Study)
	}
	best := bestRow(c)
	switch {
	case best == nil:
		return Verdict{Lead: "There is nothing to compare yet: " + nothing(c) + "."}
	case len(c.Rows) == 1:
		return Verdict{
			Lead: fmt.Sprintf("There is only one configuration: %s, with a %s of %s.", name(*best), measure(c), number(best.Value)),
			Rest: fmt.Sprintf("Its cumulative reward is %s over %s and %s (mean of %s). "+
				"To compare, run another one, such as the same without externals (J = 0).",
				number(&best.CumulativeReward), units.Plural(best.Nodes, "node"), units.Plural(best.Rounds, "round"), units.Plural(best.Runs, "run")),
		}
	}
	if c.Baseline == "" {
		return Verdict{
			Tone: "warn", Lead: "Nothing is decided: no configuration is the baseline.",
			Rest: "To compare with a baseline: swarm report --baseline NAME.",
		}
	}
	v := against(c, *best)
	if len(c.Rows) > 2 {
		for _, row := range c.Rows {
			if row.Name != c.Baseline && row.Name != best.Name {
				v.Lines = append(v.Lines, fmt.Sprintf("%s: %s. %s", name(row), row.Verdict, evidence(c, row)))
			}
		}
		v.Foot = "Every verdict is against the baseline; swarm compare --pairs decides between the others."
	}
	return v
}

// studyVerdict returns the verdict of a study, in the study's own texts.
func studyVerdict(s stats.Study) Verdict {
	v := Verdict{Tone: "good", Lead: s.Verdict, Lines: s.Lines[1:]}
	if s.Outcome == stats.StudyUndecided && !slices.ContainsFunc(s.Contrasts, stats.StudyContrast.Decided) {
		v.Tone = "warn"
	}
	if s.Question != "" {
		v.Rest = "The question was: " + s.Question
	}
	v.Foot = "Intervals are 95 % intervals over seeds and are not corrected. Verdicts rest on permutation tests over seeds (exact up to 20,000 arrangements), " +
		"corrected by Holm's method for all pairs."
	if len(s.Contrasts) > 0 {
		v.Foot = strings.TrimSuffix(v.Foot, ".") + ", the planned comparisons for these alone."
	}
	return v
}

func nothing(c stats.Comparison) string {
	if c.Measure == stats.MeasureReward {
		return "no run has done a round"
	}
	return "no run has a held-out evaluation"
}

// against describes the comparison of the best row with the baseline. It needs at least two rows.
func against(c stats.Comparison, best stats.Row) Verdict {
	base := baselineOf(c)
	if best.Name == c.Baseline {
		worse, apart := 0, 0
		for _, row := range c.Rows {
			switch row.Outcome {
			case stats.OutcomeWorse:
				worse++
			case stats.OutcomeNotComparable:
				apart++
			}
		}
		v := Verdict{Tone: "warn", Rest: fmt.Sprintf("Its %s is %s.", measure(c), number(best.Value))}
		others := len(c.Rows) - 1
		v.Lead = fmt.Sprintf("Undecided which is best. The baseline %s is highest; %d of the %d others are significantly worse.",
			name(best), worse, others)
		switch {
		case apart == others:
			v.Lead = fmt.Sprintf("Undecided which is best: nothing is comparable with the baseline %s.", name(best))
		case worse < others && others == 1:
			v.Lead = fmt.Sprintf("Undecided which is best. The baseline %s is highest, which may be chance.", name(best))
		case worse == others:
			v.Tone, v.Lead = "good", fmt.Sprintf("The baseline %s is best: %s is worse.", name(best), every(others))
		}
		if len(c.Rows) == 2 {
			other := c.Rows[0]
			if other.Name == c.Baseline {
				other = c.Rows[1]
			}
			v.Rest = fmt.Sprintf("%s: %s. %s", name(other), other.Verdict, evidence(c, other))
		}
		return v
	}
	if best.Outcome == stats.OutcomeBetter {
		return Verdict{
			Tone: "good",
			Lead: fmt.Sprintf("%s is highest, and better than the baseline %s: its %s is %s.", name(best), name(base), measure(c), beyond(c, best)),
			Rest: evidence(c, best),
		}
	}
	return Verdict{
		Tone: "warn",
		Lead: fmt.Sprintf("Undecided which is best. %s is highest so far, with baseline %s: its %s is %s, which may be chance.",
			name(best), name(base), measure(c), beyond(c, best)),
		Rest: sentence(best.Verdict) + " " + evidence(c, best),
	}
}

func every(others int) string {
	if others == 1 {
		return "the other"
	}
	return fmt.Sprintf("each of the %d others", others)
}

// beyond formats the values of a pair: "0.068 against 0.035, 94.0 % above it".
func beyond(c stats.Comparison, row stats.Row) string {
	p := pairOf(c, row)
	text := number(p.ValueA) + " against " + number(p.ValueB)
	if row.Improvement == nil {
		return text
	}
	side, size := "above", *row.Improvement
	if size < 0 {
		side, size = "below", -size
	}
	return text + ", " + share(&size) + " " + side + " it"
}

// pairOf returns a row's pair with the baseline.
func pairOf(c stats.Comparison, row stats.Row) stats.Pair {
	for _, p := range c.Pairs {
		if p.A == row.Name && p.B == c.Baseline {
			return p
		}
	}
	return stats.Pair{A: row.Name, B: c.Baseline}
}

// pairDifferences lists for each pair the settings that differ.
func pairDifferences(c stats.Comparison) []string {
	var lines []string
	for _, p := range c.Pairs {
		if list := wording.Differences(p); len(list) > 0 {
			lines = append(lines, fmt.Sprintf("%s against %s: %s", p.A, p.B, strings.Join(list, " ")))
		}
	}
	return lines
}

// cut names the rounds compared, if the row has more rounds.
func cut(row stats.Row) string {
	if s := row.RoundsCompared; s != nil && s.To != row.Rounds {
		return fmt.Sprintf("over %d-%d", s.From, s.To)
	}
	return ""
}

// evidence lists the evidence for a row's verdict.
func evidence(c stats.Comparison, row stats.Row) string {
	var parts []string
	if over := wording.Over(pairOf(c, row)); over != "" {
		parts = append(parts, over)
	}
	if row.Measure != "" && row.Measure != c.Measure {
		parts = append(parts, "by "+wording.Measure(row.Measure))
	}
	if row.Improvement != nil {
		text := percent(row.Improvement)
		if ci := interval(row.CILow, row.CIHigh, percent); ci != "" {
			text += " (95 % interval " + ci + overQuestions(pairOf(c, row)) + ")"
		}
		parts = append(parts, text)
	}
	if text := wording.PValue(row.DecidedBy, row.PermutationPValue, nil, row.PValue); text != "" {
		if row.PValueHolm != nil && *row.PValueHolm != *stats.Deciding(row.PermutationPValue, row.PValue) {
			text += ", corrected " + pvalue(row.PValueHolm)
		}
		parts = append(parts, text)
	}
	if row.ProbabilityOfImprovement != nil && row.Seeds > 1 {
		text := "one of its runs exceeds one of the baseline's with probability " + number(row.ProbabilityOfImprovement)
		if ci := interval(row.ProbabilityLow, row.ProbabilityHigh, number); ci != "" {
			text += " (" + ci + ")"
		}
		parts = append(parts, text)
	}
	parts = append(parts, units.Plural(row.Seeds, "seed"))
	return strings.Join(parts, "; ") + "."
}

// overQuestions is the interval of a pair's improvement over seeds and questions. It is empty if there is none.
func overQuestions(p stats.Pair) string {
	if ci := interval(p.QuestionsImprovementLow, p.QuestionsImprovementHigh, percent); ci != "" {
		return ", over other seeds and questions " + ci
	}
	return ""
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// bestRow returns the highest row that is comparable with the baseline, or nil if none has a value. Each row is
// compared with the baseline over its own rounds, so that the highest row is the one with the largest difference.
func bestRow(c stats.Comparison) *stats.Row {
	var best *stats.Row
	high := 0.0
	for i, row := range c.Rows {
		value := 0.0
		p := pairOf(c, row)
		switch {
		case row.Value == nil, row.Outcome == stats.OutcomeNotComparable:
			continue
		case row.Name == c.Baseline:
		case c.Baseline == "":
			value = *row.Value
		case p.Difference == nil, p.Measure != "" && p.Measure != c.Measure:
			continue
		default:
			value = *p.Difference
		}
		if best == nil || value > high {
			best, high = &c.Rows[i], value
		}
	}
	return best
}

func baselineOf(c stats.Comparison) stats.Row {
	for _, row := range c.Rows {
		if row.Name == c.Baseline {
			return row
		}
	}
	return stats.Row{Experiment: c.Baseline, Name: c.Baseline}
}

// name formats a row as 4loc4ext (4/4).
func name(row stats.Row) string { return fmt.Sprintf("%s (%s)", row.Name, row.Config) }

func measure(c stats.Comparison) string { return wording.Measure(c.Measure) }
