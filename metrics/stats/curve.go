package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// PaperWindow is the smoothing window of the paper's figures, in rounds.
const PaperWindow = 100

// CurveOptions select smoothing and resolution of a Curve.
type CurveOptions struct {
	Window int // trailing moving average, in rounds; below 2: no smoothing
	Points int // at most this many points per series, but always all extremes of the whole run; 0: all

	// Only for an ExperimentCurve.
	Per    string // name of an axis; empty: rounds
	Single bool   // include the line of each run
}

// Curve is a metric of one run over its rounds, as in the paper's figures: one series per node, and their mean with a
// band from the lowest to the highest node. Each node is smoothed over all of its rounds first. Points are dropped
// afterwards, and every extreme stays: of each bucket of rounds, the lowest and the highest value of each series.
type Curve struct {
	Run        string `json:"run"`
	Experiment string `json:"experiment"`
	Config     string `json:"config"` // I/J
	Seed       int64  `json:"seed"`
	Metric     string `json:"metric"`
	Window     int    `json:"window"` // rounds; 1: not smoothed
	Rounds     int    `json:"rounds"` // before points were dropped

	Round []int        `json:"round"` // x of every series below
	Time  Values       `json:"time"`  // by Round: seconds from the run's start until its last node ended the round
	Mean  Values       `json:"mean"`  // over nodes
	Low   Values       `json:"low"`   // lowest node
	High  Values       `json:"high"`  // highest node
	Nodes []NodeSeries `json:"nodes"`
}

// NodeSeries is one node's part of a Curve. A round that the node did not do is NaN.
type NodeSeries struct {
	Node   string `json:"node"`
	Values Values `json:"values"` // by Curve.Round
}

// NewCurve computes the curve of a metric of a run. values holds its nodes' rounds, in any order.
func NewCurve(run store.Run, metric string, values []store.RoundValue, o CurveOptions) Curve {
	c := Curve{
		Run: run.Run, Experiment: run.Experiment, Config: ConfigName(run), Seed: run.Seed, Metric: metric, Window: max(1, o.Window),
		Round: []int{}, Nodes: []NodeSeries{},
	}
	done := c.addNodes(values, run.Started)
	c.Rounds = len(c.Round)
	for i := range c.Nodes {
		c.Nodes[i].Values = smoothed(c.Nodes[i].Values, done[i], c.Window)
	}
	c.addBand()
	c.thin(o.Points)
	return c
}

// addNodes collects the rounds that any node did, and each node's raw values. It returns by node and round whether the
// node did the round.
func (c *Curve) addNodes(values []store.RoundValue, started float64) (done [][]bool) {
	rounds, nodes := map[int]int{}, map[string]int{}
	for _, v := range values {
		if _, ok := rounds[v.Round]; !ok {
			rounds[v.Round] = 0
			c.Round = append(c.Round, v.Round)
		}
		if _, ok := nodes[v.Node]; !ok {
			nodes[v.Node] = 0
			c.Nodes = append(c.Nodes, NodeSeries{Node: v.Node})
		}
	}
	slices.Sort(c.Round)
	slices.SortFunc(c.Nodes, func(a, b NodeSeries) int {
		return cmp.Or(cmp.Compare(len(a.Node), len(b.Node)), cmp.Compare(a.Node, b.Node))
	})
	for i, round := range c.Round {
		rounds[round] = i
	}
	for i, n := range c.Nodes {
		nodes[n.Node] = i
		c.Nodes[i].Values = unknown(len(c.Round))
		done = append(done, make([]bool, len(c.Round)))
	}
	c.Time = unknown(len(c.Round))
	for _, v := range values {
		at, node := rounds[v.Round], nodes[v.Node]
		c.Nodes[node].Values[at], done[node][at] = v.Value, true
		if t := v.Time - started; !(c.Time[at] >= t) {
			c.Time[at] = t
		}
	}
	return done
}

// smoothed returns the moving average of a node's rounds. Rounds that the node did not do are NaN.
func smoothed(values []float64, done []bool, window int) Values {
	out := Values(sample.MovingAverage(values, window))
	for i, ok := range done {
		if !ok {
			out[i] = math.NaN()
		}
	}
	return out
}

func unknown(n int) Values {
	out := make(Values, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

// addBand adds the mean, the lowest and the highest node of every round.
func (c *Curve) addBand() {
	n := len(c.Round)
	c.Mean, c.Low, c.High = make(Values, n), unknown(n), unknown(n)
	column := make([]float64, len(c.Nodes))
	for i := range c.Round {
		for k := range c.Nodes {
			v := c.Nodes[k].Values[i]
			column[k] = v
			if !units.Finite(v) {
				continue
			}
			if !(c.Low[i] <= v) {
				c.Low[i] = v
			}
			if !(c.High[i] >= v) {
				c.High[i] = v
			}
		}
		c.Mean[i] = sample.Mean(column)
	}
}

// thin drops points and keeps all extremes.
func (c *Curve) thin(points int) {
	series := [][]float64{c.Mean, c.Low, c.High}
	for _, n := range c.Nodes {
		series = append(series, n.Values)
	}
	kept := sample.KeepExtremes(series, points)
	if len(kept) == len(c.Round) {
		return
	}
	c.Round = pick(c.Round, kept)
	c.Time, c.Mean, c.Low, c.High = pick(c.Time, kept), pick(c.Mean, kept), pick(c.Low, kept), pick(c.High, kept)
	for i := range c.Nodes {
		c.Nodes[i].Values = pick(c.Nodes[i].Values, kept)
	}
}

func pick[S ~[]E, E any](s S, at []int) S {
	out := make(S, len(at))
	for i, k := range at {
		out[i] = s[k]
	}
	return out
}
