package wording

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// plannedLead summarizes the planned comparisons in a sentence or two: "2loc6ext is better than 2loc0ext (+12.3 %).".
// It is empty if none has values.
func plannedLead(list []stats.StudyContrast) string {
	var decided, open []string
	for _, c := range list {
		if c.Difference == nil {
			continue
		}
		by := fmt.Sprintf("%+.4f", *c.Difference)
		if c.Improvement != nil {
			by = fmt.Sprintf("%+.1f %%", 100**c.Improvement)
		}
		if c.Decided() {
			decided = append(decided, fmt.Sprintf("%s is %s than %s (%s)", c.A, c.Outcome, c.B, by))
		} else {
			open = append(open, fmt.Sprintf("%s over %s (%s)", c.A, c.B, by))
		}
	}
	var parts []string
	if decided != nil {
		parts = append(parts, strings.Join(decided, ", ")+".")
	}
	if open != nil {
		parts = append(parts, "Undecided: "+strings.Join(open, ", ")+".")
	}
	return strings.Join(parts, " ")
}

// contrastLine describes one of a number of planned comparisons of a study.
func contrastLine(c stats.StudyContrast, planned int) string {
	lead := fmt.Sprintf("Planned: %s over %s", c.A, c.B)
	if c.Difference == nil || c.SeedsA == 0 || c.SeedsB == 0 {
		return fmt.Sprintf("%s: %s, %s against %d.", lead, c.Outcome, units.Plural(c.SeedsA, "finished seed"), c.SeedsB)
	}
	text := fmt.Sprintf("%s: %+.4f", lead, *c.Difference)
	if c.Improvement != nil {
		text += fmt.Sprintf(", %+.1f %%", 100**c.Improvement)
	}
	var facts []string
	if c.CILow != nil && c.CIHigh != nil {
		facts = append(facts, fmt.Sprintf("95 %% interval %+.4f to %+.4f", *c.CILow, *c.CIHigh))
	}
	facts = append(facts, overQuestions(c.QuestionInterval)...)
	if fact := PValue(c.DecidedBy, c.PermutationPValue, nil, c.PValue); fact != "" {
		if planned > 1 && c.PValueHolm != nil {
			fact += fmt.Sprintf(", %s corrected for %d planned comparisons", pText(*c.PValueHolm), planned)
		}
		facts = append(facts, fact)
	}
	facts = append(facts, fmt.Sprintf("%s against %d", units.Plural(c.SeedsA, "seed"), c.SeedsB))
	text += " (" + strings.Join(facts, "; ") + "): " + c.Outcome
	switch {
	case c.Selected:
		text += ", because the alarm stopped runs of the higher side, so that its mean is too high"
	case c.Outcome == stats.OutcomeUndecided && min(c.SeedsA, c.SeedsB) < stats.EnoughSeeds:
		text += fmt.Sprintf(", because fewer than %d seeds a side decide nothing", stats.EnoughSeeds)
	case c.Outcome == stats.OutcomeUndecided && c.LeastPValue != nil && !sample.Significant(*c.LeastPValue):
		text += fmt.Sprintf(", because so few seeds cannot give a corrected p below %s", pText(*c.LeastPValue))
	}
	return text + "."
}
