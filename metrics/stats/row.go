package stats

import (
	"cmp"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Row is one experiment, or one configuration: means over its runs. Where it has a run that is done, the others aren't counted.
type Row struct {
	Experiment       string   `json:"experiment"`
	Config           string   `json:"config"` // I/J, or adaptive, adaptive-ema
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

	Outcome                  string     `json:"outcome"` // baseline, better, worse, undecided
	Experiments              []string   `json:"experiments"`
	Model                    string     `json:"model"`   // of its first run
	Skipped                  int        `json:"skipped"` // runs that aren't done and don't count
	Value                    *float64   `json:"value"`   // what is compared: reward_per_node_round, eval_reward or eval_pass_1
	ValueLow                 *float64   `json:"value_ci_low"`
	ValueHigh                *float64   `json:"value_ci_high"` // its 95 % interval by Student's t
	EvalRound                *int       `json:"eval_round"`    // fewest rounds of an evaluation counted
	EvalPass1                *float64   `json:"eval_pass_1"`   // share of right completions, mean over seeds
	PValueHolm               *float64   `json:"p_value_holm"`
	PermutationPValue        *float64   `json:"permutation_p_value"`
	ProbabilityOfImprovement *float64   `json:"probability_of_improvement"`
	MoreSeeds                *int       `json:"more_seeds"`
	Guide                    *Guide     `json:"guide"` // guide 4's estimate for GPT-2; null: it has none for this I/J
	Target                   *TargetRow `json:"target,omitempty"`
}

func (g group) row(runs Runs, set string) Row {
	first := g.runs[0]
	perNodeRound := g.perSeed(RewardPerNodeRound)
	row := Row{
		Experiment: g.name, Config: ConfigName(first.Run), Runs: len(g.runs), Experiments: g.experiments, Model: first.Model,
		Rounds: slices.MinFunc(g.runs, func(a, b store.Totals) int { return cmp.Compare(a.RoundsDone, b.RoundsDone) }).RoundsDone,
		Seeds:  len(perNodeRound), RewardPerNodeRound: optional(Mean(perNodeRound)), Skipped: len(g.skipped),
	}
	cumulative := make([]float64, 0, len(g.runs))
	for _, r := range g.runs {
		row.Nodes = max(row.Nodes, r.NodesSeen)
		cumulative = append(cumulative, r.CumulativeReward)
		if r.State != store.RunDone {
			row.Unfinished++
		}
		if e, ok := runs.Evals[r.Run.Run]; ok && e.Set == set && (row.EvalRound == nil || e.Round < *row.EvalRound) {
			row.EvalRound = &e.Round
		}
	}
	slices.Sort(cumulative) // a sum's last digit depends on the order
	if mean := Mean(cumulative); finite(mean) {
		row.CumulativeReward = mean
	}
	row.EvalReward = optional(Mean(g.perSeed(evalValue(runs.Evals, set))))
	row.EvalPass1 = optional(Mean(g.perSeed(passValue(runs.Evals, set))))
	row.addPaper(first.Run)
	return row
}

func evalValue(evals map[string]store.EvalTotal, set string) func(store.Totals) (float64, bool) {
	return func(r store.Totals) (float64, bool) {
		e, ok := evals[r.Run.Run]
		if !ok {
			return 0, false
		}
		return newestReward(e, set)
	}
}

// passValue is a run's pass@1: the share of right completions, which is the mean over nodes and questions of equally many completions.
func passValue(evals map[string]store.EvalTotal, set string) func(store.Totals) (float64, bool) {
	return func(r store.Totals) (float64, bool) {
		e, ok := evals[r.Run.Run]
		completions := e.Questions * e.Generations
		if !ok || e.Set != set || completions <= 0 {
			return 0, false
		}
		return float64(e.Correct) / float64(completions), true
	}
}

// measured returns what a run is compared by.
func (o CompareOptions) measured(evals map[string]store.EvalTotal, set string) func(store.Totals) (float64, bool) {
	switch o.Measure {
	case MeasureEval:
		return evalValue(evals, set)
	case MeasurePass:
		return passValue(evals, set)
	}
	return RewardPerNodeRound
}

// addValue adds what is compared, and returns it by seed.
func (row *Row) addValue(g group, o CompareOptions, evals map[string]store.EvalTotal, set string) []float64 {
	values := g.perSeed(o.measured(evals, set))
	row.Seeds = len(values)
	mean, low, high := MeanInterval(values)
	row.Value, row.ValueLow, row.ValueHigh = optional(mean), optional(low), optional(high)
	return values
}

// judge takes over what the pair with the baseline, of that mean, found.
func (row *Row) judge(p Pair, baseline float64) {
	row.Improvement, row.PValue, row.Verdict, row.Outcome, row.MoreSeeds = p.Improvement, p.PValue, p.Verdict, p.Outcome, p.MoreSeeds
	row.PValueHolm, row.PermutationPValue, row.ProbabilityOfImprovement = p.PValueHolm, p.PermutationPValue, p.ProbabilityOfImprovement
	if p.CILow != nil && p.CIHigh != nil && baseline > 0 {
		row.CILow, row.CIHigh = optional(*p.CILow/baseline), optional(*p.CIHigh/baseline)
	}
}
