package report

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Verdict is the report's first paragraph: which configuration is best, by how much, and how sure that is.
type Verdict struct {
	Tone  string   // good: decided; warn: not; empty: there is nothing to decide
	Lead  string   // one sentence
	Rest  string   // what it rests on
	Lines []string // the other rows against the baseline
	Foot  string
}

// verdict puts a comparison into words. It decides nothing: outcomes are the comparison's.
func verdict(c stats.Comparison) Verdict {
	if c.Study != nil {
		return studyVerdict(*c.Study)
	}
	best := bestRow(c.Rows)
	switch {
	case best == nil:
		return Verdict{Lead: "There is nothing to compare yet: " + nothing(c) + "."}
	case len(c.Rows) == 1:
		return Verdict{
			Lead: fmt.Sprintf("Only one configuration is here: %s, with a %s of %s.", name(*best), measure(c), number(best.Value)),
			Rest: fmt.Sprintf("Its cumulative reward is %s over %s and %s (mean of %s). "+
				"To compare, run another one, such as the same without externals (J = 0).",
				number(&best.CumulativeReward), count(best.Nodes, "node"), count(best.Rounds, "round"), count(best.Runs, "run")),
		}
	}
	v := against(c, *best)
	if len(c.Rows) > 2 {
		for _, row := range c.Rows {
			if row.Experiment != c.Baseline && row.Experiment != best.Experiment {
				v.Lines = append(v.Lines, fmt.Sprintf("%s: %s. %s", name(row), row.Verdict, evidence(row)))
			}
		}
		v.Foot = "Every verdict is against the baseline; swarm compare --pairs decides between the others."
	}
	return v
}

// studyVerdict is a study's, whose words are its own.
func studyVerdict(s stats.Study) Verdict {
	v := Verdict{Tone: "good", Lead: s.Verdict, Lines: s.Lines[1:]}
	if s.Outcome == stats.StudyUndecided {
		v.Tone = "warn"
	}
	if s.Question != "" {
		v.Rest = "The question was: " + s.Question
	}
	v.Foot = "Intervals are 95 % ones over seeds and not corrected; verdicts rest on p-values of Welch's test, corrected by Holm's method for all pairs."
	return v
}

func nothing(c stats.Comparison) string {
	if c.Measure == stats.MeasureReward {
		return "no run has done a round"
	}
	return "no run has a held-out evaluation"
}

// against tells of the best row and the baseline, of at least two rows.
func against(c stats.Comparison, best stats.Row) Verdict {
	base := baselineOf(c)
	if best.Experiment == c.Baseline {
		worse := 0
		for _, row := range c.Rows {
			if row.Outcome == stats.OutcomeWorse {
				worse++
			}
		}
		v := Verdict{Tone: "warn", Rest: fmt.Sprintf("Its %s is %s.", measure(c), number(best.Value))}
		others := len(c.Rows) - 1
		v.Lead = fmt.Sprintf("Undecided which is best. The baseline %s is highest; %d of the %d others are worse with certainty.",
			name(best), worse, others)
		switch {
		case worse < others && others == 1:
			v.Lead = fmt.Sprintf("Undecided which is best. The baseline %s is highest, which may be chance.", name(best))
		case worse == others:
			v.Tone, v.Lead = "good", fmt.Sprintf("The baseline %s is best: %s is worse.", name(best), every(others))
		}
		if len(c.Rows) == 2 {
			other := c.Rows[0]
			if other.Experiment == c.Baseline {
				other = c.Rows[1]
			}
			v.Rest = fmt.Sprintf("%s: %s. %s", name(other), other.Verdict, evidence(other))
		}
		return v
	}
	if best.Outcome == stats.OutcomeBetter {
		return Verdict{
			Tone: "good",
			Lead: fmt.Sprintf("%s is highest, and better than the baseline %s: its %s is %s.", name(best), name(base), measure(c), beyond(best, base)),
			Rest: evidence(best),
		}
	}
	return Verdict{
		Tone: "warn",
		Lead: fmt.Sprintf("Undecided which is best. %s is highest so far, the baseline being %s: its %s is %s, which may be chance.",
			name(best), name(base), measure(c), beyond(best, base)),
		Rest: sentence(best.Verdict) + " " + evidence(best),
	}
}

func every(others int) string {
	if others == 1 {
		return "the other"
	}
	return fmt.Sprintf("each of the %d others", others)
}

// beyond is "0.068 against 0.035, 94.0 % above it".
func beyond(row, base stats.Row) string {
	text := number(row.Value) + " against " + number(base.Value)
	if row.Improvement == nil {
		return text
	}
	side, size := "above", *row.Improvement
	if size < 0 {
		side, size = "below", -size
	}
	return text + ", " + share(&size) + " " + side + " it"
}

// evidence is what a row's verdict rests on.
func evidence(row stats.Row) string {
	var parts []string
	if row.Improvement != nil {
		text := percent(row.Improvement)
		if ci := interval(row.CILow, row.CIHigh, percent); ci != "" {
			text += " (95 % interval " + ci + ")"
		}
		parts = append(parts, text)
	}
	if row.PValue != nil {
		text := "p = " + pvalue(row.PValue)
		if row.PValueHolm != nil && *row.PValueHolm != *row.PValue {
			text += ", corrected " + pvalue(row.PValueHolm)
		}
		parts = append(parts, text)
	}
	if row.ProbabilityOfImprovement != nil && row.Seeds > 1 {
		parts = append(parts, "one of its runs beats one of the baseline's with probability "+number(row.ProbabilityOfImprovement))
	}
	parts = append(parts, count(row.Seeds, "seed"))
	return strings.Join(parts, "; ") + "."
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// bestRow is the row with the highest value, nil where none has one.
func bestRow(rows []stats.Row) *stats.Row {
	var best *stats.Row
	for i, row := range rows {
		if row.Value != nil && (best == nil || *row.Value > *best.Value) {
			best = &rows[i]
		}
	}
	return best
}

func baselineOf(c stats.Comparison) stats.Row {
	for _, row := range c.Rows {
		if row.Experiment == c.Baseline {
			return row
		}
	}
	return stats.Row{Experiment: c.Baseline}
}

// name is 4loc4ext (4/4).
func name(row stats.Row) string { return fmt.Sprintf("%s (%s)", row.Experiment, row.Config) }

func measure(c stats.Comparison) string { return stats.MeasureName(c.Measure) }
