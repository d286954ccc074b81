package stats

import (
	"maps"
	"slices"
)

// addExplored adds what the runs of seeds that decide nothing reached: to the study, and to the rows of their
// experiments: at the place on the axis at which the study compares, at equal rounds of whole runs. An experiment
// without other runs gets a row that has only this. runs and o are the results of ofStudy.
func (c *Comparison) addExplored(s *Study, runs Runs, o CompareOptions) error {
	s.Explored, runs.Totals, o.at = []StudyExplored{}, o.explored, s.Judgment.at
	o.Baseline, o.Pairs, o.Target, o.Tasks, o.Bootstrap, o.Questions = "", false, 0, false, false, false
	others, f, err := compare(runs, o)
	for i, r := range others.Rows {
		seeds := map[int64]bool{}
		for _, t := range f.groups[i].runs {
			seeds[t.Seed] = true
		}
		s.Explored = append(s.Explored, StudyExplored{s.Judgment.Name(r.Experiment), slices.Sorted(maps.Keys(seeds)), r.Value})
		k := slices.IndexFunc(c.Rows, func(x Row) bool { return x.Experiment == r.Experiment })
		if k < 0 {
			k = len(c.Rows)
			c.Rows = append(c.Rows, Row{Experiment: r.Experiment, Name: r.Name, Experiments: r.Experiments, Config: r.Config, Model: r.Model, Nodes: r.Nodes,
				Rounds: r.Rounds, Measure: r.Measure, Differs: []RowDifference{}})
		}
		c.Rows[k].Explored = r.Value
	}
	return err
}

// drawn lists the settings that differ within the pairs and change the questions that their sides draw.
func drawn(pairs ...Pair) (keys []string) {
	for _, p := range pairs {
		for _, d := range p.Differs {
			if d.Effect == EffectQuestions && !slices.Contains(keys, d.Key) {
				keys = append(keys, d.Key)
			}
		}
	}
	return keys
}
