package wording

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Table is a formatted table. Each row has one cell per head; the first cell names the row.
type Table struct {
	Title string     `json:"title"`
	Heads []string   `json:"heads"`
	Rows  [][]string `json:"rows"`
	Notes []string   `json:"notes"`
}

// place formats a place on an axis: 38 400, 5m36s, $1.20.
func place(axis, currency string, x float64) string {
	a, err := stats.AxisOf(axis)
	switch {
	case err == nil && a.IsMoney():
		return units.Money(x, currency)
	case err == nil && a.Unit == "seconds":
		return units.Exactly(x)
	case math.Abs(x) < 100 && x != math.Trunc(x):
		return fmt.Sprintf("%.4g", x)
	}
	return units.Group(int64(math.Round(x)))
}

// equal returns "equal completions (38 400)".
func equal(axis, currency string, x float64) string {
	return fmt.Sprintf("equal %s (%s)", axis, place(axis, currency, x))
}

// atEqual returns the first words of a verdict: the axis and the place at which it compares, and for times of unknown
// or several machines a condition. It is empty if there are no curves.
func (j judgment) atEqual() string {
	a, err := stats.AxisOf(j.axis())
	switch {
	case err == nil && a.SideBySide && j.Per.Common != nil && (j.Per.OneMachine == nil || !*j.Per.OneMachine):
		return "At " + equal(j.Per.Axis, j.Per.Currency, *j.Per.Common) + ", if all runs were made side by side on one machine: "
	case j.Per == nil || j.Per.EqualRounds() && (j.Per.Common == nil || len(j.Ranked) == 0):
		return ""
	case j.Per.Common == nil, j.Per.EqualRounds() && j.unevenRounds():
		return "At equal " + j.Per.Axis + ": "
	}
	return "At " + equal(j.Per.Axis, j.Per.Currency, *j.Per.Common) + ": "
}

// axis returns the name of the axis, empty for equal rounds.
func (j judgment) axis() string {
	if j.Per == nil {
		return ""
	}
	return j.Per.Axis
}

// unevenRounds reports whether pairs are compared at different evaluations. At equal rounds each pair has its own: the
// newest that both sides have.
func (j judgment) unevenRounds() bool {
	return slices.ContainsFunc(j.Comparison.Pairs, func(p stats.Pair) bool {
		return p.EvalRound != nil && float64(*p.EvalRound) != *j.Per.Common
	})
}

// noCost says why no run has a value of the measure on the axis.
func noCost(p *stats.StudyPer, measure string) string {
	text := "no finished run has a held-out evaluation" + withCompletions(measure) + " and "
	if a, err := stats.AxisOf(p.Axis); err == nil && a.IsMoney() {
		return text + "a price (--price)"
	}
	return text + "recorded " + p.Axis
}

// perLines returns a note on times, and names the other axes with another order of the arms, and those on which a
// planned comparison is decided otherwise.
func perLines(s stats.Study) []string {
	p := s.Per
	if p == nil || s.Best == "" {
		return nil
	}
	var lines []string
	if a, err := stats.AxisOf(p.Axis); err == nil && a.SideBySide {
		lines = append(lines, sideBySide(p.OneMachine))
	}
	var same, order, texts []string
	at := map[string][]string{} // by text: the places where it applies
	timed := false
	for _, r := range s.Judgment.Ranked {
		order = append(order, s.Judgment.Name(r.Experiment))
	}
	for _, o := range p.OtherAxes {
		var parts []string
		place := equal(o.Axis, o.Currency, o.Horizon)
		if len(s.Contrasts) > 0 {
			if parts = changes(s.Contrasts, o.Contrasts, p.Axis); parts == nil {
				same = append(same, place)
			}
		}
		if !slices.Equal(order, o.Order) {
			parts = append(parts, fmt.Sprintf("the order is %s, at equal %s %s", strings.Join(o.Order, " > "), p.Axis, strings.Join(order, " > ")))
		}
		if parts == nil {
			continue
		}
		text := strings.Join(parts, "; ")
		if at[text] == nil {
			texts = append(texts, text)
		}
		at[text] = append(at[text], place)
		a, err := stats.AxisOf(o.Axis)
		timed = timed || err == nil && a.SideBySide
	}
	for _, text := range texts {
		lines = append(lines, "At "+units.List(at[text], "and")+" "+text+".")
	}
	if same != nil {
		lines = append(lines, "The planned comparisons are decided alike at "+units.List(same, "and")+".")
	}
	if timed {
		lines = append(lines, "Times compare runs made side by side on one machine.")
	}
	return lines
}

// changes describes the planned comparisons that are decided otherwise on another axis.
func changes(here, there []stats.StudyContrast, axis string) (parts []string) {
	for i, a := range here {
		b := there[i]
		if a.Difference != nil && b.Difference != nil && a.Outcome != b.Outcome {
			parts = append(parts, fmt.Sprintf("%s over %s is %s, at equal %s %s", a.A, a.B, decided(b), axis, decided(a)))
		}
	}
	return parts
}

// decided formats a comparison: "+0.0391 (p = 0.016, better)".
func decided(c stats.StudyContrast) string {
	if c.PValueHolm == nil {
		return fmt.Sprintf("%+.4f (%s)", *c.Difference, c.Outcome)
	}
	return fmt.Sprintf("%+.4f (p = %s, %s)", *c.Difference, pText(*c.PValueHolm), c.Outcome)
}

// sideBySide says when times are comparable.
func sideBySide(oneMachine *bool) string {
	text := "Times compare runs made side by side on one machine"
	switch {
	case oneMachine == nil:
		return text + ". It is not recorded of all runs where they were made."
	case !*oneMachine:
		return text + ". These runs are recorded from several hosts or devices."
	}
	return text + ", and these are recorded from one."
}

// PerTable formats a study's held-out pass@1 at horizons of an axis. It has no rows if no run has a curve.
func PerTable(p *stats.StudyPer) Table {
	if p == nil || len(p.Rows) == 0 {
		return Table{}
	}
	label := p.Axis
	if a, err := stats.AxisOf(p.Axis); err == nil {
		label = a.In(p.Currency)
	}
	measure := Measure(p.Measure)
	t := Table{Title: fmt.Sprintf("%s by %s: mean over seeds, lowest and highest seed, interpolated between evaluations",
		strings.ToUpper(measure[:1])+measure[1:], label)}
	t.Heads = []string{"experiment", "seeds"}
	for _, x := range p.Horizons {
		t.Heads = append(t.Heads, place(p.Axis, p.Currency, x))
	}
	t.Heads = append(t.Heads, "last")
	if p.Common != nil {
		t.Heads = append(t.Heads, "area to "+place(p.Axis, p.Currency, *p.Common))
	}
	if p.Target != nil {
		t.Heads = append(t.Heads, fmt.Sprintf("to reach %g", *p.Target), "reached")
	}
	short := false
	for i, r := range p.Rows {
		cells := []string{r.Name, fmt.Sprint(r.Seeds)}
		for k := range p.Horizons {
			cells = append(cells, cell(r.Values[k], r.Lows[k], r.Highs[k]))
		}
		short = short || slices.Contains(r.Values, nil)
		cells = append(cells, cell(r.End, r.EndLow, r.EndHigh))
		if p.Common != nil {
			cells = append(cells, cell(r.Area, nil, nil))
		}
		if p.Target != nil {
			cells = append(cells, costCells(p, i)...)
		}
		t.Rows = append(t.Rows, cells)
	}
	t.addTests(p)
	if short {
		t.Notes = append(t.Notes, `"-": a run ended before, or was first evaluated later.`)
	}
	if p.Target != nil {
		t.Notes = append(t.Notes, "What it cost to reach the target is a median over seeds. Seeds that never reached it count as slowest.")
	}
	return t
}

// addTests adds a row for each comparison: its differences with their intervals and p-values, in the columns of the
// arms' figures.
func (t *Table) addTests(p *stats.StudyPer) {
	if len(p.Tests) == 0 {
		return
	}
	some, without := false, false
	for i, c := range p.Tests[0].Comparisons {
		seedsA, seedsB := 0, 0 // a test at a place that some run did not reach has none
		for _, x := range p.Tests {
			seedsA, seedsB = max(seedsA, x.Comparisons[i].SeedsA), max(seedsB, x.Comparisons[i].SeedsB)
		}
		without = without || min(seedsA, seedsB) == 0
		cells := []string{c.A + " over " + c.B, fmt.Sprintf("%d, %d", seedsA, seedsB)}
		for _, x := range p.Tests {
			if x.Of == stats.TestArea {
				cells = append(cells, none) // last
			}
			if x.Of != stats.TestArea || p.Common != nil {
				cells = append(cells, testCell(p, x, i))
				some = some || x.Comparisons[i].PValueHolm != nil
			}
		}
		if p.Target != nil {
			cells = append(cells, none) // reached
		}
		t.Rows = append(t.Rows, cells)
	}
	if some {
		t.Notes = append(t.Notes, "\"over\": difference, its 95 % interval, and p by the permutation test and Welch's over seeds (the larger), corrected by Holm within a column.")
	}
	if without {
		t.Notes = append(t.Notes, `"-" of a comparison with 0 seeds: that side has no seeds that decide.`)
	}
}

// testCell formats comparison i of a test: "+0.039 (+0.033 to +0.046) p 0.016".
func testCell(p *stats.StudyPer, x stats.StudyTest, i int) string {
	c := x.Comparisons[i]
	if c.Difference == nil {
		return none
	}
	show := func(v float64) string { return fmt.Sprintf("%+.3f", v) }
	if x.Of == stats.TestCost {
		show = func(v float64) string {
			sign := "+"
			if v < 0 {
				sign = "-"
			}
			return sign + place(p.Axis, p.Currency, math.Abs(v))
		}
	}
	text := show(*c.Difference)
	if c.CILow != nil && c.CIHigh != nil {
		text += fmt.Sprintf(" (%s to %s)", show(*c.CILow), show(*c.CIHigh))
	}
	if c.PValueHolm != nil {
		text += " p " + pText(*c.PValueHolm)
	}
	return text
}

// none marks a missing value.
const none = "-"

// cell returns "0.315 (0.312-0.319)", or only the mean if lowest and highest are equal or unknown.
func cell(mean, low, high *float64) string {
	switch {
	case mean == nil:
		return none
	case low == nil, high == nil, *low == *high:
		return fmt.Sprintf("%.3f", *mean)
	}
	return fmt.Sprintf("%.3f (%.3f-%.3f)", *mean, *low, *high)
}

func costCells(p *stats.StudyPer, i int) []string {
	c := p.CostToTarget[i]
	cost := none
	if c.Cost != nil {
		cost = place(p.Axis, p.Currency, *c.Cost)
	}
	return []string{cost, fmt.Sprintf("%d of %d", c.Reached, c.Seeds)}
}
