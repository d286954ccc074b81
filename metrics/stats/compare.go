package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// significance is the p-value below which a verdict is given.
const significance = 1 - Confidence

// Bases that a Comparison's improvements rest on.
const (
	BasisCumulative   = "cumulative_reward"     // all runs have the same node-rounds: both bases give the same number
	BasisPerNodeRound = "reward_per_node_round" // they differ, so that sums can't be compared
)

// Comparison is the document of `swarm compare -o json`. Fields are only ever added.
type Comparison struct {
	Baseline string `json:"baseline"` // experiment
	Basis    string `json:"basis"`
	Rows     []Row  `json:"rows"`
}

// Row is one experiment: means over its runs. Where it has a run that is done, the others aren't counted.
type Row struct {
	Experiment       string   `json:"experiment"`
	Config           string   `json:"config"` // I/J
	Runs             int      `json:"runs"`
	Nodes            int      `json:"nodes"`             // most of any run
	Rounds           int      `json:"rounds"`            // done, fewest of any run
	CumulativeReward float64  `json:"cumulative_reward"` // mean over runs
	Improvement      *float64 `json:"improvement"`       // over the baseline, ratio: 0.94 is +94 %
	CILow            *float64 `json:"ci_low"`            // 95 % interval of Improvement, over seeds; null below two
	CIHigh           *float64 `json:"ci_high"`
	PValue           *float64 `json:"p_value"`
	Verdict          string   `json:"verdict"` // baseline, better, worse, or undecided and why
	EvalReward       *float64 `json:"eval_reward"`
	PaperImprovement *float64 `json:"paper_improvement"` // of the same I/J over 8/0

	Seeds              int      `json:"seeds"`
	RewardPerNodeRound *float64 `json:"reward_per_node_round"` // mean over seeds
	PaperReward        *float64 `json:"paper_reward"`          // 8 nodes, 2000 rounds
	Unfinished         int      `json:"unfinished"`            // of the runs counted
}

// Compare groups runs by experiment and compares each with the baseline experiment; with an empty name that is the first without
// external rollouts (J = 0), else the first. Rows keep the order of the runs. Improvements compare rewards a node-round, which for
// runs of equal nodes and rounds is the same as comparing cumulative rewards. Intervals are over seeds, never over
// nodes: nodes of a swarm train on each other's rollouts, and runs of one seed repeat each other.
// The error is store.ErrNotFound for a baseline without runs.
func Compare(runs []store.Totals, baseline string) (Comparison, error) {
	groups := groupRuns(runs)
	if len(groups) == 0 && baseline == "" {
		return Comparison{Basis: BasisCumulative, Rows: []Row{}}, nil
	}
	base := slices.IndexFunc(groups, func(g group) bool {
		if baseline == "" {
			return g.runs[0].NumTransplantTrees == 0
		}
		return g.experiment == baseline
	})
	if base < 0 {
		if baseline != "" {
			return Comparison{}, fmt.Errorf("baseline %q: %w", baseline, store.ErrNotFound)
		}
		base = 0
	}
	c := Comparison{Baseline: groups[base].experiment, Basis: basis(groups)}
	for i, g := range groups {
		c.Rows = append(c.Rows, g.row(groups[base], i == base))
	}
	return c, nil
}

type group struct {
	experiment string
	runs       []store.Totals
}

func groupRuns(runs []store.Totals) []group {
	var groups []group
	for _, r := range runs {
		i := slices.IndexFunc(groups, func(g group) bool { return g.experiment == r.Experiment })
		if i < 0 {
			groups = append(groups, group{experiment: r.Experiment})
			i = len(groups) - 1
		}
		groups[i].runs = append(groups[i].runs, r)
	}
	for i, g := range groups {
		unfinished := func(r store.Totals) bool { return r.State != store.RunDone }
		if done := slices.DeleteFunc(slices.Clone(g.runs), unfinished); len(done) > 0 {
			groups[i].runs = done
		}
	}
	return groups
}

func basis(groups []group) string {
	for _, g := range groups {
		for _, r := range g.runs {
			if r.NodeRounds != groups[0].runs[0].NodeRounds {
				return BasisPerNodeRound
			}
		}
	}
	return BasisCumulative
}

// perSeed returns the reward a node-round of each seed, the mean over its runs. Runs without a round have none.
func (g group) perSeed() []float64 {
	bySeed := map[int64][]float64{}
	for _, r := range g.runs {
		if r.NodeRounds > 0 {
			bySeed[r.Seed] = append(bySeed[r.Seed], r.CumulativeReward/float64(r.NodeRounds))
		}
	}
	means := make([]float64, 0, len(bySeed))
	for _, rewards := range bySeed {
		means = append(means, Mean(rewards))
	}
	slices.Sort(means)
	return means
}

func (g group) row(base group, isBaseline bool) Row {
	first := g.runs[0]
	seeds := g.perSeed()
	row := Row{
		Experiment: g.experiment, Config: fmt.Sprintf("%d/%d", first.NumTrainSamples, first.NumTransplantTrees), Runs: len(g.runs),
		Rounds: slices.MinFunc(g.runs, func(a, b store.Totals) int { return cmp.Compare(a.RoundsDone, b.RoundsDone) }).RoundsDone,
		Seeds:  len(seeds), RewardPerNodeRound: optional(Mean(seeds)),
	}
	for _, r := range g.runs {
		row.Nodes = max(row.Nodes, r.NodesSeen)
		row.CumulativeReward += r.CumulativeReward / float64(len(g.runs))
		if r.State != store.RunDone {
			row.Unfinished++
		}
	}
	row.addPaper(first.NumTrainSamples, first.NumTransplantTrees)
	if isBaseline {
		row.Verdict = "baseline"
		return row
	}
	baseline := base.perSeed()
	row.Improvement = optional(Improvement(Mean(seeds), Mean(baseline)))
	d := Welch(seeds, baseline)
	if mean := Mean(baseline); mean > 0 {
		row.CILow, row.CIHigh = optional(d.Low/mean), optional(d.High/mean)
	}
	row.PValue = optional(d.P)
	row.Verdict = verdict(d, len(seeds), len(baseline))
	return row
}

func (row *Row) addPaper(own, external int) {
	reward, ok := paperReward(own, external)
	if !ok {
		return
	}
	row.PaperReward = &reward
	if baseline, _ := paperReward(8, 0); external > 0 {
		row.PaperImprovement = optional(Improvement(reward, baseline))
	}
}

func verdict(d Difference, seeds, baseline int) string {
	const needed = 3 // two give an interval, but a hopelessly wide one
	switch {
	case seeds == 0 || baseline == 0:
		return "undecided: no rounds yet"
	case seeds < 2:
		return fmt.Sprintf("undecided: 1 seed, at least %d more needed", needed-1)
	case baseline < 2:
		return fmt.Sprintf("undecided: the baseline has 1 seed, at least %d more needed", needed-1)
	case !finite(d.P):
		return "undecided: the runs don't vary"
	case d.P >= significance:
		return fmt.Sprintf("undecided: p = %.2g", d.P)
	case d.Mean > 0:
		return "better"
	}
	return "worse"
}
