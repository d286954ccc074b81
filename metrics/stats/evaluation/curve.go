package evaluation

import (
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// NewCurve computes the curve of an experiment's pass@k over the rounds that the weights were trained for:
// the mean over seeds with its 95 % interval, as in stats.NewExperimentCurve. It has the rounds at which all runs were
// evaluated. Runs without an evaluation of the set are left out.
func NewCurve(name, set string, k int, runs []Document) stats.ExperimentCurve {
	c := stats.ExperimentCurve{Experiment: name, Metric: fmt.Sprintf("pass@%d", k), Window: 1, Per: stats.PerRounds, Runs: []string{}, X: stats.Values{},
		Mean: stats.Values{}, Low: stats.Values{}, High: stats.Values{}}
	var lines []stats.RunLine
	for _, e := range runs {
		l := stats.RunLine{Run: e.Run, Seed: e.Seed}
		for _, row := range e.Rows {
			value, ok := row.pass(k)
			if !ok || row.Set != set {
				continue
			}
			if n := len(l.X); n > 0 && l.X[n-1] == float64(row.Round) { // of two rows for one round, take the one with more nodes
				l.X, l.Mean = l.X[:n-1], l.Mean[:n-1]
			}
			l.X, l.Mean = append(l.X, float64(row.Round)), append(l.Mean, value)
		}
		if len(l.X) > 0 {
			lines, c.Runs, c.Config = append(lines, l), append(c.Runs, e.Run), e.Config
		}
	}
	return c.OfLines(lines)
}

// pass returns the row's pass@k.
func (r Row) pass(k int) (value float64, ok bool) {
	for _, p := range r.Pass {
		if p.K == k {
			return p.Value, true
		}
	}
	return 0, false
}
