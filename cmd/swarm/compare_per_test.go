package main

import (
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// perCompletions has the figures of docs/RESULTS.md: held-out pass@1 after 12 800, 19 200, 38 400 and 76 800
// completions and after the last round, mean over seeds, lowest and highest seed. A Python script with SQL alone
// computed them from the exports.
var perCompletions = map[string]map[string]string{
	"corrected": {
		"8loc0ext": "0.170 (0.169-0.171) 0.217 (0.215-0.219) 0.288 (0.285-0.290) 0.327 (0.325-0.330) 0.352 (0.348-0.355)",
		"4loc4ext": "0.281 (0.275-0.286) 0.300 (0.297-0.304) 0.339 (0.332-0.347) 0.353 (0.350-0.355) 0.353 (0.350-0.355)",
		"2loc6ext": "0.315 (0.312-0.319) 0.336 (0.333-0.341) 0.353 (0.349-0.358) - 0.353 (0.349-0.358)",
	},
	"control": {
		"8loc0ext":             "0.170 (0.168-0.172) 0.216 (0.214-0.220) 0.287 (0.284-0.290) 0.331 (0.328-0.333) 0.346 (0.341-0.350)",
		"2loc0ext":             "0.274 (0.269-0.281) 0.293 (0.288-0.297) 0.319 (0.314-0.323) - 0.319 (0.314-0.323)",
		"4loc0ext":             "0.232 (0.226-0.238) 0.261 (0.254-0.268) 0.313 (0.308-0.319) 0.336 (0.333-0.338) 0.336 (0.333-0.338)",
		"4loc4ext-uncorrected": "0.263 (0.256-0.272) 0.267 (0.256-0.275) 0.266 (0.260-0.273) 0.231 (0.211-0.257) 0.231 (0.211-0.257)",
		"4loc4ext":             "0.271 (0.263-0.284) 0.293 (0.285-0.303) 0.332 (0.329-0.336) 0.351 (0.346-0.354) 0.351 (0.346-0.354)",
		"2loc6ext":             "0.317 (0.306-0.324) 0.339 (0.332-0.347) 0.358 (0.352-0.361) - 0.358 (0.352-0.361)",
	},
	"paper": {
		"8loc0ext": "0.170 (0.169-0.172) 0.217 (0.215-0.220) 0.287 (0.284-0.290) 0.328 (0.325-0.334) 0.350 (0.345-0.355)",
		"6loc2ext": "0.201 (0.197-0.204) 0.264 (0.258-0.268) 0.311 (0.304-0.314) 0.331 (0.317-0.337) 0.331 (0.305-0.345)",
		"4loc4ext": "0.262 (0.258-0.266) 0.274 (0.261-0.285) 0.268 (0.244-0.295) 0.198 (0.163-0.251) 0.198 (0.163-0.251)",
		"2loc6ext": "0.232 (0.173-0.280) 0.188 (0.178-0.203) 0.111 (0.070-0.137) - 0.111 (0.070-0.137)",
	},
}

func TestStudiesPerCompletionsAreWhatTheResultsSay(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := swarm(t, home, "import", "../../docs/study/corrected.db.gz")
	require.Zero(t, o.code, o.stderr)
	for name, rows := range perCompletions {
		args := []string{"compare", "--study", name, "--per", "completions", "--at", "12800,19.2k,38400,76.8k"}
		if name != "corrected" {
			args = append(args, "--database", "../../docs/study/"+name+".db.gz")
		}
		o := swarm(t, home, args...)
		require.Zero(t, o.code, o.stderr)
		common := "38 400"
		if name == "paper" {
			common = "76 800" // 2/6, which ends before, has only explored seeds
		}
		require.Contains(t, o.stdout, "At equal completions ("+common+"): ")
		_, table, _ := strings.Cut(o.stdout, "Held-out pass@1 by completions generated: ")
		lines := strings.Split(table, "\n")
		require.Regexp(t, `^experiment +seeds +12 800 +19 200 +38 400 +76 800 +last +area to `+common+`$`, lines[1])
		for i := range rows {
			line := regexp.MustCompile(`(?m)^` + i + ` +\d +(.*) +(?:0\.\d{3}|-)$`).FindStringSubmatch(table)
			require.NotNil(t, line, table)
			require.Equal(t, rows[i], strings.Join(strings.Fields(line[1]), " "), "%s of %s", i, name)
		}
	}
}

func TestCompareOfAStudyAtEqualCompletions(t *testing.T) {
	t.Parallel()
	const database = "../../docs/study/corrected.db.gz"
	home := t.TempDir()
	o := swarm(t, home, "compare", "--study", "paper", "--database", "../../docs/study/paper.db.gz")
	require.Zero(t, o.code, o.stderr)
	require.NotContains(t, o.stdout, "At equal completions", "fresh seeds have the same order there")
	require.NotContains(t, o.stdout, "Held-out pass@1 by", "nobody asked")

	o = swarm(t, home, "compare", "--study", "corrected", "--database", database, "--per", "completions", "--target", "0.3", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var c stats.Comparison
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
	p := c.Study.Per
	require.Equal(t, []any{"completions", "number", 38400.0, 0.3}, []any{p.Axis, p.Unit, *p.Common, *p.Target})
	require.Equal(t, []float64{9600, 19200, 38400, 76800}, p.Horizons)
	require.Equal(t, []string{"8loc0ext", "4loc4ext", "2loc6ext"}, []string{p.Rows[0].Name, p.Rows[1].Name, p.Rows[2].Name})
	require.InDelta(t, 0.353, *p.Rows[2].Values[2], 0.0005)
	require.Equal(t, "2loc6ext", c.Study.Best)
	for i, want := range []float64{44057, (17878 + 20025) / 2.0, 10649} { // by SQL and hand from the same export
		require.InDelta(t, want, *p.CostToTarget[i].Cost, 1, p.CostToTarget[i].Name)
		require.Equal(t, p.CostToTarget[i].Seeds, p.CostToTarget[i].Reached)
	}
	o = swarm(t, home, "compare", "--study", "corrected", "--database", database, "--per", "engine-seconds", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	c = stats.Comparison{}
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
	require.InDelta(t, 1296.1143, *c.Study.Per.Common, 1e-3)
	for i, want := range []float64{0.3464, 0.3514, 0.3519} {
		require.InDelta(t, want, *c.Study.Arms[[]int{0, 2, 3}[i]].Value, 5e-5)
	}
	require.Nil(t, c.Study.Per.OneMachine, "exports have no hosts")
	require.Contains(t, c.Study.Lines, "Times compare runs made side by side on one machine. It is not recorded of all runs where they were made.")

	out := filepath.Join(t.TempDir(), "report.html")
	o = swarm(t, home, "report", "--study", "corrected", "--database", database, "--per", "completions", "--out", out)
	require.Zero(t, o.code, o.stderr)
	page, err := os.ReadFile(out)
	require.NoError(t, err)
	text := html.UnescapeString(string(page))
	require.Contains(t, text, `<p class="lead">At equal completions (38 400): `)
	require.Contains(t, text, `<td class="number">0.353 (0.349-0.358)</td>`)
}

// The planned comparisons of control, at places in the engines' time, of the area and of the cost. The figures are
// those of a Python script.
func TestComparisonsAtEqualCostHaveIntervalsAndTests(t *testing.T) {
	t.Parallel()
	database := []string{"compare", "--database", "../../docs/study/control.db.gz"}
	o := swarm(t, t.TempDir(), append(database, "--study", "control")...)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "\nThe planned comparisons are decided alike at equal completions (38 400) and equal tokens (900 698).\n")
	o = swarm(t, t.TempDir(), append(database, "--study", "control", "--per", "engine-seconds", "--at", "60", "--target", "0.3")...)
	require.Zero(t, o.code, o.stderr)
	require.Regexp(t, `(?m)^Planned: 2loc6ext over 2loc0ext: -0\.0003, .* \(95 % interval -0\.0101 to \+0\.0095; .*; exact permutation test p = 0\.95, `, o.stdout)
	require.Regexp(t, `(?m)^2loc6ext over 2loc0ext +5, 5 +-0\.053 \(-0\.066 to -0\.040\) p 0\.024 +- +-0\.022 \(-0\.031 to -0\.013\) p 0\.024 +\+37s \(\+11s to \+1m3s\) p 0\.071 +-$`,
		o.stdout)
	o = swarm(t, t.TempDir(), append(database, "control-2loc6ext", "--baseline", "control-2loc0ext", "--per", "completions", "--measure", "pass@4")...)
	require.Zero(t, o.code, o.stderr)
	require.True(t, strings.HasPrefix(o.stdout, "At equal completions (38 400): control-2loc6ext (2/6) is best: held-out pass@4 0.5178, 6.3 % above the baseline control-2loc0ext"), o.stdout)
	require.Contains(t, o.stdout, "\nHeld-out pass@4 by completions generated: ")
}

// A report of named experiments decides at equal cost as compare does, unless its rows are configurations.
func TestReportOfNamedExperimentsAtEqualCompletions(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "report.html")
	report := func(args ...string) (stdout, page string) {
		o := swarm(t, t.TempDir(), append([]string{"report", "control-2loc6ext", "--baseline", "control-2loc0ext", "--out", out,
			"--database", "../../docs/study/control.db.gz"}, args...)...)
		require.Zero(t, o.code, o.stderr)
		text, err := os.ReadFile(out)
		require.NoError(t, err)
		return o.stdout, html.UnescapeString(string(text))
	}
	const lead = "At equal completions (38 400): control-2loc6ext (2/6) is best: held-out pass@1 0.3580, 12.3 % above the baseline control-2loc0ext (2/0)"
	stdout, page := report("--per", "completions")
	require.True(t, strings.HasPrefix(stdout, lead), stdout)
	require.Contains(t, page, `<p class="lead">`+lead)
	require.Contains(t, page, "<title>Swarm report: control-2loc0ext and control-2loc6ext</title>")
	for _, args := range [][]string{nil, {"--per", "completions", "--by", "config"}, {"--per", "completions", "--measure", "reward"}} {
		stdout, page = report(args...)
		require.True(t, strings.HasPrefix(stdout, "wrote "), stdout)
		require.NotContains(t, page, "At equal completions")
	}
	o := swarm(t, paperHome(t), "report", "paper-8loc0ext", "nobody", "--per", "completions", "--out", out)
	require.Equal(t, fail.ExitUsage, o.code, o.stderr)
	require.Contains(t, o.stderr, `no experiment "nobody" is recorded`)
}

func TestAnAxisIsRefusedWhereItSaysNothing(t *testing.T) {
	t.Parallel()
	home := paperHome(t)
	for name, c := range map[string]struct{ args, want string }{
		"no arms":                  {"compare --per tokens", "--per compares the arms of a study or named experiments, and there are none"},
		"horizons without a study": {"compare --at 5", "--at compares the arms"},
		"rows that are left out":   {"compare a b --per tokens --top 1", "--per and --at compare all pairs of experiments, and --top does not fit"},
		"an unknown experiment":    {"compare paper-8loc0ext nobody --per rounds", `no experiment "nobody" is recorded`},
		"another measure": {"compare --study paper --measure reward --per tokens", "--per compares held-out pass@K, and the measure is reward\n" +
			"Try: swarm compare --study paper --measure pass --per tokens"},
		"unknown axis":               {"compare --study paper --per parsecs", `bad per "parsecs"`},
		"unknown axis of a report":   {"report --per parsecs", `bad per "parsecs"`},
		"no number":                  {"compare --study paper --at many", `bad at "many": allowed: numbers above 0`},
		"nothing":                    {"compare --study paper --at=", `bad at ""`},
		"zero":                       {"compare --study paper --at 0,5", `bad at "0"`},
		"infinite":                   {"compare --study paper --at inf", `bad at "inf"`},
		"below zero":                 {"compare --study paper --at -5k", `bad at "-5k"`},
		"too many":                   {"compare --study paper --at 1,2,3,4,5,6,7,8,9,10,11,12,13", "1 to 12 numbers"},
		"a time of what is no time":  {"compare --study paper --per completions --at 20m", `bad at "20m": allowed: numbers`},
		"no time of what is a time":  {"compare --study paper --per seconds --at soon", `bad at "soon": allowed: seconds above 0`},
		"a job is no study's":        {"compare --study paper other --per tokens", "a study has its own experiments"},
		"a target that is no number": {"compare --study paper --target -1", "a reward above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			o := swarm(t, home, strings.Fields(c.args)...)
			require.Equal(t, fail.ExitUsage, o.code, o.stderr)
			require.Contains(t, o.stderr, c.want)
			require.Empty(t, o.stdout)
		})
	}
	o := swarm(t, home, "compare", "--study", "paper", "--per", "rounds", "--at", "20,10,20")
	require.Zero(t, o.code, o.stderr)
	require.True(t, strings.HasPrefix(o.stdout, paperLead+"\n"), "at equal rounds the verdict is as without: %s", o.stdout)
	require.Regexp(t, `(?m)^experiment +seeds +10 +20 +last +area to 20$`, o.stdout)
	require.Regexp(t, `(?m)^4loc4ext +5 +- +0\.404 \(0\.400-0\.410\) +0\.404 \(0\.400-0\.410\) +-$`, o.stdout, "it was evaluated after its last round alone")
	o = swarm(t, home, "compare", "--study", "paper", "--per", "seconds", "--at", "19,1m")
	require.Zero(t, o.code, o.stderr)
	require.Regexp(t, `(?m)^experiment +seeds +19s +1m0s +last`, o.stdout)
}
