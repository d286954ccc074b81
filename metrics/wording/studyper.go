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

// atEqual returns the first words of a verdict at a horizon of an axis. It is empty for equal rounds.
func (j judgment) atEqual() string {
	switch {
	case j.Per.EqualRounds():
		return ""
	case j.Per.Common == nil:
		return "At equal " + j.Per.Axis + ": "
	}
	return "At " + equal(j.Per.Axis, j.Per.Currency, *j.Per.Common) + ": "
}

// noCost says why no run has a place on the axis.
func noCost(p *stats.StudyPer) string {
	if a, err := stats.AxisOf(p.Axis); err == nil && a.IsMoney() {
		return "no finished run has a held-out evaluation and a price (--price)"
	}
	return "no finished run has a held-out evaluation and recorded " + p.Axis
}

// perLines returns a note on times, and names the other axes on which another arm is the highest.
func perLines(s stats.Study) []string {
	p := s.Per
	if p == nil || s.Best == "" {
		return nil
	}
	var lines []string
	if a, err := stats.AxisOf(p.Axis); err == nil && a.SideBySide {
		lines = append(lines, sideBySide(p.OneMachine))
	}
	var others []string
	timed := false
	for _, o := range p.OtherAxes {
		if o.Best == s.Best {
			continue
		}
		text := fmt.Sprintf("at %s it is %s (%.4f)", equal(o.Axis, o.Currency, o.Horizon), o.Best, o.Value)
		if others == nil {
			text = fmt.Sprintf("At %s the highest is %s (%.4f)", equal(o.Axis, o.Currency, o.Horizon), o.Best, o.Value)
		}
		others = append(others, text)
		a, err := stats.AxisOf(o.Axis)
		timed = timed || err == nil && a.SideBySide
	}
	if others == nil {
		return lines
	}
	text := strings.Join(append(others, fmt.Sprintf("at equal %s %s", p.Axis, s.Best)), ", ") + "."
	if timed {
		text += " Times compare runs made side by side on one machine."
	}
	return append(lines, text)
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
	t := Table{Title: fmt.Sprintf("Held-out pass@1 by %s: mean over seeds, lowest and highest seed, interpolated between evaluations", label)}
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
	if short {
		t.Notes = append(t.Notes, `"-": a run ended before, or was first evaluated later.`)
	}
	if p.Target != nil {
		t.Notes = append(t.Notes, "What it cost to reach the target is a median over seeds. Seeds that never reached it count as slowest.")
	}
	return t
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
