package wording_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// studyRuns holds the runs of a study.
type studyRuns struct{ stats.Runs }

const evalCompletions = 1000 // per evaluation in these tests

// paperDesign is the design of the paper's study with the model nano.
func paperDesign() *stats.StudyDesign {
	d := &stats.StudyDesign{Name: "paper", Source: "paper", Model: "nano", Question: "How many of others'?", Baseline: "8loc0ext"}
	for _, j := range []int{0, 2, 4, 6} {
		name := fmt.Sprintf("%dloc%dext", 8-j, j)
		d.Arms = append(d.Arms, stats.StudyArm{Name: name, Experiment: "paper-" + name})
	}
	return d
}

// arm adds finished runs of an arm of paperDesign with seeds 1, 2 …. passes holds the share of right completions of
// each run's last evaluation. The reward of each node-round is a tenth of that share.
func (r *studyRuns) arm(external int, passes ...float64) {
	name := fmt.Sprintf("paper-%dloc%dext", 8-external, external)
	for i, pass := range passes {
		x := experiment(name, external, 80*pass/10)[0]
		x.Run.Run, x.Seed = fmt.Sprintf("%s-%d", name, i+1), int64(i+1)
		r.Totals = append(r.Totals, x)
		r.evaluate(x.Run.Run, pass)
	}
}

func (r *studyRuns) evaluate(run string, pass float64) {
	if r.Evals == nil {
		r.Evals = map[string]store.EvalTotal{}
	}
	r.Evals[run] = store.EvalTotal{Run: run, Set: "s", Round: 10, Generations: 4, Nodes: 8, Questions: evalCompletions / 4,
		Correct: int(math.Round(evalCompletions * pass)), RewardSum: evalCompletions * pass * 1.1}
}

// set changes one run.
func (r *studyRuns) set(run string, change func(*store.Totals)) {
	i := slices.IndexFunc(r.Totals, func(x store.Totals) bool { return x.Run.Run == run })
	change(&r.Totals[i])
}

func studyOf(t require.TestingT, runs studyRuns, d *stats.StudyDesign) (stats.Study, stats.Comparison) {
	c := worded(t, runs.Runs, stats.CompareOptions{Study: d})
	_, err := json.Marshal(c)
	require.NoError(t, err)
	require.NotNil(t, c.Study)
	require.Equal(t, c.Study.Verdict, c.Study.Lines[0])
	return *c.Study, c
}

func TestStudyWithAClearBest(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.102, 0.098, 0.101, 0.099)
	runs.arm(2, 0.152, 0.149, 0.151, 0.150, 0.151)
	runs.arm(4, 0.200, 0.203, 0.199, 0.201, 0.201)
	runs.arm(6, 0.170, 0.171, 0.173, 0.172, 0.171)
	s, c := studyOf(t, runs, paperDesign())
	require.Equal(t, []any{stats.StudyBest, "4loc4ext", "2loc6ext", 5, stats.MeasurePass}, []any{s.Outcome, s.Best, s.RunnerUp, s.Seeds, s.Measure})
	require.Equal(t, "4loc4ext (4/4) is best: held-out pass@1 0.2008, 100.8 % above the baseline 8loc0ext (8/0) (0.1000), "+
		"17.2 % above the next best 2loc6ext (2/6) (0.1714).", s.Verdict)
	require.InDelta(t, 0.1008, *s.Gain, 1e-9)
	require.InDelta(t, 0.0294, *s.OverRunnerUp.Gain, 1e-9)
	require.Equal(t, []string{stats.DecidedByPermutation, stats.DecidedByPermutation}, []string{s.DecidedBy, s.OverRunnerUp.DecidedBy})
	require.InDelta(t, 2.0/252, *s.PermutationPValue, 1e-12)
	require.InDelta(t, 6*2.0/252, *s.PValueHolm, 1e-12, "corrected for six")
	require.Less(t, *s.PValue, *s.PermutationPValue, "Welch's, beside it")
	require.Less(t, *s.CILow, *s.Gain)
	require.Nil(t, s.MoreSeeds)
	require.Regexp(t, `^Over the baseline 8loc0ext \(8/0\): \+0\.1008, \+100\.8 % \(95 % interval \+0\.\d+ to \+0\.\d+; `+
		`exact permutation test p = 0\.0079, 0\.048 corrected for 6 comparisons; `+
		`5 seeds against 5\): better\.$`, s.Lines[1])
	require.Equal(t, []string{"4loc4ext", "2loc6ext", "6loc2ext", "8loc0ext"}, s.Paper.Order)
	for _, p := range s.Paper.Pairs {
		require.Equal(t, []string{stats.PaperConfirmed, stats.PaperConfirmed}, []string{p.Outcome, p.ByReward}, "%+v", p)
	}
	require.True(t, *s.Beside.Agrees)
	require.Len(t, s.Pairs, 6)
	require.Equal(t, stats.BasisPass, c.Basis)
	require.Equal(t, "paper-8loc0ext", c.Rows[0].Experiment)
	require.Equal(t, []string{"8loc0ext", "6loc2ext", "8loc0ext"},
		[]string{c.Shortened().Rows[0].Experiment, c.Shortened().Pairs[0].A, c.Shortened().Baseline})
	require.Equal(t, "paper-8loc0ext", c.Rows[0].Experiment, "shortening leaves the comparison")
	require.Contains(t, strings.Join(s.Lines, "\n"), "The paper's order is 4loc4ext > 2loc6ext > 6loc2ext > 8loc0ext. Of its 6 pairs, at equal rounds, "+
		"by held-out pass@1 6 confirmed, 0 not reproduced, 0 open; by own reward 6, 0, 0.")
}

func TestTheTableOfArms(t *testing.T) {
	runs, d := cheap()
	d.Arms = append(d.Arms, stats.StudyArm{Name: "4loc4ext", Experiment: "paper-4loc4ext"})
	s, _ := studyOf(t, runs, d)
	table := wording.ArmTable(&s)
	require.Equal(t, "Experiments by held-out pass@1, mean over seeds", table.Title)
	require.Equal(t, []string{"experiment", "seeds", "held-out pass@1", "95 % interval", "over 8loc0ext", "95 % interval", "p", "verdict"}, table.Heads)
	require.Equal(t, []string{"8loc0ext (8/0)", "4", "0.4000", "0.3974 to 0.4026", "-", "-", "-", "baseline"}, table.Rows[0])
	require.Equal(t, []string{"2loc6ext (2/6)", "4", "0.3000", "0.2974 to 0.3026", "-0.1000", "-0.1028 to -0.0972", "0.086", "undecided"}, table.Rows[1])
	require.Equal(t, []string{"4loc4ext", "0", "-", "-", "-", "-", "-", "undecided"}, table.Rows[2])

	c := worded(t, runs.Runs, stats.CompareOptions{Study: d, Per: "completions"})
	table = wording.ArmTable(c.Study)
	require.Equal(t, "Experiments by held-out pass@1, mean over seeds, at equal completions (16 000)", table.Title)
	require.Equal(t, []string{"0.1750", "+0.1250"}, []string{table.Rows[0][2], table.Rows[1][4]})
	require.Equal(t, []string{"Verdicts rest on p-values corrected for 3 comparisons (Holm). Intervals are not corrected."}, table.Notes)
}

// The interval over seeds and questions is in the line of a difference.
func TestStudySaysWhatOtherQuestionsCouldGive(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.102, 0.098, 0.101, 0.099)
	runs.arm(4, 0.200, 0.203, 0.199, 0.201, 0.201)
	runs.Questions = map[string]map[int][]store.QuestionTotal{}
	for run, e := range runs.Evals {
		list := []store.QuestionTotal{{Task: "x", Completions: 500, Correct: e.Correct}, {Task: "x", Completions: 500}}
		runs.Questions[run] = map[int][]store.QuestionTotal{10: list}
	}
	d := paperDesign()
	d.Contrasts = [][2]string{{"4loc4ext", "8loc0ext"}, {"2loc6ext", "8loc0ext"}}
	c := worded(t, runs.Runs, stats.CompareOptions{Study: d, Questions: true})
	lines := c.Study.Lines
	require.Regexp(t, `^Planned: 4loc4ext over 8loc0ext: \+0\.1008, \+100\.8 % \(95 % interval .*; (-|\+)0\.\d{4} to \+0\.\d{4} over other seeds and questions; exact permutation test p = 0\.0079, `+
		`0\.016 corrected for 2 planned comparisons; 5 seeds against 5\): better\.$`, lines[1])
	require.Equal(t, "Planned: 2loc6ext over 8loc0ext: undecided, 0 finished seeds against 5.", lines[2])
	require.NotContains(t, strings.Join(lines, "\n"), "Over the baseline", "the planned comparisons are the verdict")

	d.Contrasts = nil
	lines = worded(t, runs.Runs, stats.CompareOptions{Study: d, Questions: true}).Study.Lines
	require.Contains(t, lines[1], "Over the baseline")
	require.Contains(t, lines[1], "over other seeds and questions")
	require.NotContains(t, strings.Join(worded(t, runs.Runs, stats.CompareOptions{Study: d}).Study.Lines, "\n"), "questions")
}

func TestStudyVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		runs    func(*studyRuns)
		outcome string
		best    string
		more    int // 0: null
		lead    string
		paper   [3]int // confirmed, contradicted, open
	}{
		"better than the baseline, a tie with another": {
			func(r *studyRuns) {
				r.arm(0, 0.100, 0.102, 0.098, 0.101, 0.099)
				r.arm(2, 0.120, 0.121, 0.119, 0.122, 0.118)
				r.arm(4, 0.200, 0.190, 0.210, 0.205, 0.195)
				r.arm(6, 0.198, 0.189, 0.209, 0.204, 0.194)
			},
			stats.StudyBetter, "4loc4ext", 0,
			"4loc4ext (4/4) is better than the baseline 8loc0ext (8/0), but not significantly better than 2loc6ext (2/6): held-out pass@1 0.2000, " +
				"100.0 % above the baseline 8loc0ext (8/0) (0.1000).",
			[3]int{5, 0, 1},
		},
		"two seeds are too few however far apart": {
			func(r *studyRuns) {
				r.arm(0, 0.100, 0.101)
				r.arm(2, 0.300, 0.301)
				r.arm(4, 0.500, 0.501)
				r.arm(6, 0.400, 0.401)
			},
			stats.StudyUndecided, "4loc4ext", 3,
			"Undecided which is best: 4loc4ext (4/4) is highest (held-out pass@1 0.5005), but not significantly better than the baseline 8loc0ext (8/0): " +
				"2 seeds, at least 3 more needed.",
			[3]int{0, 0, 6},
		},
		"three seeds are too few however far apart": {
			func(r *studyRuns) {
				r.arm(0, 0.100, 0.101, 0.102)
				r.arm(2, 0.300, 0.301, 0.302)
				r.arm(4, 0.500, 0.501, 0.502)
				r.arm(6, 0.400, 0.401, 0.402)
			},
			stats.StudyUndecided, "4loc4ext", 2,
			"Undecided which is best: 4loc4ext (4/4) is highest (held-out pass@1 0.5010), but not significantly better than the baseline 8loc0ext (8/0): " +
				"3 seeds a side cannot decide: an exact permutation test over them does not go below 0.1, at least 2 more seeds.",
			[3]int{0, 0, 6},
		},
		"four seeds are too few for six pairs": {
			func(r *studyRuns) {
				r.arm(0, 0.100, 0.101, 0.102, 0.103)
				r.arm(2, 0.300, 0.301, 0.302, 0.303)
				r.arm(4, 0.500, 0.501, 0.502, 0.503)
				r.arm(6, 0.400, 0.401, 0.402, 0.403)
			},
			stats.StudyUndecided, "4loc4ext", 1,
			"Undecided which is best: 4loc4ext (4/4) is highest (held-out pass@1 0.5015), but not significantly better than the baseline 8loc0ext (8/0): " +
				"4 seeds a side cannot decide one of 6 comparisons: an exact permutation test over them does not go below 0.029, 0.17 corrected, " +
				"at least 1 more seed.",
			[3]int{0, 0, 6},
		},
		"the baseline is best": {
			func(r *studyRuns) {
				r.arm(0, 0.200, 0.203, 0.199, 0.201, 0.201)
				r.arm(2, 0.152, 0.149, 0.151, 0.150, 0.151)
				r.arm(4, 0.100, 0.102, 0.098, 0.101, 0.099)
				r.arm(6, 0.070, 0.071, 0.073, 0.072, 0.069)
			},
			stats.StudyBest, "8loc0ext", 0,
			"The baseline 8loc0ext (8/0) is best: held-out pass@1 0.2008, 33.3 % above the next best 6loc2ext (6/2) (0.1506).",
			[3]int{1, 5, 0},
		},
		"the baseline is highest by chance": {
			func(r *studyRuns) {
				r.arm(0, 0.200, 0.150, 0.220, 0.210, 0.170)
				r.arm(2, 0.152, 0.199, 0.151, 0.180, 0.160)
				r.arm(4, 0.100, 0.210, 0.140, 0.190, 0.130)
				r.arm(6, 0.170, 0.171, 0.173, 0.172, 0.174)
			},
			stats.StudyUndecided, "8loc0ext", -1,
			"Undecided which is best: the baseline 8loc0ext (8/0) is highest (held-out pass@1 0.1900), but not significantly better than ",
			[3]int{0, 0, 6},
		},
		"one seed against two": {
			func(r *studyRuns) {
				r.arm(0, 0.100)
				r.arm(4, 0.500, 0.501)
			},
			stats.StudyUndecided, "4loc4ext", 4,
			"Undecided which is best: 4loc4ext (4/4) is highest (held-out pass@1 0.5005), but not significantly better than the baseline 8loc0ext (8/0): " +
				"8loc0ext has 1 seed, at least 4 more needed.",
			[3]int{0, 0, 1},
		},
		"two seeds against one": {
			func(r *studyRuns) {
				r.arm(0, 0.100, 0.101)
				r.arm(4, 0.500)
			},
			stats.StudyUndecided, "4loc4ext", 4,
			"Undecided which is best: 4loc4ext (4/4) is highest (held-out pass@1 0.5000), but not significantly better than the baseline 8loc0ext (8/0): " +
				"1 seed, at least 4 more needed.",
			[3]int{0, 0, 1},
		},
		"an arm without a finished run": {
			func(r *studyRuns) {
				r.arm(0, 0.100, 0.102, 0.098, 0.101, 0.099)
				r.arm(2, 0.152, 0.149, 0.151, 0.150, 0.151)
				r.arm(4, 0.200, 0.203, 0.199, 0.201, 0.201)
			},
			stats.StudyBetter, "4loc4ext", 4,
			"4loc4ext (4/4) is better than the baseline 8loc0ext (8/0): held-out pass@1 0.2008, 100.8 % above the baseline 8loc0ext (8/0) (0.1000). " +
				"Not run yet: 2loc6ext.",
			[3]int{3, 0, 0},
		},
		"no baseline": {
			func(r *studyRuns) {
				r.arm(2, 0.152, 0.149, 0.151, 0.150, 0.151)
				r.arm(4, 0.200, 0.203, 0.199, 0.201, 0.201)
				r.arm(6, 0.170, 0.171, 0.173, 0.172, 0.171)
			},
			stats.StudyUndecided, "4loc4ext", 4,
			"Undecided which is best: 4loc4ext (4/4) is highest (held-out pass@1 0.2008): the baseline 8loc0ext has no finished run, " +
				"at least 4 seeds needed. Not run yet: 8loc0ext.",
			[3]int{3, 0, 0},
		},
		"one experiment only": {
			func(r *studyRuns) { r.arm(4, 0.200, 0.203, 0.199) },
			stats.StudyUndecided, "4loc4ext", 5,
			"Undecided which is best: 4loc4ext (4/4) is highest (held-out pass@1 0.2007): the baseline 8loc0ext has no finished run, " +
				"at least 5 seeds needed. Not run yet: 8loc0ext, 6loc2ext and 2loc6ext.",
			[3]int{},
		},
		"the baseline alone": {
			func(r *studyRuns) { r.arm(0, 0.200, 0.203, 0.199) },
			stats.StudyUndecided, "8loc0ext", 5,
			"Undecided which is best: the baseline 8loc0ext (8/0) is highest (held-out pass@1 0.2007): 6loc2ext has no finished run, " +
				"at least 5 seeds needed. Not run yet: 6loc2ext, 4loc4ext and 2loc6ext.",
			[3]int{},
		},
		"an arm whose only run failed": {
			func(r *studyRuns) {
				r.arm(0, 0.100, 0.102, 0.098, 0.101, 0.099)
				r.arm(2, 0.152, 0.149, 0.151, 0.150, 0.151)
				r.arm(4, 0.200, 0.203, 0.199, 0.201, 0.201)
				r.arm(6, 0.170)
				r.set("paper-2loc6ext-1", func(x *store.Totals) { x.State = store.RunFailed })
			},
			stats.StudyBetter, "4loc4ext", 4,
			"4loc4ext (4/4) is better than the baseline 8loc0ext (8/0): held-out pass@1 0.2008, 100.8 % above the baseline 8loc0ext (8/0) (0.1000). " +
				"Without a finished run: 2loc6ext.",
			[3]int{3, 0, 0},
		},
		"nothing": {func(*studyRuns) {}, stats.StudyUndecided, "", 0, "Undecided which is best: no finished run has a held-out evaluation.", [3]int{}},
		"seeds that don't vary": {
			func(r *studyRuns) {
				r.arm(0, 0.1, 0.1, 0.1)
				r.arm(4, 0.1, 0.1, 0.1)
			},
			stats.StudyUndecided, "8loc0ext", 0, "Undecided which is best: the baseline 8loc0ext (8/0) is highest", [3]int{0, 0, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var runs studyRuns
			c.runs(&runs)
			s, _ := studyOf(t, runs, paperDesign())
			require.Equal(t, []string{c.outcome, c.best}, []string{s.Outcome, s.Best})
			require.True(t, strings.HasPrefix(s.Verdict, c.lead), s.Verdict)
			switch {
			case c.more > 0:
				require.Equal(t, c.more, *s.MoreSeeds)
			case c.more < 0:
				require.Positive(t, *s.MoreSeeds)
			}
			if c.paper == [3]int{} {
				require.Nil(t, s.Paper)
				return
			}
			for i, outcome := range []string{stats.PaperConfirmed, stats.PaperContradicted, stats.PaperOpen} {
				n, _ := s.Paper.Count(outcome)
				require.Equal(t, c.paper[i], n, outcome)
			}
		})
	}
}

// Own rewards of arms that draw other questions are compared by nothing.
func TestRewardsOfOtherQuestionsAreNotCompared(t *testing.T) {
	var runs studyRuns
	for external, pass := range map[int]float64{0: 0.1, 6: 0.3} {
		runs.arm(external, pass, pass+0.002, pass-0.002, pass+0.001)
	}
	design := paperDesign()
	design.Arms, design.Keys = slices.DeleteFunc(design.Arms, func(a stats.StudyArm) bool { return a.Name == "6loc2ext" || a.Name == "4loc4ext" }), []string{"nodes.tasks"}
	differ := func(a, b store.Totals) []stats.RunDifference {
		if a.Experiment == b.Experiment {
			return nil
		}
		return []stats.RunDifference{{Key: "nodes.tasks", Effect: stats.EffectQuestions, A: "bf", B: "none"}}
	}
	c := worded(t, runs.Runs, stats.CompareOptions{Study: design, Differ: differ})
	require.Equal(t, stats.StudyBest, c.Study.Outcome)
	require.Nil(t, c.Study.Beside)
	require.Nil(t, c.Study.Arms[0].Beside)
	require.Contains(t, c.Study.Lines, "Own rewards are not compared, because the experiments draw other questions (nodes.tasks).")
	require.NotContains(t, strings.Join(c.Study.Lines, "\n"), "cumulative own reward")
}

// A comparison of named experiments has no mean of runs that the alarm stopped, even if no other run is there.
func TestRunsThatTheAlarmStoppedAreInNoMean(t *testing.T) {
	var runs studyRuns
	runs.arm(4, 0.2, 0.21, 0.22)
	for i := range runs.Totals {
		runs.Totals[i].State, runs.Totals[i].Message = store.RunStopped, store.AlarmStop+" in round 139: the gradient norm has grown"
	}
	c := worded(t, runs.Runs, stats.CompareOptions{})
	require.Equal(t, []any{3, 3, (*float64)(nil), 0.0}, []any{c.Rows[0].Runs, c.Rows[0].Unfinished, c.Rows[0].Value, c.Rows[0].CumulativeReward})
	require.Contains(t, c.Notes, "paper-4loc4ext: the alarm stopped all of its 3 runs, which count in no mean.")
	runs.Totals[0].Message = "stopped by SIGINT"
	c = worded(t, runs.Runs, stats.CompareOptions{})
	require.Equal(t, 1, c.Rows[0].Seeds)
	require.Contains(t, c.Notes, "paper-4loc4ext: no run is done; 3 unfinished runs are counted (stopped, stopped by the alarm). Those that the alarm stopped are in no mean. "+
		"The mean of the others is too high: it leaves out the runs that seemed to collapse.")
}

// Seeds that were looked at before are shown and decide nothing. Chosen seeds are the only ones that decide.
func TestExploredSeedsAreShownAndDecideNothing(t *testing.T) {
	var runs studyRuns
	for external, pass := range map[int]float64{0: 0.1, 2: 0.2, 4: 0.3} {
		runs.arm(external, pass+0.05, pass, pass+0.002, pass-0.002, pass+0.001, pass-0.001)
	}
	runs.arm(6, 0.9)
	design := paperDesign()
	design.Explored = []int64{1}
	s, c := studyOf(t, runs, design)
	require.Equal(t, []any{stats.StudyBetter, "4loc4ext", 5}, []any{s.Outcome, s.Best, s.Arms[2].Seeds})
	require.InDelta(t, 0.3, *s.Arms[2].Value, 1e-9)
	require.Contains(t, s.Verdict, "Not run yet with fresh seeds: 2loc6ext.")
	require.Contains(t, s.Lines, "In no test: seed 1. Their results were looked at before, and only fresh seeds decide. Tables by cost and curves include them. "+
		"By held-out pass@1 these seeds reached: 8loc0ext 0.1500 (1 seed), 6loc2ext 0.2500 (1 seed), 4loc4ext 0.3500 (1 seed), 2loc6ext 0.9000 (1 seed).")
	require.Equal(t, "paper-2loc6ext", c.Rows[3].Experiment)
	require.Equal(t, []any{0, 0.9, (*float64)(nil)}, []any{c.Rows[3].Runs, *c.Rows[3].Explored, c.Rows[3].Value})
	table := wording.ArmTable(&s)
	require.Equal(t, []string{"2loc6ext", "0", "-", "-", "-", "-", "-", "undecided", "0.9000 (1)"}, table.Rows[3])

	alone := worded(t, runs.Runs, stats.CompareOptions{Study: design, Seeds: []int64{2, 3, 4}})
	require.Equal(t, 3, alone.Study.Arms[2].Seeds)
	require.Contains(t, strings.Join(alone.Study.Lines, "\n"), "Only seeds 2, 3 and 4 are compared (--seeds). P-values are valid only if no result of these seeds "+
		"was known when they were chosen. By held-out pass@1 seeds 1, 5 and 6 reached: 8loc0ext 0.1167 (3 seeds)")
	runs.Totals = slices.DeleteFunc(runs.Totals, func(r store.Totals) bool { return r.Seed != 1 })
	s, _ = studyOf(t, runs, design)
	require.Equal(t, "Undecided which is best: no run of a fresh seed is finished.", s.Verdict)
	require.Empty(t, s.Missing)
}

// A planned comparison has one verdict, that of its own correction, wherever it is shown.
func TestAPlannedComparisonHasOneVerdict(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.102, 0.098, 0.101)
	runs.arm(2, 0.150, 0.152, 0.148, 0.151)
	runs.arm(4, 0.200, 0.203, 0.199, 0.201)
	runs.arm(6, 0.201, 0.202, 0.199, 0.200)
	d := paperDesign()
	d.Contrasts = [][2]string{{"4loc4ext", "8loc0ext"}}
	s, c := studyOf(t, runs, d)
	require.Equal(t, "4loc4ext is better than 8loc0ext (+100.2 %). Which of the 4 experiments is best is undecided: 4loc4ext (4/4) is highest (held-out pass@1 0.2008).", s.Verdict)
	at := slices.IndexFunc(c.Pairs, func(p stats.Pair) bool { return p.A == "paper-4loc4ext" && p.B == "paper-8loc0ext" })
	require.Equal(t, []any{stats.OutcomeBetter, "better", true}, []any{c.Pairs[at].Outcome, c.Pairs[at].Verdict, c.Pairs[at].Planned()})
	require.InDelta(t, 2.0/70, *c.Pairs[at].PValueHolm, 1e-12, "it is the only planned one")
	require.Equal(t, stats.OutcomeBetter, s.Pairs[at].Outcome)
	require.Equal(t, "better", c.Rows[2].Verdict)
	require.Equal(t, stats.OutcomeUndecided, c.Rows[1].Outcome, "not planned: one of six")
	require.InDelta(t, 6*2.0/70, *s.PValueHolm, 1e-12, "the choice of the highest is corrected for all")
	require.Equal(t, stats.StudyUndecided, s.Outcome)
	require.Contains(t, c.Notes, "Verdicts rest on p-values corrected for 6 comparisons (Holm), the planned ones for 1. Intervals are not corrected.")
	require.Equal(t, []string{"Undecided: 4 seeds a side cannot decide one of 6 comparisons: an exact permutation test over them does not go below 0.029, 0.17 corrected."},
		wording.PairNotes(c.Pairs))
	require.NotContains(t, strings.Join(s.Lines, "\n"), "you may add", "all that was planned is decided")
}

// After a look at seeds that could have decided, only fresh seeds decide.
func TestStudyAsksForFreshSeedsIfThoseThatItHasCouldDecide(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.200, 0.212, 0.198, 0.201)
	runs.arm(4, 0.210, 0.203, 0.204, 0.209)
	d := paperDesign()
	d.Contrasts, d.Seeds = [][2]string{{"4loc4ext", "8loc0ext"}}, 4
	s, _ := studyOf(t, runs, d)
	require.Equal(t, stats.OutcomeUndecided, s.Contrasts[0].Outcome)
	require.Contains(t, s.Lines, "These seeds could have decided, so more of them would be a second chance. Fresh seeds alone may decide: "+
		"swarm sweep --study paper --model nano --seeds 5,6,7,8, then swarm compare --study paper --model nano --seeds 5,6,7,8")
	require.NotContains(t, strings.Join(s.Lines, "\n"), "you may add")
}

// Adding seeds until a p-value is small produces false positives. The study therefore reports seeds beyond its plan,
// whatever the verdict, with the command that decides.
func TestStudyTellsOfSeedsBeyondItsPlan(t *testing.T) {
	five, seven := []float64{0.100, 0.102, 0.098, 0.101, 0.099}, []float64{0.100, 0.102, 0.098, 0.101, 0.099, 0.103, 0.097}
	line := "Some experiments have 7 seeds, but the study plans 5. If seeds were added after a look at the verdict, only fresh seeds decide: "
	for name, c := range map[string]struct {
		planned int
		source  string
		first   []float64
		told    string
	}{
		"as planned": {5, "paper", five, ""},
		"more":       {5, "paper", seven, line + "swarm sweep --study paper --model nano --seeds 8,9,10,11,12, then swarm compare --study paper --model nano --seeds 8,9,10,11,12"},
		"a file": {5, "my studies/x.yaml", seven, line + "swarm sweep --study 'my studies/x.yaml' --model nano --seeds 8,9,10,11,12, " +
			"then swarm compare --study 'my studies/x.yaml' --model nano --seeds 8,9,10,11,12"},
		"a grid":      {5, "", seven, line + "the same sweep with --home fresh --seeds 8,9,10,11,12"},
		"planned so":  {7, "paper", seven, ""},
		"nobody said": {0, "paper", seven, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var runs studyRuns
			for external, shift := range map[int]float64{2: 0, 4: 0.1, 6: 0.2} {
				runs.arm(external, 0.200+shift, 0.202+shift, 0.198+shift, 0.201+shift, 0.199+shift)
			}
			runs.arm(0, c.first...)
			design := paperDesign()
			design.Seeds, design.Source = c.planned, c.source
			s, _ := studyOf(t, runs, design)
			require.Equal(t, stats.StudyBest, s.Outcome)
			text := strings.Join(s.Lines, "\n")
			if c.told == "" {
				require.NotContains(t, text, "fresh seeds")
				return
			}
			require.Contains(t, s.Lines, c.told)
			require.NotContains(t, text, "double")
		})
	}
}

// A verdict on two arms stays when other arms arrive without a difference, because their pairs are counted from the
// beginning.
func TestStudyIsCorrectedForThePairsOfArmsThatAreStillToCome(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.110, 0.105, 0.103)
	runs.arm(4, 0.124, 0.114, 0.122, 0.120)
	two, c := studyOf(t, runs, paperDesign())
	require.InDelta(t, 2.0/70, *two.PermutationPValue, 1e-12, "alone it would decide")
	require.InDelta(t, 6*2.0/70, *two.PValueHolm, 1e-12)
	require.Equal(t, stats.StudyUndecided, two.Outcome)
	require.Contains(t, two.Lines[1], "corrected for 6 comparisons")
	require.Contains(t, strings.Join(c.Notes, " "), "corrected for 6 comparisons")
	require.Contains(t, two.Lines, "So few seeds could decide nothing, so you may add some: choose their number first, then decide once.")
	needed, _ := sample.SeedsNeeded([]float64{0.124, 0.114, 0.122, 0.120}, []float64{0.100, 0.110, 0.105, 0.103}, 0.05/6)
	require.Equal(t, max(needed, 5)-4, *two.Pairs[0].MoreSeeds, "for the level that six comparisons leave")

	runs = studyRuns{}
	runs.arm(0, 0.100, 0.102, 0.098, 0.101, 0.099)
	runs.arm(4, 0.120, 0.122, 0.118, 0.121, 0.119)
	before, _ := studyOf(t, runs, paperDesign())
	runs.arm(2, 0.100, 0.101, 0.099, 0.102, 0.098)
	runs.arm(6, 0.120, 0.121, 0.119, 0.122, 0.118)
	after, _ := studyOf(t, runs, paperDesign())
	decided := func(s stats.Study) string {
		i := slices.IndexFunc(s.Pairs, func(p stats.StudyPair) bool { return p.A == "paper-4loc4ext" && p.B == "paper-8loc0ext" })
		return s.Pairs[i].Outcome
	}
	require.Equal(t, []string{stats.OutcomeBetter, stats.OutcomeBetter}, []string{decided(before), decided(after)})
	require.NotContains(t, strings.Join(before.Lines, "\n"), "paper-", "arms are called by their short names")
}

func TestStudySaysWhatItsRunsDifferIn(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.102, 0.098)
	runs.arm(4, 0.200, 0.203, 0.199)
	s, _ := studyOf(t, runs, paperDesign())
	require.NotContains(t, s.Verdict, "like for like")
	require.Contains(t, strings.Join(s.Lines, "\n"), "By cumulative own reward: ")
	require.Equal(t, stats.BasisCumulative, s.Beside.Basis)

	runs.set("paper-8loc0ext-2", func(r *store.Totals) { r.RoundsDone, r.NodeRounds = 5, 40 })
	for i := range 3 {
		runs.set(fmt.Sprintf("paper-4loc4ext-%d", i+1), func(r *store.Totals) { r.NodesSeen = 4 })
	}
	s, _ = studyOf(t, runs, paperDesign())
	require.True(t, strings.HasSuffix(s.Verdict, " But the comparison is not like for like: the runs differ in rounds: 5 (8loc0ext), 10 (8loc0ext, 4loc4ext); "+
		"in nodes: 4 (4loc4ext), 8 (8loc0ext)."), s.Verdict)
	require.Equal(t, s.Verdict, s.Lines[0])
	text := strings.Join(s.Lines, "\n")
	require.Equal(t, stats.BasisPerNodeRound, s.Beside.Basis)
	require.Contains(t, text, "By own reward per node and round: ")
	require.NotContains(t, text, "cumulative")

	d := paperDesign()
	d.Arms[2].Nodes = 4
	s, _ = studyOf(t, runs, d)
	require.NotContains(t, s.Verdict, "in nodes", "the study asks for it")
}

func TestStudyListsWhatDoesNotCount(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.102, 0.098)
	runs.arm(4, 0.200, 0.203, 0.199, 0.9)
	runs.arm(6, 0.170, 0.171)
	runs.set("paper-4loc4ext-4", func(r *store.Totals) { r.State, r.Message = store.RunLost, "2 nodes gave up" })
	runs.set("paper-2loc6ext-2", func(r *store.Totals) { r.State = store.RunStopped })
	runs.set("paper-8loc0ext-3", func(r *store.Totals) { r.State = store.RunFailed })
	again := experiment("paper-8loc0ext", 0, 8)[0]
	again.Run.Run, again.Seed = "paper-8loc0ext-again", 3
	runs.Totals = append(runs.Totals, again, experiment("unrelated", 0, 8)[0])
	runs.evaluate("paper-8loc0ext-again", 0.099)
	s, c := studyOf(t, runs, paperDesign())
	require.Equal(t, []stats.StudyRun{
		{Name: "8loc0ext", Experiment: "paper-8loc0ext", Seed: 3, Run: "paper-8loc0ext-3", State: store.RunFailed, Again: true},
		{Name: "4loc4ext", Experiment: "paper-4loc4ext", Seed: 4, Run: "paper-4loc4ext-4", State: store.RunLost, Message: "2 nodes gave up"},
	}, s.Failed)
	require.Equal(t, []stats.StudyRun{{Name: "2loc6ext", Experiment: "paper-2loc6ext", Seed: 2, Run: "paper-2loc6ext-2", State: store.RunStopped}}, s.Unfinished)
	require.Len(t, s.Missing, 4+1+2, "6/2 has no run, 8/0 not the fourth seed, 2/6 not the third and fourth")
	require.InDelta(t, 0.2007, *s.Arms[2].Value, 1e-4, "the lost run is in no mean")
	require.Equal(t, []int{3, 0, 3, 1}, []int{s.Arms[0].Seeds, s.Arms[1].Seeds, s.Arms[2].Seeds, s.Arms[3].Seeds})
	require.Len(t, c.Rows, 3)
	text := strings.Join(s.Lines, "\n")
	require.Contains(t, text, "Failed, not in any mean: 8loc0ext seed 3 (failed; run again since), 4loc4ext seed 4 (lost: 2 nodes gave up).")
	require.Contains(t, text, "Unfinished, not in any mean: 2loc6ext seed 2 (stopped).")
	require.Contains(t, text, "Not begun: 8loc0ext seed 4, 6loc2ext seed 1, ")
}

// A run that the alarm stopped counts in no mean, and the verdict says that the mean of the others is too high.
func TestStudyTellsOfRunsThatTheAlarmStopped(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.102, 0.098)
	runs.arm(4, 0.200, 0.203, 0.9)
	const message = store.AlarmStop + " in round 139: the gradient norm has grown"
	runs.set("paper-4loc4ext-3", func(r *store.Totals) { r.State, r.Message = store.RunStopped, message })
	s, _ := studyOf(t, runs, paperDesign())
	text := strings.Join(s.Lines, "\n")
	require.Contains(t, text, "Unfinished, not in any mean: 4loc4ext seed 3 (stopped by the alarm).")
	require.Contains(t, s.Verdict, " But the alarm stopped 1 run of 4loc4ext. The mean of the others is too high: it leaves out the runs that seemed to collapse.")
	require.InDelta(t, 0.2015, *s.Arms[2].Value, 1e-9)
	c := worded(t, runs.Runs, stats.CompareOptions{})
	require.Contains(t, strings.Join(c.Notes, "\n"),
		"paper-4loc4ext: 1 run is not done (stopped by the alarm) and not counted, unlike the 2 that are. The mean of the others is too high")

	runs = studyRuns{}
	runs.arm(0, 0.100, 0.102, 0.098, 0.101)
	runs.arm(4, 0.200, 0.203, 0.199, 0.201, 0.010)
	runs.set("paper-4loc4ext-5", func(r *store.Totals) { r.State, r.Message = store.RunStopped, message })
	d := paperDesign()
	d.Contrasts = [][2]string{{"4loc4ext", "8loc0ext"}}
	s, c = studyOf(t, runs, d)
	require.Equal(t, []string{stats.StudyUndecided, stats.OutcomeUndecided, stats.OutcomeUndecided}, []string{s.Outcome, s.Contrasts[0].Outcome, c.Pairs[0].Outcome})
	require.Contains(t, s.Contrasts[0].Verdict, "p = 0.029; 4 seeds against 4): undecided, because the alarm stopped runs of the higher side, so that its mean is too high.")
	require.Equal(t, "undecided: the alarm stopped 1 run of the higher side, so its mean is too high", c.Pairs[0].Verdict)
	c = worded(t, runs.Runs, stats.CompareOptions{})
	require.Equal(t, stats.OutcomeUndecided, c.Pairs[0].Outcome, "without a study, too")
	runs.arm(2, 0.400, 0.403, 0.399, 0.401)
	d.Contrasts = [][2]string{{"4loc4ext", "6loc2ext"}}
	s, _ = studyOf(t, runs, d)
	require.Equal(t, stats.OutcomeWorse, s.Contrasts[0].Outcome, "the mean of the lower side is too high, and yet it is lower")

	runs = studyRuns{}
	runs.arm(0, 0.100, 0.102, 0.098)
	runs.arm(4, 0.200, 0.203, 0.9)
	runs.set("paper-4loc4ext-3", func(r *store.Totals) { r.State, r.Message = store.RunStopped, "stopped by SIGINT" })
	s, _ = studyOf(t, runs, paperDesign())
	c = worded(t, runs.Runs, stats.CompareOptions{})
	require.Contains(t, strings.Join(s.Lines, "\n"), "4loc4ext seed 3 (stopped).")
	require.NotContains(t, strings.Join(s.Lines, "\n")+strings.Join(c.Notes, "\n"), "too high")
}

// A study says what the nodes that only generate count for.
func TestStudyTellsOfTeachers(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.102, 0.098)
	runs.arm(4, 0.200, 0.203, 0.9)
	s, _ := studyOf(t, runs, paperDesign())
	require.NotContains(t, strings.Join(s.Lines, "\n"), "only generate")
	runs.set("paper-4loc4ext-3", func(r *store.Totals) { r.Teachers = 1 })
	s, _ = studyOf(t, runs, paperDesign())
	require.Contains(t, s.Lines, "Held-out pass@1 and rewards leave out the nodes of 4loc4ext that only generate. Completions, tokens, times and money include them.")
}

func TestStudySaysWhereTheMeasuresDisagree(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.102, 0.098, 0.101)
	runs.arm(4, 0.200, 0.203, 0.199, 0.201)
	for i := range 4 {
		runs.set(fmt.Sprintf("paper-8loc0ext-%d", i+1), func(r *store.Totals) { r.CumulativeReward = 40 + float64(i) })
	}
	d := paperDesign()
	d.Arms = []stats.StudyArm{d.Arms[0], d.Arms[2]}
	s, _ := studyOf(t, runs, d)
	require.Equal(t, stats.StudyBest, s.Outcome)
	require.Equal(t, []any{stats.MeasureReward, stats.StudyBest, "8loc0ext", false}, []any{s.Beside.Measure, s.Beside.Outcome, s.Beside.Best, *s.Beside.Agrees})
	require.Equal(t, []stats.StudyPaperPair{{High: "4loc4ext", Low: "8loc0ext", Outcome: stats.PaperConfirmed, ByReward: stats.PaperContradicted,
		Difference: s.Paper.Pairs[0].Difference}}, s.Paper.Pairs)
	require.Contains(t, strings.Join(s.Lines, "\n"), "The measures disagree: by held-out pass@1 it is 4loc4ext.")

	c := worded(t, runs.Runs, stats.CompareOptions{Study: d, Measure: stats.MeasureReward})
	require.Equal(t, []any{"8loc0ext", stats.MeasurePass}, []any{c.Study.Best, c.Study.Beside.Measure})
	require.Equal(t, stats.PaperContradicted, c.Study.Paper.Pairs[0].ByReward)
}

func TestStudyRowsOfAnotherSettingHaveNoPaper(t *testing.T) {
	var runs studyRuns
	runs.arm(0, 0.100, 0.102, 0.098)
	runs.arm(4, 0.200, 0.203, 0.199)
	for _, c := range []struct {
		config, name string
		plain        bool
	}{
		{`{"learning_rate": 0.1, "split": "fixed", "zero_advantage_filter": true, "external_sampling": "auto", "num_iterations": 1}`, "4/4", true},
		{`{"split": "bandit"}`, "adaptive", false},
		{`{"split": "reward-ema"}`, "adaptive-ema", false},
		{`{"zero_advantage_filter": false}`, "4/4", false},
		{`{"external_sampling": "reward"}`, "4/4", false},
		{`{"external_advantage": "positive"}`, "4/4", false},
		{`{"external_correction": "importance"}`, "4/4", false},
		{`{"external_lag": 2}`, "4/4", false},
		{`{"models": "nano,micro"}`, "4/4", false},
		{`{"scale_rewards": "none"}`, "4/4", false},
		{`[]`, "4/4", true},
	} {
		for i := range 3 {
			runs.set(fmt.Sprintf("paper-4loc4ext-%d", i+1), func(r *store.Totals) { r.Config = json.RawMessage(c.config) })
		}
		s, compared := studyOf(t, runs, paperDesign())
		require.Equal(t, c.name, compared.Rows[1].Config)
		require.Equal(t, c.plain, compared.Rows[1].PaperImprovement != nil, c.config)
		require.Equal(t, c.plain, s.Paper != nil, c.config)
	}
}

func TestStudiesNeverClaimWithFewSeedsAndDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs studyRuns
		seeds := map[string]int{}
		for _, j := range []int{0, 2, 4, 6} {
			share := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 0.5, 1}))
			values := rapid.SliceOfN(share, 0, 5).Draw(t, "values")
			runs.arm(j, values...)
			seeds[fmt.Sprintf("%dloc%dext", 8-j, j)] = len(values)
		}
		for i := range runs.Totals {
			states := rapid.SampledFrom([]string{store.RunDone, store.RunDone, store.RunDone, store.RunFailed, store.RunRunning})
			if state := states.Draw(t, "state"); state != store.RunDone {
				runs.Totals[i].State = state
				seeds[paperDesign().ShortName(runs.Totals[i].Experiment)]--
			}
		}
		s, _ := studyOf(t, runs, paperDesign())
		fewest := slices.Min([]int{seeds["8loc0ext"], seeds["6loc2ext"], seeds["4loc4ext"], seeds["2loc6ext"]})
		require.Equal(t, fewest, s.Seeds)
		switch s.Outcome {
		case stats.StudyBest:
			require.GreaterOrEqual(t, fewest, 4, "up to five seeds a side, six pairs")
		case stats.StudyBetter:
			require.GreaterOrEqual(t, min(seeds[s.Best], seeds["8loc0ext"]), 4)
			require.Positive(t, *s.Gain)
			require.Less(t, *s.PValueHolm, 0.05)
		default:
			require.True(t, strings.HasPrefix(s.Verdict, "Undecided"), s.Verdict)
		}
		for _, p := range s.Pairs {
			if min(p.SeedsA, p.SeedsB) < 4 {
				require.Equal(t, stats.OutcomeUndecided, p.Outcome)
			}
			if min(p.SeedsA, p.SeedsB) < 3 {
				require.GreaterOrEqual(t, *p.MoreSeeds, 2)
			}
		}
		runs.Totals = rapid.Permutation(runs.Totals).Draw(t, "shuffled")
		again, _ := studyOf(t, runs, paperDesign())
		require.Equal(t, s, again)
	})
}

// mixedRuns returns the three arms of a study of two models, and its design. The arguments are shares of right
// completions by seed, of the nodes of each model.
func mixedRuns(nano, micro, nanoMixed, microMixed []float64) (studyRuns, *stats.StudyDesign) {
	var runs studyRuns
	d := &stats.StudyDesign{Name: "mixed", Baseline: "nano"}
	runs.ModelEvals = map[string]map[string]store.EvalTotal{}
	arm := func(name string, byModel map[string][]float64) {
		d.Arms = append(d.Arms, stats.StudyArm{Name: name, Experiment: "mixed-" + name, Models: len(byModel)})
		seeds := 0
		for _, passes := range byModel {
			seeds = len(passes)
		}
		for i := range seeds {
			x := experiment("mixed-"+name, 4, 8)[0]
			x.Run.Run, x.Seed = fmt.Sprint("mixed-", name, i), int64(i)
			runs.Totals = append(runs.Totals, x)
			sum, of := 0.0, map[string]store.EvalTotal{}
			for model, passes := range byModel {
				runs.evaluate(model, passes[i])
				of[model] = runs.Evals[model]
				delete(runs.Evals, model)
				sum += passes[i] / float64(len(byModel))
			}
			runs.ModelEvals[x.Run.Run] = of
			runs.evaluate(x.Run.Run, sum)
		}
	}
	arm("nano", map[string][]float64{"nano": nano})
	arm("micro", map[string][]float64{"micro": micro})
	arm("both", map[string][]float64{"nano": nanoMixed, "micro": microMixed})
	return runs, d
}

func micro(s stats.Study) stats.StudyModel { return s.Models[0] }

func TestStudyOfSeveralModelsAnswersForEach(t *testing.T) {
	low, middle, high := []float64{0.10, 0.11, 0.10, 0.11, 0.10}, []float64{0.20, 0.21, 0.20, 0.21, 0.20}, []float64{0.30, 0.31, 0.30, 0.31, 0.30}
	none := []float64{}
	for name, c := range map[string]struct {
		nano, micro, nanoMixed, microMixed []float64
		outcome, lead                      string
	}{
		"both gain": {low, middle, middle, high, stats.StudyBetter, "Every model gains in a mixed swarm over a swarm of that model alone, by held-out pass@1: " +
			"micro better (0.3040 against 0.2040), nano better (0.2040 against 0.1040)."},
		"both lose":                  {middle, high, low, middle, stats.StudyWorse, "Every model loses in a mixed swarm"},
		"one gains, one loses":       {low, high, middle, middle, stats.StudyMixed, "Of 2 models 1 gains and 1 loses in a mixed swarm"},
		"one loses, one is the same": {middle, high, low, high, stats.StudyUndecided, "Not every model gains, and some are undecided in a mixed swarm"},
		"one alone isn't done":       {low, none, middle, high, stats.StudyUndecided, "Undecided whether every model gains in a mixed swarm"},
		"the mixed swarm isn't done": {low, high, none, none, stats.StudyUndecided, "Undecided whether every model gains in a mixed swarm: " +
			"this needs finished runs with held-out evaluations of the mixed swarm and of each model alone, at least 5 seeds of each."},
	} {
		t.Run(name, func(t *testing.T) {
			runs, d := mixedRuns(c.nano, c.micro, c.nanoMixed, c.microMixed)
			s, _ := studyOf(t, runs, d)
			require.Equal(t, c.outcome, s.Outcome, s.Verdict)
			require.True(t, strings.HasPrefix(s.Verdict, c.lead), s.Verdict)
			for _, m := range s.Models {
				if p := m.Pair.PermutationPValue; p != nil {
					require.Equal(t, m.Pair.PermutationPValue, p)
					require.GreaterOrEqual(t, *m.Pair.PValueHolm, *p)
				}
			}
		})
	}
	runs, d := mixedRuns(low, none, []float64{0.11, 0.125, 0.13, 0.12, 0.115}, high)
	s, _ := studyOf(t, runs, d)
	require.Len(t, s.Models, 1)
	require.InDelta(t, 2**s.Models[0].Pair.PermutationPValue, *s.Models[0].Pair.PValueHolm, 1e-12, "micro's comes later and counts now")
}

func TestStudyOfSeveralModelsComparesEachWithItsOwn(t *testing.T) {
	runs, d := mixedRuns([]float64{0.10, 0.11, 0.10, 0.11, 0.10}, []float64{0.30, 0.31, 0.30, 0.31, 0.30}, []float64{0.20, 0.21, 0.20, 0.21, 0.20},
		[]float64{0.30, 0.29, 0.31, 0.30, 0.31})
	s, _ := studyOf(t, runs, d)
	require.Equal(t, []any{stats.StudyUndecided, "micro"}, []any{s.Outcome, s.Best}, "best is by mean over all nodes, which the outcome isn't of")
	require.Equal(t, "Undecided whether every model gains in a mixed swarm over a swarm of that model alone, by held-out pass@1: "+
		"micro undecided (0.3020 against 0.3040), nano better (0.2040 against 0.1040).", s.Verdict)
	require.Contains(t, s.Lines[1], "Nodes with model micro: ")
	require.Contains(t, s.Lines[3], "Ranking the experiments by the mean over nodes of all models answers a different question: "+
		"micro (4/4) is best: ")
	require.Equal(t, micro(s).Pair.MoreSeeds, s.MoreSeeds)
	require.Len(t, s.Models, 2)
	nano := s.Models[1]
	require.Equal(t, []string{"micro", "both", "micro", stats.OutcomeUndecided},
		[]string{micro(s).Model, micro(s).Mixed, micro(s).Alone, micro(s).Pair.Outcome})
	require.Equal(t, []string{"nano", "both", "nano", stats.OutcomeBetter}, []string{nano.Model, nano.Mixed, nano.Alone, nano.Pair.Outcome})
	require.InDelta(t, 0.1, *nano.Pair.Difference, 1e-9)
	require.Contains(t, strings.Join(s.Lines, "\n"), "Nodes with model nano: held-out pass@1 0.2040 in both against 0.1040 in nano (+0.1000, 95 % interval ")
}
