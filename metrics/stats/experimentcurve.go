package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// ExperimentCurve is a metric of an experiment: the mean over its seeds, with the 95 % interval of that mean by
// Student's t. Each run contributes its mean over nodes, each node smoothed first. Runs of one seed are averaged first.
// Against rounds, the mean covers the rounds that all runs have. Against any other axis, it covers the range that all
// runs have, with each run interpolated linearly.
type ExperimentCurve struct {
	Experiment string   `json:"experiment"` // as Row.Name: each part of a split experiment has its own curve
	Config     string   `json:"config"`     // I/J
	Metric     string   `json:"metric"`
	Window     int      `json:"window"` // rounds; 1: not smoothed
	Per        string   `json:"per"`    // name of an axis
	Currency   string   `json:"currency"`
	Seeds      int      `json:"seeds"` // number of seeds averaged
	Runs       []string `json:"runs"`

	X    Values `json:"x"`
	Mean Values `json:"mean"` // by X, as Low and High
	Low  Values `json:"low"`  // lower end of the interval; unknown below two seeds
	High Values `json:"high"`

	Single []RunLine `json:"single,omitempty"` // with CurveOptions.Single
}

// RunLine is one run's part of an ExperimentCurve: its mean over nodes.
type RunLine struct {
	Run  string `json:"run"`
	Seed int64  `json:"seed"`
	X    Values `json:"x"`
	Mean Values `json:"mean"`
}

// NamedCurves holds the curves for one name: a run, or the counted runs of an experiment.
type NamedCurves struct {
	Newest      Curve // curve of the newest run
	Experiments []ExperimentCurve
	Runs        []Curve // with CurveOptions.Single: the curve of each run of an experiment
}

// gridPoints bounds the points of an experiment's curve if its runs share no x values. CurveOptions.Points can lower
// it.
const gridPoints = 400

// NewExperimentCurve computes the curve of an experiment from its runs. It leaves out runs without a round and runs
// without a known value on the axis. If money is the axis, it also leaves out runs in another currency than the first.
func NewExperimentCurve(name, metric string, runs []RunSeries, o CurveOptions) (ExperimentCurve, error) {
	axis, err := AxisOf(o.Per)
	c := ExperimentCurve{Experiment: name, Metric: metric, Window: max(1, o.Window), Per: axis.Name, Runs: []string{}, X: Values{}, Mean: Values{}, Low: Values{}, High: Values{}}
	if err != nil {
		return c, err
	}
	var lines []RunLine
	for _, s := range runs {
		curve := NewCurve(s.Run, metric, s.Values, CurveOptions{Window: o.Window})
		line := RunLine{Run: s.Run.Run, Seed: s.Run.Seed, X: axis.places(curve, s), Mean: curve.Mean}
		if len(line.X) == 0 || slices.ContainsFunc(line.X, func(x float64) bool { return !units.Finite(x) }) {
			continue
		}
		if axis.IsMoney() {
			if c.Currency = cmp.Or(c.Currency, s.Run.PriceCurrency); c.Currency != s.Run.PriceCurrency {
				continue
			}
		}
		c.Config = cmp.Or(c.Config, ConfigName(s.Run))
		lines = append(lines, line)
		c.Runs = append(c.Runs, s.Run.Run)
	}
	c.average(lines, axis.Name == PerRounds, o.Points)
	if o.Single {
		for _, l := range lines {
			kept := sample.KeepExtremes([][]float64{l.Mean}, o.Points)
			c.Single = append(c.Single, RunLine{l.Run, l.Seed, pick(l.X, kept), pick(l.Mean, kept)})
		}
	}
	return c, nil
}

// OfLines returns the curve with these lines and their mean, at the places that all of them have.
func (c ExperimentCurve) OfLines(lines []RunLine) ExperimentCurve {
	c.average(lines, true, 0)
	c.Single = lines
	return c
}

// average computes the mean and its interval at places that all lines have.
func (c *ExperimentCurve) average(lines []RunLine, shared bool, points int) {
	bySeed := map[int64][]Values{}
	switch {
	case len(lines) == 0:
		return
	case len(lines) == 1:
		c.X = lines[0].X
	case shared:
		c.X = commonPlaces(lines)
	default:
		c.X = evenPlaces(lines, points)
	}
	for _, l := range lines {
		bySeed[l.Seed] = append(bySeed[l.Seed], l.at(c.X))
	}
	c.Seeds = len(bySeed)
	n := len(c.X)
	c.Mean, c.Low, c.High = make(Values, n), make(Values, n), make(Values, n)
	seeds := make([]float64, 0, len(bySeed))
	for i := range c.X {
		seeds = seeds[:0]
		for _, runs := range bySeed {
			column := make([]float64, len(runs))
			for k, values := range runs {
				column[k] = values[i]
			}
			if mean := sample.Mean(column); units.Finite(mean) {
				seeds = append(seeds, mean)
			}
		}
		slices.Sort(seeds) // sorted, because the last digit of a sum depends on the order
		c.Mean[i], c.Low[i], c.High[i] = sample.MeanInterval(seeds)
	}
	if kept := sample.KeepExtremes([][]float64{c.Mean, c.Low, c.High}, points); len(kept) < n {
		c.X, c.Mean, c.Low, c.High = pick(c.X, kept), pick(c.Mean, kept), pick(c.Low, kept), pick(c.High, kept)
	}
}

// commonPlaces returns the places that every line has.
func commonPlaces(lines []RunLine) Values {
	count := map[float64]int{}
	for _, l := range lines {
		for _, x := range l.X {
			count[x]++
		}
	}
	out := Values{}
	for _, x := range lines[0].X {
		if count[x] == len(lines) {
			out = append(out, x)
		}
	}
	return out
}

// evenPlaces divides the range that all lines share into equal steps. It returns at most as many places as the longest
// line has.
func evenPlaces(lines []RunLine, points int) Values {
	low, high, longest := math.Inf(-1), math.Inf(1), 0
	for _, l := range lines {
		low, high, longest = max(low, l.X[0]), min(high, l.X[len(l.X)-1]), max(longest, len(l.X))
	}
	if !(low <= high) {
		return Values{}
	}
	if points < 2 || points > gridPoints {
		points = gridPoints
	}
	n := points
	if len(lines) > 1 {
		n = min(points, longest)
	}
	if n < 2 || low == high {
		return Values{high}
	}
	out := make(Values, n)
	for i := range out {
		out[i] = low + (high-low)*float64(i)/float64(n-1)
	}
	return out
}

// at returns the line's mean at places within its range, by linear interpolation.
func (l RunLine) at(places Values) Values {
	out := make(Values, len(places))
	k := 0
	for i, x := range places {
		for k+1 < len(l.X) && l.X[k+1] <= x {
			k++
		}
		out[i] = l.Mean[k]
		if k+1 < len(l.X) && x > l.X[k] {
			share := (x - l.X[k]) / (l.X[k+1] - l.X[k])
			out[i] += share * (l.Mean[k+1] - l.Mean[k])
		}
	}
	return out
}

// Even returns the line's mean at evenly spaced places over its whole range. Fewer than 2 places count as 2.
func (l RunLine) Even(places int) Values { return l.at(evenPlaces([]RunLine{l}, max(2, places))) }

// Group is the runs of one row of a comparison. They are also one line of a curve.
type Group struct {
	Name string // as Row.Name
	Runs []store.Totals
}

// Groups sorts runs into the rows of a comparison. If an experiment has a finished run, only its finished runs count;
// with every set, all runs count.
func Groups(runs []store.Totals, o CompareOptions, every bool) []Group {
	o.By, o.every = ByExperiment, every
	var out []Group
	for _, g := range groupRuns(runs, o) {
		out = append(out, Group{g.name, g.runs})
	}
	return out
}
