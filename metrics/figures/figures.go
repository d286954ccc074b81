// Package figures draws the figures of a study, in the way of the paper's, as SVG files: rewards of every node,
// smoothed rewards by configuration, held-out results over rounds, at the end and by task, and how adaptive runs moved
// their split.
//
// It owns which figures there are and how they look. Every number comes from metrics/stats by way of metrics/query. The
// same runs give the same bytes: nothing depends on a clock, on the order of a map, or on what fonts the machine has.
package figures

import "github.com/sapo-swarm/swarm/metrics/stats"

// Figure is one drawing.
type Figure struct {
	Name string // of its file, without the ending: rewards-by-node
	SVG  []byte
}

// Data is what the figures show.
type Data struct {
	Window  int        // of smoothed curves, in rounds
	Per     stats.Axis // of curves; the zero value: rounds
	Single  bool       // each run's line, too
	Configs []Config
}

// Config is an experiment with its runs, one line or panel of a figure.
type Config struct {
	Experiment string
	Label      string // short: what it has in common with the others' names is left out
	Seeds      []Seed // ascending; of a seed that ran twice, both
	Curve      stats.ExperimentCurve
}

// Draw draws the figures that there is something to show in, in the paper's order: rewards first.
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
