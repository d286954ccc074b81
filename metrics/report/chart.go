package report

import (
	"math"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/units"
)

// plotted are numbers to be drawn: six digits are more than a screen shows, and keep the file small. null: unknown.
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

// chart is a call of swarmCharts: lines, curves or timeline with its options.
type chart struct {
	Kind    string        `json:"kind"`
	Options chartOptions  `json:"options"`
	Curves  []curveToDraw `json:"curves,omitempty"`
	Axes    []axisToDraw  `json:"axes,omitempty"`
}

// chartOptions are those of metrics/charts/js/api.js.
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
	Choice  string         `json:"choice,omitempty"` // what is chosen between axes; empty: what to draw against
	By      string         `json:"by,omitempty"`     // the axis shown at first
	Single  bool           `json:"single,omitempty"` // each run's line is shown at first
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
	Color   any     `json:"color"` // index, or a variable's name
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

// curveToDraw is what a curve chart needs of a stats.Curve.
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

// axisToDraw is what experiments' curves are drawn against, and those curves.
type axisToDraw struct {
	Name        string             `json:"name"`
	Label       string             `json:"label"`
	Unit        string             `json:"unit"`
	Experiments []experimentToDraw `json:"experiments"`
}

// experimentToDraw is what a chart needs of a stats.ExperimentCurve.
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
