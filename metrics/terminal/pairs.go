package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// printPairs prints a comparison's pairs: those of a study as a table, others one below the other.
func printPairs(out *table.Page, c stats.Comparison) {
	if len(c.Pairs) == 0 {
		return
	}
	fmt.Fprintln(out)
	if c.Study != nil {
		out.Table(pairTable(c.Pairs))
		for _, note := range wording.PairNotes(c.Pairs) {
			fmt.Fprintln(out, charset.Shown(note))
		}
		return
	}
	for _, p := range c.Pairs {
		fmt.Fprintln(out, charset.Shown(pairLine(c, p)))
		for _, line := range wording.Differences(p) {
			fmt.Fprintln(out, charset.Shown("  "+line))
		}
	}
}

// pairTable returns a table with one row per pair, planned comparisons first.
func pairTable(pairs []stats.Pair) *table.Table {
	t := table.New(table.Column{Title: "comparison"}, table.Column{Title: "difference", Right: true}, table.Column{Title: "in %", Right: true},
		table.Column{Title: "95 % interval"}, table.Column{Title: "over seeds and questions", Drop: 3}, table.Column{Title: "p", Right: true},
		table.Column{Title: "corrected", Right: true}, table.Column{Title: "chance of improvement", Drop: 2}, table.Column{Title: "seeds", Drop: 1},
		table.Column{Title: "verdict"})
	unplanned := func(p stats.Pair) bool { return !p.Planned() }
	planned := slices.DeleteFunc(slices.Clone(pairs), unplanned)
	others := slices.DeleteFunc(slices.Clone(pairs), stats.Pair.Planned)
	for _, p := range slices.Concat(planned, others) {
		verdict := p.Outcome
		if p.Planned() {
			verdict += ", planned"
		}
		t.Add(cellText(p.A+" over "+p.B), optionalNumber(p.Difference, "%+.4f"), signedPercent(p.Improvement), interval("%+.4f", p.CILow, p.CIHigh),
			interval("%+.4f", p.QuestionsLow, p.QuestionsHigh), optionalNumber(stats.Deciding(p.PermutationPValue, p.PValue), "%.2g"), optionalNumber(p.PValueHolm, "%.2g"),
			chance(p), fmt.Sprintf("%d, %d", p.SeedsA, p.SeedsB), verdict)
	}
	return t
}

func interval(format string, low, high *float64) string {
	if low == nil || high == nil {
		return "–"
	}
	return fmt.Sprintf(format+" to "+format, *low, *high)
}

// chance formats the probability of improvement with its interval.
func chance(p stats.Pair) string {
	text := optionalNumber(p.ProbabilityOfImprovement, "%.2f")
	if p.ProbabilityLow != nil && p.ProbabilityHigh != nil {
		text += " (" + interval("%.2f", p.ProbabilityLow, p.ProbabilityHigh) + ")"
	}
	return text
}

// pairLine formats a pair's verdict with its figures.
func pairLine(c stats.Comparison, p stats.Pair) string {
	line := fmt.Sprintf("%s against %s: %s", p.A, p.B, p.Verdict)
	var facts []string
	if over := wording.Over(p); over != "" {
		facts = append(facts, over)
	}
	if p.Difference != nil {
		fact := fmt.Sprintf("%+.4f", *p.Difference)
		if p.Improvement != nil {
			fact += ", " + signedPercent(p.Improvement)
		}
		if p.CILow != nil && p.CIHigh != nil {
			fact += ", 95 % interval " + interval("%+.4f", p.CILow, p.CIHigh)
		}
		facts = append(facts, wording.Measure(cmp.Or(p.Measure, c.Measure))+" "+fact)
	}
	if p.Questions != nil {
		facts = append(facts, "over other seeds and questions "+interval("%+.4f", p.QuestionsLow, p.QuestionsHigh))
	}
	if fact := wording.PValue(p.DecidedBy, p.PermutationPValue, p.PermutationError, p.PValue); fact != "" {
		if p.PValueHolm != nil && *p.PValueHolm != *stats.Deciding(p.PermutationPValue, p.PValue) {
			fact += fmt.Sprintf(", corrected %.2g", *p.PValueHolm)
		}
		facts = append(facts, fact)
	}
	if p.PermutationPValue != nil && p.ProbabilityOfImprovement != nil {
		facts = append(facts, "chance of improvement "+chance(p))
	}
	if len(facts) == 0 {
		return line
	}
	return line + " (" + strings.Join(facts, "; ") + ")"
}
