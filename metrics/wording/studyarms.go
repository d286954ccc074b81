package wording

import (
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// ArmTable formats a study's arms: their means, and their differences to the baseline. Notes are the notes of the
// comparison.
func ArmTable(s *stats.Study) Table {
	j := judgment{s.Judgment}
	base := j.Design.BaselineArm()
	t := Table{Title: fmt.Sprintf("Experiments by %s, mean over seeds", Measure(s.Measure))}
	if p := j.Per; !p.EqualRounds() && p.Common != nil {
		t.Title += ", at " + equal(p.Axis, p.Currency, *p.Common)
	}
	t.Heads = []string{"experiment", "seeds", Measure(s.Measure), "95 % interval", "over " + base.Name, "95 % interval", "p", "verdict"}
	if len(s.Explored) > 0 {
		t.Heads = append(t.Heads, "seeds that decide nothing")
	}
	for _, arm := range s.Arms {
		cells := []string{j.label(arm.Experiment), fmt.Sprint(arm.Seeds), optionalFigure("%.4f", arm.Value), intervalText("%.4f", arm.ValueLow, arm.ValueHigh)}
		p, _ := j.Pair(arm.Experiment, base.Experiment)
		if arm.Experiment == base.Experiment {
			p = stats.Pair{Outcome: stats.OutcomeBaseline}
		}
		cells = append(cells, optionalFigure("%+.4f", p.Difference), intervalText("%+.4f", p.CILow, p.CIHigh), none, p.Outcome)
		if p.PValueHolm != nil {
			cells[6] = pText(*p.PValueHolm)
		}
		if len(s.Explored) > 0 {
			cells = append(cells, exploredCell(s, arm.Name))
		}
		t.Rows = append(t.Rows, cells)
	}
	for _, x := range j.Comparison.Caveats {
		if _, ok := x.(stats.AtHorizon); !ok { // all columns are at the horizon
			t.Notes = append(t.Notes, j.Design.Shorten(caveat(x)))
		}
	}
	return t
}

// exploredCell returns what an arm reached with seeds that decide nothing: "0.3500 (3)".
func exploredCell(s *stats.Study, arm string) string {
	for _, x := range s.Explored {
		if x.Name == arm && x.Value != nil {
			return fmt.Sprintf("%s (%d)", figure(x.Value), len(x.Seeds))
		}
	}
	return none
}

func optionalFigure(format string, v *float64) string {
	if v == nil {
		return none
	}
	return fmt.Sprintf(format, *v)
}

func intervalText(format string, low, high *float64) string {
	if low == nil || high == nil {
		return none
	}
	return fmt.Sprintf(format+" to "+format, *low, *high)
}
