package stats

import (
	"cmp"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Row is one experiment or one configuration: means over its runs. If it has a finished run, unfinished ones do not
// count.
type Row struct {
	Experiment       string   `json:"experiment"` // recorded experiment of its runs
	Config           string   `json:"config"`     // I/J, or adaptive, adaptive-ema
	Runs             int      `json:"runs"`
	Nodes            int      `json:"nodes"`             // maximum over runs
	Rounds           int      `json:"rounds"`            // finished rounds, minimum over runs
	CumulativeReward float64  `json:"cumulative_reward"` // mean over runs
	Improvement      *float64 `json:"improvement"`       // over the baseline, ratio: 0.94 is +94 %
	CILow            *float64 `json:"ci_low"`            // 95 % interval of Improvement, over seeds; null below two, or if it is unbounded
	CIHigh           *float64 `json:"ci_high"`
	PValue           *float64 `json:"p_value"`
	Verdict          string   `json:"verdict"` // baseline, or the verdict of its pair with the baseline; set by metrics/wording
	EvalReward       *float64 `json:"eval_reward"`
	PaperImprovement *float64 `json:"paper_improvement"` // the paper's, of the same I/J over 8/0

	Seeds              int      `json:"seeds"`
	RewardPerNodeRound *float64 `json:"reward_per_node_round"` // mean over seeds
	PaperReward        *float64 `json:"paper_reward"`          // the paper's, with 8 nodes and 2000 rounds
	Unfinished         int      `json:"unfinished"`            // number of counted runs that are unfinished

	Outcome                  string     `json:"outcome"` // baseline, better, worse, undecided
	Experiments              []string   `json:"experiments"`
	Model                    string     `json:"model"`   // model of its first run
	Skipped                  int        `json:"skipped"` // unfinished runs that do not count
	Value                    *float64   `json:"value"`   // compared value: reward_per_node_round, eval_reward or eval_pass_k
	ValueLow                 *float64   `json:"value_ci_low"`
	ValueHigh                *float64   `json:"value_ci_high"` // 95 % interval by Student's t
	EvalRound                *int       `json:"eval_round"`    // fewest rounds of a counted evaluation
	EvalPass1                *float64   `json:"eval_pass_1"`   // share of right completions, mean over seeds
	PValueHolm               *float64   `json:"p_value_holm"`
	PermutationPValue        *float64   `json:"permutation_p_value"`
	DecidedBy                string     `json:"decided_by"` // as in its pair with the baseline
	ProbabilityOfImprovement *float64   `json:"probability_of_improvement"`
	ProbabilityLow           *float64   `json:"probability_ci_low"`
	ProbabilityHigh          *float64   `json:"probability_ci_high"`
	IQM                      *float64   `json:"iqm"`        // interquartile mean of the compared value over seeds
	IQMLow                   *float64   `json:"iqm_ci_low"` // 95 % bootstrap interval; null without CompareOptions.Bootstrap
	IQMHigh                  *float64   `json:"iqm_ci_high"`
	MoreSeeds                *int       `json:"more_seeds"`
	Guide                    *Guide     `json:"guide"` // guide 4's estimate for GPT-2; null: it has none for this I/J
	Target                   *TargetRow `json:"target,omitempty"`

	Name           string          `json:"name"`            // unique, used for baseline and pairs: the experiment's name, or that of a part
	Part           string          `json:"part"`            // settings that distinguish this part of the experiment, for example nodes 8; empty: the experiment is whole
	RoundsCompared *Span           `json:"rounds_compared"` // rounds that the figures cover, in common with the baseline; null: none
	Differs        []RowDifference `json:"differs"`         // settings that differ from the baseline
	Measure        string          `json:"measure"`         // measure of value: see Pair.Measure
	Explored       *float64        `json:"explored"`        // of a study's arm: mean over seeds that decide nothing
}

// row returns a group's row. Its figures cover a span.
func (g group) row(runs Runs, s span, set string) Row {
	first := g.runs[0]
	perNodeRound := g.perSeed(runs.reward(s))
	row := Row{
		Experiment: g.experiment, Name: g.name, Part: g.part, Config: ConfigName(first.Run), Runs: len(g.runs), Experiments: g.experiments,
		Model: first.Model, RoundsCompared: s.document(), Differs: []RowDifference{},
		Rounds: slices.MinFunc(g.runs, func(a, b store.Totals) int { return cmp.Compare(a.RoundsDone, b.RoundsDone) }).RoundsDone,
		Seeds:  len(perNodeRound), RewardPerNodeRound: Optional(sample.Mean(perNodeRound)), Skipped: len(g.skipped),
	}
	cumulative := make([]float64, 0, len(g.runs))
	for _, r := range g.runs {
		row.Nodes = max(row.Nodes, r.NodesSeen)
		if sum, ok := runs.sum(r, s.rounds); ok && !r.StoppedByAlarm() {
			cumulative = append(cumulative, sum.Reward)
		}
		if r.State != store.RunDone {
			row.Unfinished++
		}
		if _, ok := runs.eval(r.Run.Run, set, s.evalRound); ok {
			row.EvalRound = s.evalDocument()
		}
	}
	slices.Sort(cumulative) // sorted, because the last digit of a sum depends on the order
	if mean := sample.Mean(cumulative); units.Finite(mean) {
		row.CumulativeReward = mean
	}
	row.EvalReward = Optional(sample.Mean(g.perSeed(runs.evalReward(s, set))))
	row.EvalPass1 = Optional(sample.Mean(g.perSeed(runs.pass(s, set))))
	row.addPaper(first.Run)
	return row
}

// reward returns a run's reward per node-round over a span.
func (r Runs) reward(s span) func(store.Totals) (float64, bool) {
	return func(t store.Totals) (float64, bool) {
		sum, ok := r.sum(t, s.rounds)
		if !ok || sum.NodeRounds < 1 {
			return 0, false
		}
		return sum.Reward / float64(sum.NodeRounds), true
	}
}

func (r Runs) evalReward(s span, set string) func(store.Totals) (float64, bool) {
	return func(t store.Totals) (float64, bool) {
		e, ok := r.eval(t.Run.Run, set, s.evalRound)
		if !ok {
			return 0, false
		}
		return evalMean(e)
	}
}

// pass returns a run's pass@1: the share of right completions. All questions have equally many completions, so that
// this is also the mean over nodes and questions.
func (r Runs) pass(s span, set string) func(store.Totals) (float64, bool) {
	return func(t store.Totals) (float64, bool) {
		if e, ok := r.eval(t.Run.Run, set, s.evalRound); ok {
			return r.passOf(e, MeasurePass)
		}
		return 0, false
	}
}

// passOfSeveral returns a run's value of a measure pass@k or swarm-pass@k, the mean over questions. A run without
// results by question, or with fewer completions than k per question, has none.
func (r Runs) passOfSeveral(s span, set, measure string) func(store.Totals) (float64, bool) {
	return func(t store.Totals) (float64, bool) {
		if e, ok := r.eval(t.Run.Run, set, s.evalRound); ok {
			return r.passOf(e, measure)
		}
		return 0, false
	}
}

// passOf returns an evaluation's value of a measure of right completions.
func (r Runs) passOf(e store.EvalTotal, measure string) (value float64, ok bool) {
	if completions := e.Questions * e.Generations; PassOf(measure) < 2 {
		return float64(e.Correct) / float64(completions), completions > 0
	}
	if !r.answered(e, measure) {
		return 0, false
	}
	questions := r.Questions[e.Run][e.Round]
	for _, q := range questions {
		value += passOfQuestion(q, measure)
	}
	return value / float64(len(questions)), true
}

// measured returns the function that computes a run's compared value.
func (o CompareOptions) measured(runs Runs, s span, set string) func(store.Totals) (float64, bool) {
	switch {
	case o.at != nil:
		return o.at.value
	case o.Measure == MeasureEval:
		return runs.evalReward(s, set)
	case o.Measure == MeasurePass:
		return runs.pass(s, set)
	case HeldOut(o.Measure):
		return runs.passOfSeveral(s, set, o.Measure)
	}
	return runs.reward(s)
}

// addValue adds the compared value.
func (row *Row) addValue(g group, o CompareOptions, runs Runs, s span, set string) {
	row.Measure = o.Measure
	values := g.perSeed(o.measured(runs, s, set))
	row.Seeds = len(values)
	mean, low, high := sample.MeanInterval(values)
	row.Value, row.ValueLow, row.ValueHigh = Optional(mean), Optional(low), Optional(high)
	low, high = o.resamples.IQM(values)
	row.IQM, row.IQMLow, row.IQMHigh = Optional(sample.IQM(values)), Optional(low), Optional(high)
}

// judge takes over the results of the row's pair with the baseline.
func (row *Row) judge(p Pair) {
	row.Improvement, row.PValue, row.Outcome, row.MoreSeeds = p.Improvement, p.PValue, p.Outcome, p.MoreSeeds
	row.Differs = forRow(p.Differs)
	row.PValueHolm, row.PermutationPValue, row.DecidedBy = p.PValueHolm, p.PermutationPValue, p.DecidedBy
	row.ProbabilityOfImprovement, row.ProbabilityLow, row.ProbabilityHigh = p.ProbabilityOfImprovement, p.ProbabilityLow, p.ProbabilityHigh
	row.CILow, row.CIHigh = p.ImprovementLow, p.ImprovementHigh
}
