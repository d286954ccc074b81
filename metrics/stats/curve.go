package stats

// PaperWindow is the window of the paper's smoothed figures, in rounds.
const PaperWindow = 100

// Values are numbers of which some may not be known: NaN and infinities are null in JSON.
type Values []float64

// CurveOptions choose how a Curve is made.
type CurveOptions struct {
	Window int // of the trailing moving average, in rounds; below 2: no smoothing
	Points int // at most so many points a series, at least 4; 0: all
}

// Curve is a metric of one run over its rounds, as the paper draws it: each node's, and over nodes the mean with a band from the lowest to the
// highest node. Smoothing comes first, over every round of each node; then points are left out such that every extreme stays (per bucket of
// rounds the lowest and the highest value of each series).
type Curve struct {
	Run        string `json:"run"`
	Experiment string `json:"experiment"`
	Config     string `json:"config"` // I/J
	Seed       int64  `json:"seed"`
	Metric     string `json:"metric"`
	Window     int    `json:"window"` // rounds; 1: not smoothed
	Rounds     int    `json:"rounds"` // before points were left out

	Round []int        `json:"round"` // x of every series below
	Mean  Values       `json:"mean"`  // over nodes
	Low   Values       `json:"low"`   // lowest node
	High  Values       `json:"high"`  // highest node
	Nodes []NodeSeries `json:"nodes"`
}

// NodeSeries is one node's part of a Curve.
type NodeSeries struct {
	Node   string `json:"node"`
	Values Values `json:"values"` // by Curve.Round
}
