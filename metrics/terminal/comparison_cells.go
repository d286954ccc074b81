package terminal

import (
	"fmt"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
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
