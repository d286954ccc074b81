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
// Student's t. A run's part is its curve's mean over nodes, each node smoothed first. Runs of one seed are averaged
// before the seeds are. Against rounds the mean is over the rounds that all runs have; against anything else over the
// stretch that all runs have, each run interpolated linearly.
type ExperimentCurve struct {
	Experiment string   `json:"experiment"` // as Row.Name: parts of one experiment are apart
	Config     string   `json:"config"`     // I/J
	Metric     string   `json:"metric"`
	Window     int      `json:"window"` // rounds; 1: not smoothed
	Per        string   `json:"per"`    // an axis' name
	Currency   string   `json:"currency"`
	Seeds      int      `json:"seeds"` // that the mean is over
	Runs       []string `json:"runs"`

	X    Values `json:"x"`
	Mean Values `json:"mean"` // by X, like the two below
	Low  Values `json:"low"`  // of the interval; unknown below two seeds
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

// NamedCurves are the curves of one name: of a run, or of an experiment's runs that count.
type NamedCurves struct {
	Newest      Curve // of its newest run
	Experiments []ExperimentCurve
	Runs        []Curve // with CurveOptions.Single: of each run of an experiment
}

// gridPoints is how many places an experiment has where runs share none, unless CurveOptions.Points says fewer.
const gridPoints = 400

// NewExperimentCurve makes the curve of an experiment from its runs. Runs without a round, or with nothing known on the
// axis, have no part in it, nor have runs in another currency than the first where money is the axis.
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
		if axis.Name == "money" {
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
			kept := KeepExtremes([][]float64{l.Mean}, o.Points)
			c.Single = append(c.Single, RunLine{l.Run, l.Seed, pick(l.X, kept), pick(l.Mean, kept)})
		}
	}
	return c, nil
}

// average fills in the mean and its interval, at places that all lines have.
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
		slices.Sort(seeds) // a sum's last digit depends on the order
		c.Mean[i], c.Low[i], c.High[i] = sample.MeanInterval(seeds)
	}
	if kept := KeepExtremes([][]float64{c.Mean, c.Low, c.High}, points); len(kept) < n {
		c.X, c.Mean, c.Low, c.High = pick(c.X, kept), pick(c.Mean, kept), pick(c.Low, kept), pick(c.High, kept)
	}
}

// commonPlaces are the places that every line has.
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

// evenPlaces cuts the stretch that all lines have into equal steps, at most as many as the longest line has.
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

// at is the line's mean at places within it, between two of its own by linear interpolation.
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

// Even is the line's mean at so many places, at least 2, in equal steps over all of it.
func (l RunLine) Even(places int) Values { return l.at(evenPlaces([]RunLine{l}, max(2, places))) }

// Group is the runs of one row of a comparison, which are also one line of a curve.
type Group struct {
	Name string // as Row.Name
	Runs []store.Totals
}

// Groups sorts runs into the rows of a comparison: of an experiment with a run that is done only those that are. With
// every, all runs count.
func Groups(runs []store.Totals, o CompareOptions, every bool) []Group {
	o.By, o.every = ByExperiment, every
	var out []Group
	for _, g := range groupRuns(runs, o) {
		out = append(out, Group{g.name, g.runs})
	}
	return out
}
