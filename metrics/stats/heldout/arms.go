package heldout

import (
	"maps"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// Arms are the arms of a study that have a curve, in the study's order.
type Arms []Arm

// Arm is one arm of a study.
type Arm struct {
	Name string
	Runs []Run // at least one
}

// Run is a run of an arm with at least one evaluation.
type Run struct {
	Seed     int64
	Curve    Curve
	Explored bool // its seed decides nothing
}

// Row is one arm's pass@1 at horizons. Means are over seeds; runs of one seed are averaged first.
type Row struct {
	Name    string     `json:"name"`
	Seeds   int        `json:"seeds"`
	Values  []*float64 `json:"values"` // means by horizon; null: a run ended before the horizon, or has no evaluation before it
	Lows    []*float64 `json:"lows"`   // lowest seed
	Highs   []*float64 `json:"highs"`
	Area    *float64   `json:"area"` // mean of the curve from 0 to the common horizon
	End     *float64   `json:"end"`  // mean of the newest evaluations
	EndLow  *float64   `json:"end_low"`
	EndHigh *float64   `json:"end_high"`
}

// Cost is the place at which an arm's curves first reach a target: the median over seeds. Seeds that never reach the
// target count as slowest.
type Cost struct {
	Name    string   `json:"name"`
	Seeds   int      `json:"seeds"`
	Reached int      `json:"reached"`
	Cost    *float64 `json:"cost"` // null: the median seed never reaches it
}

// end returns the largest place that all runs of an arm reach.
func (a Arm) end() float64 {
	end := math.Inf(1)
	for _, r := range a.Runs {
		place, _ := r.Curve.last()
		end = min(end, place)
	}
	return end
}

// perSeed returns the value of each seed, ascending. It is empty if a run has no value.
func (a Arm) perSeed(value func(Curve) (float64, bool)) []float64 {
	bySeed := map[int64][]float64{}
	for _, r := range a.Runs {
		v, ok := value(r.Curve)
		if !ok {
			return nil
		}
		bySeed[r.Seed] = append(bySeed[r.Seed], v)
	}
	means := make([]float64, 0, len(bySeed))
	for _, seed := range slices.Sorted(maps.Keys(bySeed)) {
		slices.Sort(bySeed[seed]) // a sum's last digit depends on the order
		means = append(means, sample.Mean(bySeed[seed]))
	}
	slices.Sort(means)
	return means
}

// cell returns mean, lowest and highest seed; nil without values.
func cell(values []float64) (mean, low, high *float64) {
	if len(values) == 0 {
		return nil, nil, nil
	}
	m := sample.Mean(values)
	return &m, &values[0], &values[len(values)-1]
}

func at(place float64) func(Curve) (float64, bool) {
	return func(c Curve) (float64, bool) { return c.At(place) }
}

// Common returns the common horizon: the largest place that all runs of all arms reach, +Inf without arms. Explored
// runs count only if there are no others.
func (a Arms) Common() float64 {
	common, explored := math.Inf(1), math.Inf(1)
	for _, arm := range a {
		for _, r := range arm.Runs {
			place, _ := r.Curve.last()
			if r.Explored {
				explored = min(explored, place)
			} else {
				common = min(common, place)
			}
		}
	}
	if math.IsInf(common, 1) {
		return explored
	}
	return common
}

// Bounds of Usual.
const (
	mostHalves  = 3  // horizons below the common one
	mostDoubles = 3  // horizons above it
	wholeFrom   = 10 // halves from here on are rounded down to whole numbers
)

// Usual returns the default horizons: the common horizon, then half of it, a quarter and so on, as long as an
// evaluation after training precedes it. It also returns twice the common horizon, four times and so on, as long as at
// least two arms reach it.
func (a Arms) Usual() []float64 {
	common := a.Common()
	if !units.Finite(common) || !(common > 0) {
		return []float64{}
	}
	first := common
	for _, arm := range a {
		for _, r := range arm.Runs {
			if i := slices.IndexFunc(r.Curve.Place, func(x float64) bool { return x > 0 }); i >= 0 {
				first = min(first, r.Curve.Place[i])
			}
		}
	}
	out := []float64{common}
	for x := common / 2; x >= first && len(out) <= mostHalves; x /= 2 {
		if whole := math.Floor(x); whole >= wholeFrom {
			out = append(out, whole)
		} else {
			out = append(out, x)
		}
	}
	slices.Reverse(out)
	x := 2 * common
	for range mostDoubles {
		reached := 0
		for _, arm := range a {
			if arm.end() >= x {
				reached++
			}
		}
		if reached < 2 {
			break
		}
		out = append(out, x)
		x *= 2
	}
	return out
}

// Rows returns a row for each arm.
func (a Arms) Rows(horizons []float64) []Row {
	rows := []Row{}
	common := a.Common()
	for _, arm := range a {
		end := arm.perSeed(func(c Curve) (float64, bool) { _, pass := c.last(); return pass, true })
		row := Row{Name: arm.Name, Seeds: len(end), Values: []*float64{}, Lows: []*float64{}, Highs: []*float64{}}
		for _, x := range horizons {
			mean, low, high := cell(arm.perSeed(at(x)))
			row.Values, row.Lows, row.Highs = append(row.Values, mean), append(row.Lows, low), append(row.Highs, high)
		}
		row.End, row.EndLow, row.EndHigh = cell(end)
		row.Area, _, _ = cell(arm.perSeed(func(c Curve) (float64, bool) { return c.Area(common) }))
		rows = append(rows, row)
	}
	return rows
}

// Costs returns the cost of reaching a target for each arm.
func (a Arms) Costs(target float64) []Cost {
	out := []Cost{}
	for _, arm := range a {
		bySeed := map[int64]float64{} // the slowest of a seed's runs
		for _, r := range arm.Runs {
			bySeed[r.Seed] = max(bySeed[r.Seed], r.Curve.Reach(target))
		}
		x := Cost{Name: arm.Name, Seeds: len(bySeed)}
		costs := slices.Sorted(maps.Values(bySeed))
		for _, cost := range costs {
			if units.Finite(cost) {
				x.Reached++
			}
		}
		if median := sample.Median(costs); units.Finite(median) {
			x.Cost = &median
		}
		out = append(out, x)
	}
	return out
}
