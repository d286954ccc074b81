package wording_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// spend adds evaluations of a run before its first and after its tenth round, and the cost of each round.
func (r *studyRuns) spend(run string, first, last, completions, engine float64) {
	if r.HeldOut == nil {
		r.HeldOut = map[string]stats.HeldOutSeries{}
	}
	r.set(run, func(x *store.Totals) { x.Host, x.Device = "here", "cpu" })
	s := stats.HeldOutSeries{RunSeries: stats.RunSeries{More: map[string][]store.RoundValue{}}}
	for round := range 10 {
		for metric, v := range map[string]float64{"completions": completions, "generate_time": engine} {
			s.More[metric] = append(s.More[metric], store.RoundValue{Round: round, Node: "node_0", Time: float64(round), Value: v})
		}
	}
	s.Values = s.More["completions"]
	for round, pass := range map[int]float64{0: first, 10: last} {
		e := store.EvalTotal{Run: run, Set: "s", Round: round, Generations: 1, Questions: 1000, Correct: int(math.Round(1000 * pass))}
		if round == 0 {
			s.Evals = append([]store.EvalTotal{e}, s.Evals...)
		} else {
			s.Evals = append(s.Evals, e)
		}
	}
	r.HeldOut[run] = s
}

// cheap returns a study in which 8/0 ends above 2/6 and generates four times as much.
func cheap() (studyRuns, *stats.StudyDesign) {
	var runs studyRuns
	d := paperDesign()
	d.Arms = []stats.StudyArm{d.Arms[0], d.Arms[3]}
	full, few := []float64{0.400, 0.402, 0.398, 0.400}, []float64{0.300, 0.302, 0.298, 0.300}
	runs.arm(0, full...)
	runs.arm(6, few...)
	for i := range full {
		runs.spend(fmt.Sprintf("paper-8loc0ext-%d", i+1), 0.1, full[i], 6400, 90)
		runs.spend(fmt.Sprintf("paper-2loc6ext-%d", i+1), 0.1, few[i], 1600, 90)
	}
	return runs, d
}

func TestAStudyNamesTheAxesOnWhichTheOrderDiffers(t *testing.T) {
	runs, d := cheap()
	d.Explored = []int64{4}
	s, c := studyOf(t, runs, d)
	require.InDelta(t, 0.4, *c.Rows[0].Explored, 1e-9)
	c = worded(t, runs.Runs, stats.CompareOptions{Study: d, Per: "completions"})
	require.InDelta(t, 0.175, *c.Rows[0].Explored, 1e-9, "after 16 000 completions, a quarter of the run, as the other seeds")
	d.Explored = nil
	s, _ = studyOf(t, runs, d)
	require.True(t, strings.HasPrefix(s.Verdict, "At equal rounds (10): the baseline 8loc0ext (8/0) is best: held-out pass@1 0.4000"), s.Verdict)
	require.Contains(t, s.Lines, "At equal completions (16 000) the order is 2loc6ext > 8loc0ext, at equal rounds 8loc0ext > 2loc6ext.")

	for run := range runs.HeldOut {
		x := runs.HeldOut[run]
		for i := range x.More["generate_time"] {
			if strings.HasPrefix(run, "paper-2") {
				x.More["generate_time"][i].Value = 10
			}
		}
	}
	s, _ = studyOf(t, runs, d)
	require.Contains(t, s.Lines, "At equal completions (16 000) and equal engine-seconds (1m40s) the order is 2loc6ext > 8loc0ext, at equal rounds 8loc0ext > 2loc6ext.")
	require.Contains(t, s.Lines, "Times compare runs made side by side on one machine.")

	delete(runs.HeldOut, "paper-8loc0ext-1")
	s, _ = studyOf(t, runs, d)
	require.NotContains(t, strings.Join(s.Lines, "\n"), "the order is", "an order of some arms is none")
}

// A study with planned comparisons names the axes on which one of them is decided otherwise.
func TestAStudyChecksItsPlannedComparisonsOnEveryAxis(t *testing.T) {
	runs, d := cheap()
	d.Contrasts = [][2]string{{"2loc6ext", "8loc0ext"}}
	s, _ := studyOf(t, runs, d)
	require.Contains(t, s.Lines, "At equal completions (16 000) 2loc6ext over 8loc0ext is +0.1250 (p = 0.029, better), at equal rounds -0.1000 (p = 0.029, worse); "+
		"the order is 2loc6ext > 8loc0ext, at equal rounds 8loc0ext > 2loc6ext.")
	require.Contains(t, s.Lines, "The planned comparisons are decided alike at equal engine-seconds (15m0s) and equal seconds (9s).")
}

// An arm whose newest evaluation is earlier does not set the round that a verdict about the others names.
func TestAVerdictNamesTheRoundsOfItsOwnComparison(t *testing.T) {
	runs, d := cheap()
	d.Arms = append(d.Arms, paperDesign().Arms[2])
	runs.arm(4, 0.2, 0.2, 0.2, 0.2)
	for i := range 4 {
		run := fmt.Sprintf("paper-4loc4ext-%d", i+1)
		runs.spend(run, 0.1, 0.2, 3200, 90)
		runs.HeldOut[run].Evals[1].Round = 5
		runs.Evals[run] = runs.HeldOut[run].Evals[1]
	}
	s, c := studyOf(t, runs, d)
	require.Equal(t, []any{5.0, 10}, []any{*s.Per.Common, *c.Pairs[0].EvalRound})
	require.True(t, strings.HasPrefix(s.Verdict, "At equal rounds: "), s.Verdict)
	require.NotContains(t, s.Verdict, "after", "without a common evaluation each has its newest")
	runs.EvalRounds = map[string][]store.EvalTotal{}
	for _, arm := range []string{"8loc0ext", "2loc6ext"} {
		for i := range 4 {
			run := fmt.Sprintf("paper-%s-%d", arm, i+1)
			middle := runs.Evals[run]
			middle.Round = 5
			runs.EvalRounds[run] = []store.EvalTotal{middle, runs.Evals[run]}
		}
	}
	for i := range 4 {
		run := fmt.Sprintf("paper-4loc4ext-%d", i+1)
		runs.EvalRounds[run] = []store.EvalTotal{runs.Evals[run]}
	}
	s, _ = studyOf(t, runs, d)
	require.Contains(t, s.Verdict, "held-out pass@1 after 5 rounds 0.4000", "they are ranked where all are evaluated")
}

func TestAVerdictOnAnAxisSaysWhatIsEqual(t *testing.T) {
	runs, d := cheap()
	verdict := func(per string) (stats.Study, string) {
		c := worded(t, runs.Runs, stats.CompareOptions{Study: d, Per: per, Target: 0.2})
		return *c.Study, strings.Join(append(c.Study.Lines, c.Notes...), "\n")
	}
	s, text := verdict("completions")
	d.Explored = []int64{4}
	_, explored := verdict("completions")
	require.Contains(t, explored, "The other columns, except explored, are of whole runs.")
	d.Explored = nil
	require.Equal(t, "At equal completions (16 000): 2loc6ext (2/6) is best: held-out pass@1 0.3000, 71.4 % above the baseline 8loc0ext (8/0) (0.1750).", s.Verdict)
	require.Contains(t, text, "\nAt equal rounds (10), equal engine-seconds (15m0s) and equal seconds (9s) the order is 8loc0ext > 2loc6ext, at equal completions 2loc6ext > 8loc0ext.\n")
	require.Contains(t, text, "\nAt equal rounds, by cumulative own reward: 8loc0ext is highest")
	require.NotContains(t, text, "easures", "that compares other things")
	require.Contains(t, text, "Of its 1 pair, at equal rounds, by held-out pass@1 0 confirmed, 1 not reproduced, 0 open")
	require.Contains(t, text, "\nVerdicts, differences and improvements are at equal completions (16 000). The other columns are of whole runs.")

	s, text = verdict("engine-seconds")
	require.True(t, strings.HasPrefix(s.Verdict, "At equal engine-seconds (15m0s): the baseline 8loc0ext (8/0) is best"), s.Verdict)
	require.Contains(t, text, "\nTimes compare runs made side by side on one machine, and these are recorded from one.")
	runs.set("paper-8loc0ext-1", func(x *store.Totals) { x.Host = "there" })
	_, text = verdict("seconds")
	require.Contains(t, text, "These runs are recorded from several hosts or devices.")
	runs.set("paper-8loc0ext-1", func(x *store.Totals) { x.Host = "" })
	_, text = verdict("seconds")
	require.Contains(t, text, "It is not recorded of all runs where they were made.")

	s, _ = verdict("money")
	require.Equal(t, "At equal money: undecided which is best: no finished run has a held-out evaluation and a price (--price).", s.Verdict)
	s, _ = verdict("tokens")
	require.Equal(t, "At equal tokens: undecided which is best: no finished run has a held-out evaluation and recorded tokens.", s.Verdict)
	require.Empty(t, wording.PerTable(s.Per).Rows)

	// At equal completions runs may differ in rounds.
	runs.set("paper-8loc0ext-2", func(x *store.Totals) { x.RoundsDone = 9 })
	s, _ = verdict("completions")
	require.NotContains(t, s.Verdict, "like for like")
	s, _ = verdict("")
	require.Contains(t, s.Verdict, "like for like")
}

func TestATableOfWhatRunsCost(t *testing.T) {
	var p stats.StudyPer
	require.NoError(t, json.Unmarshal([]byte(`{"axis": "money", "measure": "pass", "currency": "$", "horizons": [0.5, 20], "common_horizon": 0.3, "target": 0.3, "rows": [
		{"name": "a", "seeds": 3, "values": [0.2, null], "lows": [0.1, null], "highs": [0.25, null], "area": 0.1, "end": 0.3, "end_low": 0.1, "end_high": 0.3},
		{"name": "b", "seeds": 1, "values": [0.2, 0.2], "lows": [0.2, 0.2], "highs": [0.2, 0.2], "end": 0.1}],
		"cost_to_target": [{"name": "a", "seeds": 3, "reached": 2, "cost": 0.1}, {"name": "b", "seeds": 1}],
		"tests": [{"of": "value", "place": 0.5, "comparisons": [{"a": "a", "b": "b", "seeds_a": 3, "seeds_b": 1, "difference": 0.01, "ci_low": -0.02, "ci_high": 0.04, "p_value_holm": 0.5}]},
			{"of": "value", "place": 20, "comparisons": [{"a": "a", "b": "b"}]}, {"of": "area", "place": 0.3, "comparisons": [{"a": "a", "b": "b"}]},
			{"of": "cost", "place": 0.3, "comparisons": [{"a": "a", "b": "b", "difference": -0.2}]}]}`), &p))
	require.Equal(t, wording.Table{
		Title: "Held-out pass@1 by cost, $: mean over seeds, lowest and highest seed, interpolated between evaluations",
		Heads: []string{"experiment", "seeds", "$0.50", "$20.00", "last", "area to $0.30", "to reach 0.3", "reached"},
		Rows: [][]string{
			{"a", "3", "0.200 (0.100-0.250)", "-", "0.300 (0.100-0.300)", "0.100", "$0.10", "2 of 3"},
			{"b", "1", "0.200", "0.200", "0.100", "-", "-", "0 of 1"},
			{"a over b", "3, 1", "+0.010 (-0.020 to +0.040) p 0.5", "-", "-", "-", "-$0.20", "-"},
		},
		Notes: []string{`"over": difference, its 95 % interval, and p by the permutation test and Welch's over seeds (the larger), corrected by Holm within a column.`,
			`"-": a run ended before, or was first evaluated later.`,
			"What it cost to reach the target is a median over seeds. Seeds that never reached it count as slowest."},
	}, wording.PerTable(&p))
	for i := range p.Tests { // the only seed of b is an explored one
		p.Tests[i].Comparisons[0] = stats.StudyContrast{A: "a", B: "b", SeedsA: 3}
	}
	table := wording.PerTable(&p)
	require.Equal(t, []string{"a over b", "3, 0", "-", "-", "-", "-", "-", "-"}, table.Rows[2])
	require.Contains(t, table.Notes, `"-" of a comparison with 0 seeds: that side has no seeds that decide.`)
	require.Empty(t, wording.PerTable(nil).Heads)
}
