package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// studied returns runs of an experiment, each with a number of correct completions out of a hundred.
func studied(experiment string, external int, correct ...int) []comparedRun {
	var runs []comparedRun
	for i, n := range correct {
		runs = append(runs, comparedRun{experiment: experiment, seed: int64(52 + i), external: external, reward: float64(n) / 1000, correct: n})
	}
	return runs
}

// paperHome is a home with the paper's study. One of the runs was lost.
func paperHome(t *testing.T) string {
	t.Helper()
	runs := append(studied("paper-8loc0ext", 0, 10, 11, 10, 11, 10), studied("paper-6loc2ext", 2, 20, 21, 20, 21, 20)...)
	runs = append(append(runs, studied("paper-4loc4ext", 4, 40, 41, 40, 41, 40)...), studied("paper-2loc6ext", 6, 30, 31, 30, 31, 30)...)
	lost := comparedRun{experiment: "paper-4loc4ext", seed: 57, external: 4, reward: 0.9, correct: 99, state: store.RunLost}
	return comparedHome(t, append(append(runs, lost), threeSeeds("unrelated", 4, 0.5, 0.6)...)...)
}

const paperLead = "At equal rounds (20): 4loc4ext (4/4) is best: held-out pass@1 0.4040, 288.5 % above the baseline 8loc0ext (8/0) (0.1040), 32.9 % above the next best " +
	"2loc6ext (2/6) (0.3040)."

func TestCompareOfAStudyAnswersItsQuestionFirst(t *testing.T) {
	t.Parallel()
	home := paperHome(t)
	o := swarm(t, home, "compare", "--study", "paper")
	require.Zero(t, o.code, o.stderr)
	lines := strings.Split(o.stdout, "\n")
	require.Equal(t, paperLead, lines[0])
	require.Regexp(t, `^Over the baseline 8loc0ext \(8/0\): \+0\.3000, \+288\.5 % \(95 % interval .*`+
		`exact permutation test p = 0\.0079, 0\.048 corrected for 6 comparisons; 5 seeds against 5\): better\.$`, lines[1])
	require.Contains(t, o.stdout, "Failed, not in any mean: 4loc4ext seed 57 (lost).")
	require.Contains(t, o.stdout, "\n8loc0ext    8/0")
	require.NotContains(t, o.stdout, "paper-")
	require.NotContains(t, o.stdout, "unrelated")

	o = swarm(t, home, "compare", "--study", "paper", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var c stats.Comparison
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
	require.Equal(t, []any{stats.StudyBest, "4loc4ext", "paper-4loc4ext", stats.BasisPass, 1},
		[]any{c.Study.Outcome, c.Study.Best, c.Rows[2].Experiment, c.Basis, len(c.Study.Failed)})
}

func TestReportOfAStudyAnswersItsQuestionFirst(t *testing.T) {
	t.Parallel()
	home, out := paperHome(t), filepath.Join(t.TempDir(), "r.html")
	o := swarm(t, home, "report", "--study", "paper", "--out", out)
	require.Zero(t, o.code, o.stderr)
	require.True(t, strings.HasPrefix(o.stdout, paperLead+"\nOver the baseline"), o.stdout)
	page, err := os.ReadFile(out)
	require.NoError(t, err)
	text := strings.ReplaceAll(string(page), "&#43;", "+")
	require.Contains(t, text, `<p class="lead">`+paperLead+`</p>`)
	require.Contains(t, text, `<th scope="row">8loc0ext</th>`)
	require.Contains(t, text, "<h1>Study paper nano</h1>")
	require.Contains(t, text, "by held-out pass@1 6 confirmed, 0 not reproduced, 0 open")

	o = swarm(t, home, "report", "--study", "paper", "--out", out, "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var doc reportDocument
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &doc))
	require.Equal(t, []any{paperLead, 21}, []any{doc.Study.Verdict, doc.Runs})
}

// The dashboard finds the studies of a home's runs, and a user's own study in the file that it is given.
func TestTheDashboardShowsStudies(t *testing.T) {
	t.Parallel()
	home, file := paperHome(t), filepath.Join(t.TempDir(), "others.yaml")
	require.NoError(t, os.WriteFile(file, []byte("question: Why?\nbaseline: a\nmeasure: pass\nseeds: 5\nrounds: 300\nnodes: 8\n"+
		"experiments: [{name: a, config: 8loc0ext}, {name: b, config: 4loc4ext}]\n"), 0o600))
	var doc struct {
		Studies []struct{ Name, Model string }
		Study   json.RawMessage
	}
	fetchJSON(t, startDashboard(t, home).url+"api/studies", &doc)
	require.Len(t, doc.Studies, 1)
	o := swarm(t, home, "compare", "--study", "paper", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var c struct{ Study json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
	require.JSONEq(t, string(c.Study), string(doc.Study))

	home = comparedHome(t, append(studied("others-a", 0, 10, 11), studied("others-b", 4, 20, 21)...)...)
	fetchJSON(t, startDashboard(t, home).url+"api/studies", &doc)
	require.Empty(t, doc.Studies)
	fetchJSON(t, startDashboard(t, home, "--study", file).url+"api/studies?study=others", &doc)
	require.Len(t, doc.Studies, 1)
	require.Contains(t, string(doc.Study), `"question":"Why?"`)
	o = swarm(t, home, "dashboard", "--study", "nosuch")
	require.Equal(t, fail.ExitUsage, o.code, o.stderr)
	require.Contains(t, o.stderr, "nosuch")
}

func TestAStudyIsRefusedBesideWhatItDecidesItself(t *testing.T) {
	t.Parallel()
	home := paperHome(t)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown study":           {[]string{"compare", "--study", "nosuch"}, fail.ExitUsage, "nosuch"},
		"experiments beside it":   {[]string{"compare", "--study", "paper", "other"}, fail.ExitUsage, "a study has its own experiments"},
		"a baseline beside it":    {[]string{"report", "--study", "paper", "--baseline", "other"}, fail.ExitUsage, "--study paper and --baseline"},
		"a gate":                  {[]string{"compare", "--study", "paper", "--gate"}, fail.ExitUsage, "--study paper and --gate"},
		"a model without a study": {[]string{"compare", "--model", "gpt2"}, fail.ExitUsage, "needs --study"},
		"a model of a study with its own": {[]string{"compare", "--study", "mixed-models", "--model", "gpt2"}, fail.ExitUsage,
			"study mixed-models fixes its models"},
		"a study without runs": {[]string{"compare", "--study", "swarm-size"}, fail.ExitFailed,
			"no run of study swarm-size is recorded\nTry: swarm sweep --study swarm-size"},
		"a study without runs of it": {[]string{"compare", "--study", "paper", "--model", "gpt2"}, fail.ExitFailed,
			"Try: swarm sweep --study paper --model gpt2"},
		"a report of none": {[]string{"report", "--study", "swarm-size", "--out", filepath.Join(home, "r.html")}, fail.ExitFailed,
			"no run of study swarm-size"},
		"a measure that there isn't":     {[]string{"compare", "--study", "paper", "--measure", "luck"}, fail.ExitUsage, "reward, eval, pass, pass@K such as pass@4, or swarm-pass@K"},
		"a report's model without study": {[]string{"report", "--model", "gpt2"}, fail.ExitUsage, "needs --study"},
	} {
		t.Run(name, func(t *testing.T) {
			o := swarm(t, home, c.args...)
			require.Equal(t, c.code, o.code, o.stderr)
			require.Contains(t, o.stderr, c.want)
			require.Empty(t, o.stdout)
		})
	}
}

func TestCompareOfChosenSeeds(t *testing.T) {
	t.Parallel()
	database := []string{"compare", "--database", "../../docs/study/paper.db.gz"}
	for args, want := range map[string]string{
		"--study paper --seeds 44,45": "fresh seeds, because the results of seed 44 were looked at before (key explored of study paper)",
		"--study paper --seeds 4":     "a list of seeds such as 45,46,47,48, for one seed 45,",
		"--seeds 1,2":                 "allowed: seeds of recorded runs",
	} {
		o := swarm(t, t.TempDir(), append(database, strings.Fields(args)...)...)
		require.Equal(t, fail.ExitUsage, o.code, o.stderr)
		require.Contains(t, o.stderr, want)
	}
	o := swarm(t, t.TempDir(), append(database, "--seeds", "45,46", "-o", "json")...)
	require.Zero(t, o.code, o.stderr)
	var c stats.Comparison
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
	require.Equal(t, []int{2, 2, 2}, []int{c.Rows[0].Runs, c.Rows[1].Runs, c.Rows[2].Runs})
	require.Contains(t, c.Notes, "Only seeds 45 and 46 are compared (--seeds). P-values are valid only if no result of these seeds was known when they were chosen.")
}

func TestCompareNamesARunWhoseSplitIsNotFixed(t *testing.T) {
	t.Parallel()
	runs := append(studied("8loc0ext", 0, 10, 11, 10, 11), studied("adaptive", 4, 20, 21, 20, 21)...)
	for i := range runs[4:] {
		runs[4+i].split = configs.SplitBandit
	}
	o := swarm(t, comparedHome(t, runs...), "compare", "--measure", "pass", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var c stats.Comparison
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
	require.Equal(t, []any{"adaptive", stats.OutcomeBetter}, []any{c.Rows[1].Config, c.Rows[1].Outcome})
	require.Nil(t, c.Rows[1].PaperImprovement)
	require.NotNil(t, c.Rows[0].PaperReward)
}

// The export of the study control decides its three planned comparisons, with five seeds each.
// That of sparse has two of four arms, whose seeds were all looked at before.
func TestCompareOfRecordedStudies(t *testing.T) {
	t.Parallel()
	o := swarm(t, t.TempDir(), "compare", "--study", "sparse", "--database", "../../docs/study/sparse.db.gz")
	require.Zero(t, o.code, o.stderr)
	require.Regexp(t, `^Undecided which is best: no run of a fresh seed is finished\.\nIn no test: seeds 42, 43, 44, 45 and 46\. .* 8loc0ext 0\.3160 \(5 seeds\), `+
		`4loc4ext 0\.3332 \(5 seeds\)\.\n`, o.stdout)
	o = swarm(t, t.TempDir(), "compare", "--study", "paper", "--database", "../../docs/study/paper.db.gz")
	require.Zero(t, o.code, o.stderr)
	require.Regexp(t, `^At equal rounds \(300\): undecided which is best: the baseline 8loc0ext \(8/0\) is highest \(held-out pass@1 0\.3482\), .*: 4 seeds a side cannot decide `, o.stdout)
	require.Contains(t, o.stdout, "\nIn no test: seeds 42, 43 and 44. ")
	require.Regexp(t, `\n2loc6ext +2/6 +0 .* 0\.1109 `, o.stdout)
	args := []string{"compare", "--study", "control", "--database", "../../docs/study/control.db.gz"}
	o = swarm(t, t.TempDir(), args...)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "Of its 1 pair, at equal rounds, by held-out pass@1 0 confirmed, 1 not reproduced, 0 open", "a planned comparison decides its pair")
	lines := strings.Split(o.stdout, "\n")
	require.True(t, strings.HasPrefix(lines[0], "At equal rounds (300): 2loc6ext is better than 2loc0ext (+12.3 %), 4loc4ext is better than 4loc0ext (+4.7 %), "+
		"4loc4ext-uncorrected is worse than 8loc0ext (-33.3 %). Which of the 6 experiments is best is undecided: "), lines[0])
	require.Regexp(t, `\n2loc6ext over 2loc0ext +\+0\.0391 +\+12\.3 % .* 0\.0079 +0\.024 .*better, planned\n`, o.stdout)
	require.Regexp(t, `\n8loc0ext over 2loc0ext +\+0\.0271 .* 0\.0079 +0\.12 .*undecided\n`, o.stdout)
	require.NotContains(t, o.stdout, "Welch")
	interval := regexp.MustCompile(`; (\S+) to (\S+) over other seeds and questions; `)
	for i, planned := range []struct {
		line string
		ends []float64 // computed in Python with other random numbers
	}{
		{`^Planned: 2loc6ext over 2loc0ext: \+0\.0391, .*: better\.$`, []float64{0.0225, 0.0577}},
		{`^Planned: 4loc4ext over 4loc0ext: \+0\.0157, .*: better\.$`, []float64{0.0063, 0.0259}},
		{`^Planned: 4loc4ext-uncorrected over 8loc0ext: -0\.1152, -33\.3 % .* 0\.024 corrected .*: worse\.$`, []float64{-0.1424, -0.0878}},
	} {
		require.Regexp(t, planned.line, lines[1+i])
		ends := interval.FindStringSubmatch(lines[1+i])
		require.Len(t, ends, 3, lines[1+i])
		for k, want := range planned.ends {
			end, err := strconv.ParseFloat(ends[k+1], 64)
			require.NoError(t, err)
			require.InDelta(t, want, end, 0.0015)
		}
	}
	o = swarm(t, t.TempDir(), append(args, "--measure", "swarm-pass@32")...)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "none of its 5 finished runs has a held-out evaluation of the study's questions with results by question and at least 32 completions of each question "+
		"over all nodes, sampled with eval_draws node.")
	require.NotContains(t, o.stdout, "\nPlanned: 2loc6ext over 2loc0ext: -0", "all nodes shared their random numbers, so that equal answers say nothing")
	o = swarm(t, t.TempDir(), append(args, "--measure", "pass@4")...)
	require.Zero(t, o.code, o.stderr)
	require.Regexp(t, `\n2loc6ext over 2loc0ext +\+0\.0308 .*, planned\n`, o.stdout)
	o = swarm(t, t.TempDir(), append(args, "--per", "engine-seconds")...)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, ", if all runs were made side by side on one machine: ")
	o = swarm(t, t.TempDir(), append(args, "--measure", "swarm-pass@4", "--per", "completions")...)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "sampled with eval_draws node and recorded completions")
	o = swarm(t, t.TempDir(), append(args, "--seeds", "101,102,103", "--per", "completions")...)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "By held-out pass@1 seeds 104 and 105 reached: 2loc0ext 0.3203 (2 seeds)")
	require.Regexp(t, `\n2loc0ext +3 `, o.stdout, "the others are in no mean")

	o = swarm(t, t.TempDir(), append(args, "-o", "json")...)
	require.Zero(t, o.code, o.stderr)
	var c stats.Comparison
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
	require.Equal(t, c.Pairs[0].QuestionInterval, c.Study.Contrasts[0].QuestionInterval)
	require.Equal(t, []any{108, stats.DecidedByPermutation}, []any{*c.Pairs[0].Questions, c.Study.Contrasts[0].DecidedBy})
}
