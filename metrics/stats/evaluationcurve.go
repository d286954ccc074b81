package stats

import "fmt"

// NewEvaluationCurve computes the curve of an experiment's pass@k over the rounds that the weights were trained for:
// the mean over seeds with its 95 % interval, as in NewExperimentCurve. It has the rounds at which all runs were
// evaluated. Runs without an evaluation of the set are left out.
func NewEvaluationCurve(name, set string, k int, runs []Evaluations) ExperimentCurve {
	c := ExperimentCurve{Experiment: name, Metric: fmt.Sprintf("pass@%d", k), Window: 1, Per: PerRounds, Runs: []string{}, X: Values{}, Mean: Values{}, Low: Values{},
		High: Values{}}
	var lines []RunLine
	for _, e := range runs {
		l := RunLine{Run: e.Run, Seed: e.Seed}
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
	c.average(lines, true, 0)
	c.Single = lines
	return c
}

// pass returns the row's pass@k.
func (r EvaluationRow) pass(k int) (value float64, ok bool) {
	for _, p := range r.Pass {
		if p.K == k {
			return p.Value, true
		}
	}
	return 0, false
}
