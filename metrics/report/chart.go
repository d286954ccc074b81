package report

import (
	"math"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/units"
)

// plotted are numbers for drawing. Six digits exceed the resolution of a screen and keep the file small. Unknown values
// become null.
type plotted []float64

// MarshalJSON implements json.Marshaler.
func (p plotted) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+9*len(p))
	out = append(out, '[')
	for i, v := range p {
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case !units.Finite(v):
			out = append(out, "null"...)
		case math.Abs(v) < 1e15 && v == math.Trunc(v):
			out = strconv.AppendInt(out, int64(v), 10)
		default:
			out = strconv.AppendFloat(out, v, 'g', 6, 64)
		}
	}
	return append(out, ']'), nil
}

// chart is a call of a function of swarmCharts with its options: lines, curves, experiments or timeline.
type chart struct {
	Kind    string        `json:"kind"`
	Options chartOptions  `json:"options"`
	Curves  []curveToDraw `json:"curves,omitempty"`
	Axes    []axisToDraw  `json:"axes,omitempty"`
}

// chartOptions are the options of metrics/charts/js/api.js.
type chartOptions struct {
	Title   string         `json:"title"`
	X       plotted        `json:"x,omitempty"`
	XLabel  string         `json:"xLabel,omitempty"`
	XUnit   string         `json:"xUnit,omitempty"`
	YLabel  string         `json:"yLabel,omitempty"`
	Unit    string         `json:"unit,omitempty"`
	Series  []series       `json:"series,omitempty"`
	Markers []marker       `json:"markers,omitempty"`
	Height  int            `json:"height,omitempty"`
	YMin    *float64       `json:"yMin,omitempty"`
	YMax    *float64       `json:"yMax,omitempty"`
	Stacked bool           `json:"stacked,omitempty"`
	Sync    string         `json:"sync,omitempty"`
	Colors  map[string]int `json:"colors,omitempty"`
	Choice  string         `json:"choice,omitempty"` // label for the choice between axes; empty: the default label
	By      string         `json:"by,omitempty"`     // axis shown initially
	Single  bool           `json:"single,omitempty"` // shows the line of each run initially
	From    float64        `json:"from,omitempty"`
	To      float64        `json:"to,omitempty"`
	Lanes   []lane         `json:"lanes,omitempty"`
	Empty   string         `json:"empty,omitempty"`
}

type series struct {
	Label   string  `json:"label"`
	Values  plotted `json:"values"`
	Low     plotted `json:"low,omitempty"`
	High    plotted `json:"high,omitempty"`
	Color   any     `json:"color"` // index, or the name of a CSS variable
	Dash    int     `json:"dash,omitempty"`
	Width   float64 `json:"width,omitempty"`
	Overlay bool    `json:"overlay,omitempty"`
}

type marker struct {
	X     float64 `json:"x"`
	Label string  `json:"label"`
	Kind  string  `json:"kind"`
}

type lane struct {
	Label string `json:"label"`
	Items []item `json:"items"`
}

type item struct {
	Time  float64 `json:"time"`
	Kind  string  `json:"kind"`
	Label string  `json:"label"`
}

// curveToDraw is the part of a stats.Curve that a chart needs.
type curveToDraw struct {
	Run        string  `json:"run"`
	Experiment string  `json:"experiment"`
	Seed       int64   `json:"seed"`
	Metric     string  `json:"metric"`
	Round      []int   `json:"round"`
	Mean       plotted `json:"mean"`
	Low        plotted `json:"low"`
	High       plotted `json:"high"`
}

// axisToDraw is an x axis with the curves of experiments against it.
type axisToDraw struct {
	Name        string             `json:"name"`
	Label       string             `json:"label"`
	Unit        string             `json:"unit"`
	Experiments []experimentToDraw `json:"experiments"`
}

// experimentToDraw is the part of a stats.ExperimentCurve that a chart needs.
type experimentToDraw struct {
	Experiment string    `json:"experiment"`
	Metric     string    `json:"metric"`
	Seeds      int       `json:"seeds"`
	X          plotted   `json:"x"`
	Mean       plotted   `json:"mean"`
	Low        plotted   `json:"low,omitempty"`
	High       plotted   `json:"high,omitempty"`
	Single     []runLine `json:"single,omitempty"`
}

type runLine struct {
	Run  string  `json:"run"`
	Seed int64   `json:"seed"`
	X    plotted `json:"x"`
	Mean plotted `json:"mean"`
}
