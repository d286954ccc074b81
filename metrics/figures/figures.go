// Package figures draws a study's figures, in the style of the paper's, as SVG files: rewards of every node, smoothed
// rewards by configuration, held-out results over rounds, at the end and by task, and the split of adaptive runs over
// time.
//
// It defines the set of figures and their appearance. All numbers come from metrics/stats through metrics/query. Equal
// runs produce equal bytes, independent of clocks, the order of maps and installed fonts.
package figures

import "github.com/sapo-swarm/swarm/metrics/stats"

// Figure is one drawing.
type Figure struct {
	Name string // file name without extension: rewards-by-node
	SVG  []byte
}

// Data is the content of the figures.
type Data struct {
	Window  int        // of smoothed curves, in rounds
	Per     stats.Axis // x axis of curves; zero value: rounds
	Single  bool       // include the line of each run
	Configs []Config
}

// Config is an experiment with its runs. It is one line or panel of a figure.
type Config struct {
	Experiment string
	Label      string // short: without the part that all names share
	Seeds      []Seed // ascending; includes every run of a repeated seed
	Curve      stats.ExperimentCurve
}

// Draw draws all figures that have data, in the paper's order: rewards first.
func (d *Data) Draw() []Figure {
	var out []Figure
	for _, f := range []struct {
		name string
		draw func(*Data) []byte
	}{
		{"rewards-by-node", (*Data).rewardsByNode},
		{"rewards-smoothed", (*Data).rewardsSmoothed},
		{"held-out-over-rounds", (*Data).heldOutOverRounds},
		{"held-out-final", (*Data).heldOutFinal},
		{"held-out-by-task", (*Data).heldOutByTask},
		{"split-path", (*Data).splitPath},
	} {
		if svg := f.draw(d); svg != nil {
			out = append(out, Figure{f.name, svg})
		}
	}
	return out
}
