package stats

import (
	"cmp"
	"slices"
	"strings"
)

// Shortened returns the comparison with a study's short names in place of its experiments' names, for display. A
// comparison without a study is returned unchanged.
func (c Comparison) Shortened() Comparison {
	if c.Study == nil {
		return c
	}
	short := c.Study.shortNames()
	c.Baseline = short.Replace(c.Baseline)
	c.Rows, c.Pairs, c.Tasks, c.Notes = slices.Clone(c.Rows), slices.Clone(c.Pairs), slices.Clone(c.Tasks), slices.Clone(c.Notes)
	for i := range c.Rows {
		r := &c.Rows[i]
		r.Experiment, r.Name, r.Verdict = short.Replace(r.Experiment), short.Replace(r.Name), short.Replace(r.Verdict)
	}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		p.A, p.B, p.Verdict = short.Replace(p.A), short.Replace(p.B), short.Replace(p.Verdict)
	}
	for i := range c.Tasks {
		c.Tasks[i].Rewards = slices.Clone(c.Tasks[i].Rewards)
		for k := range c.Tasks[i].Rewards {
			c.Tasks[i].Rewards[k].Experiment = short.Replace(c.Tasks[i].Rewards[k].Experiment)
		}
	}
	c.Drawn = slices.Clone(c.Drawn)
	for i := range c.Drawn {
		c.Drawn[i].Experiment = short.Replace(c.Drawn[i].Experiment)
	}
	for i, note := range c.Notes {
		c.Notes[i] = short.Replace(note)
	}
	return c
}

// Shorten replaces the recorded names of the study's experiments by the names of their arms.
func (d StudyDesign) Shorten(text string) string { return shortNames(d.Arms).Replace(text) }

// shortNames replaces the recorded names of arms, longer names first, because a short name may be a prefix of a longer
// one.
func shortNames(arms []StudyArm) *strings.Replacer {
	longer := func(a, b StudyArm) int { return cmp.Compare(len(b.Experiment), len(a.Experiment)) }
	var pairs []string
	for _, a := range slices.SortedStableFunc(slices.Values(arms), longer) {
		pairs = append(pairs, a.Experiment, a.Name)
	}
	return strings.NewReplacer(pairs...)
}

// shortNames replaces the recorded names of the study's experiments.
func (s *Study) shortNames() *strings.Replacer {
	var arms []StudyArm
	for _, a := range s.Arms {
		arms = append(arms, StudyArm{Name: a.Name, Experiment: a.Experiment})
	}
	return shortNames(arms)
}

// ShortName returns the short name of one of the study's experiments. It returns any other name unchanged.
func (c Comparison) ShortName(experiment string) string {
	if c.Study != nil {
		for _, a := range c.Study.Arms {
			if a.Experiment == experiment {
				return a.Name
			}
		}
	}
	return experiment
}
