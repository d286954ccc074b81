package terminal

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

func optionalNumber(v *float64, format string) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf(format, *v)
}

func signedPercent(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100**v)
}

func improvementText(r stats.Row) string {
	return signedPercent(r.Improvement) + percentInterval(r.CILow, r.CIHigh)
}

// percentInterval formats an interval in percent as " (+80.1 to +108.3)". It is empty without an interval.
func percentInterval(low, high *float64) string {
	if low == nil || high == nil {
		return ""
	}
	return fmt.Sprintf(" (%+.1f to %+.1f)", 100**low, 100**high)
}

func paperText(r stats.Row) string {
	if r.PaperReward == nil {
		return "–"
	}
	if r.PaperImprovement == nil {
		return fmt.Sprintf("%.0f", *r.PaperReward)
	}
	return fmt.Sprintf("%.0f (%s)", *r.PaperReward, signedPercent(r.PaperImprovement))
}

func guideText(r stats.Row) string {
	switch {
	case r.Guide == nil:
		return "–"
	case r.Guide.Improvement == nil:
		return fmt.Sprintf("%.0f-%.0f", r.Guide.Reward[0], r.Guide.Reward[1])
	}
	return fmt.Sprintf("%.0f-%.0f (%+.0f to %+.0f %%)", r.Guide.Reward[0], r.Guide.Reward[1],
		100*r.Guide.Improvement[0], 100*r.Guide.Improvement[1])
}

func guideReward(r stats.Row, end int) any {
	if r.Guide == nil {
		return (*float64)(nil)
	}
	return r.Guide.Reward[end]
}

func guideImprovement(r stats.Row, end int) any {
	if r.Guide == nil || r.Guide.Improvement == nil {
		return (*float64)(nil)
	}
	return r.Guide.Improvement[end]
}

func targetOf(r stats.Row) stats.TargetRow {
	if r.Target == nil {
		return stats.TargetRow{}
	}
	return *r.Target
}

// targetReached returns nil if no target was set.
func targetReached(r stats.Row) *int {
	if r.Target == nil {
		return nil
	}
	return &r.Target.Reached
}

func reachedText(r stats.Row) string {
	if r.Target == nil {
		return "–"
	}
	return fmt.Sprintf("%d of %d", targetOf(r).Reached, targetOf(r).Runs)
}

func targetTime(r stats.Row) string {
	if seconds := targetOf(r).ActiveSeconds; seconds != nil {
		return units.Exactly(*seconds)
	}
	return "–"
}

func costText(r stats.Row) string {
	t := targetOf(r)
	if t.Cost == nil {
		return "–"
	}
	return units.Money(*t.Cost, t.PriceCurrency)
}

func energyText(r stats.Row) string {
	if joules := targetOf(r).EnergyJoules; joules != nil {
		return fmt.Sprintf("%.3f kWh", *joules/3.6e6)
	}
	return "–"
}

// csvCell formats a value for CSV: numbers unrounded, null as an empty text.
func csvCell(v any) string {
	switch v := v.(type) {
	case *float64:
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	case *int:
		if v == nil {
			return ""
		}
		return strconv.Itoa(*v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// pairLine formats a pair's verdict with its figures.
func pairLine(c stats.Comparison, p stats.Pair) string {
	line := fmt.Sprintf("%s against %s: %s", p.A, p.B, p.Verdict)
	var facts []string
	if over := wording.Over(p); over != "" {
		facts = append(facts, over)
	}
	if p.Difference != nil {
		digits := "%+.4f"
		fact := fmt.Sprintf(digits, *p.Difference)
		if p.Improvement != nil {
			fact += ", " + signedPercent(p.Improvement)
		}
		if p.CILow != nil && p.CIHigh != nil {
			fact += fmt.Sprintf(", 95 %% interval "+digits+" to "+digits, *p.CILow, *p.CIHigh)
		}
		facts = append(facts, wording.Measure(cmp.Or(p.Measure, c.Measure))+" "+fact)
	}
	if p.Questions != nil {
		facts = append(facts, fmt.Sprintf("over other seeds and questions %+.4f to %+.4f", *p.QuestionsLow, *p.QuestionsHigh))
	}
	if p.PermutationPValue != nil {
		fact := fmt.Sprintf("%sp = %.2g", wording.Test(p.DecidedBy), *p.PermutationPValue)
		if p.PermutationError != nil && *p.PermutationError > 0 {
			fact += fmt.Sprintf(" ± %.1g", *p.PermutationError)
		}
		if p.PValueHolm != nil && *p.PValueHolm != *p.PermutationPValue {
			fact += fmt.Sprintf(", corrected %.2g", *p.PValueHolm)
		}
		facts = append(facts, fact)
	}
	if p.PValue != nil {
		facts = append(facts, fmt.Sprintf("by Welch's test %.2g", *p.PValue))
	}
	if p.PValue != nil && p.ProbabilityOfImprovement != nil {
		fact := fmt.Sprintf("chance of improvement %.2f", *p.ProbabilityOfImprovement)
		if p.ProbabilityLow != nil && p.ProbabilityHigh != nil {
			fact += fmt.Sprintf(" (%.2f to %.2f)", *p.ProbabilityLow, *p.ProbabilityHigh)
		}
		facts = append(facts, fact)
	}
	if len(facts) == 0 {
		return line
	}
	return line + " (" + strings.Join(facts, "; ") + ")"
}
