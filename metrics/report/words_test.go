package report

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func row(name string, value float64, outcome, text string) stats.Row {
	r := stats.Row{Experiment: name, Name: name, Config: "4/4", Value: &value, Outcome: outcome, Verdict: text, Seeds: 3}
	if outcome == "baseline" {
		r.Config = "8/0"
	}
	return r
}

func TestVerdictInWords(t *testing.T) {
	base := row("base", 0.2, "baseline", "baseline")
	improvement, low, high, p, holm := 0.5, 0.1, 0.9, 0.01, 0.02
	better := row("a", 0.3, stats.OutcomeBetter, "better")
	better.Improvement, better.CILow, better.CIHigh, better.PermutationPValue, better.PValueHolm = &improvement, &low, &high, &p, &holm
	welch := 0.001
	better.PValue, better.DecidedBy = &welch, stats.DecidedByPermutation
	unsure := row("b", 0.25, stats.OutcomeUndecided, "undecided: p = 0.3 with n=3, at least 4 more seeds")
	worse := row("c", 0.1, stats.OutcomeWorse, "worse")
	empty := stats.Row{Experiment: "e", Config: "2/6", Outcome: stats.OutcomeUndecided, Verdict: "undecided: no rounds yet"}
	of := func(rows ...stats.Row) stats.Comparison {
		c := stats.Comparison{Baseline: "base", Measure: stats.MeasureReward, Rows: rows}
		for _, r := range rows {
			if r.Value != nil && r.Name != "base" && r.Outcome != stats.OutcomeNotComparable {
				difference := *r.Value - *base.Value
				c.Pairs = append(c.Pairs, stats.Pair{A: r.Name, B: "base", ValueA: r.Value, ValueB: base.Value, Difference: &difference})
			}
		}
		return c
	}
	apart := row("f", 0.9, stats.OutcomeNotComparable, "not comparable: nodes 4 against 8")
	for name, c := range map[string]struct {
		comparison stats.Comparison
		tone, lead string
		rest       string
		lines      int
	}{
		"nothing": {
			of(), "",
			"There is nothing to compare yet: no run has done a round.",
			"", 0,
		},
		"no rounds": {
			of(empty), "",
			"There is nothing to compare yet: no run has done a round.",
			"", 0,
		},
		"no evaluation": {
			stats.Comparison{Measure: stats.MeasureEval, Rows: []stats.Row{empty}}, "",
			"There is nothing to compare yet: no run has a held-out evaluation.",
			"", 0,
		},
		"one": {
			of(base), "",
			"There is only one configuration: base (8/0), with a reward per node and round of 0.2.",
			"Its cumulative reward is", 0,
		},
		"better": {
			of(base, better), "good",
			"a (4/4) is highest, and better than the baseline base (8/0): its reward per node " +
				"and round is 0.3 against 0.2, 50.0\u00a0% above it.",
			"+50.0\u00a0% (95 % interval +10.0\u00a0% to +90.0\u00a0%); exact permutation test p = 0.01, corrected 0.02; 3 seeds.", 0,
		},
		"undecided": {
			of(base, unsure), "warn",
			"Undecided which is best. b (4/4) is highest so far, with baseline base " +
				"(8/0): its reward per node and round is 0.25 against 0.2, which may be chance.",
			"Undecided: p = 0.3 with n=3, at least 4 more seeds.", 0,
		},
		"baseline wins": {
			of(worse, base), "good",
			"The baseline base (8/0) is best: the other is worse.",
			"c (4/4): worse.", 0,
		},
		"baseline leads": {
			of(base, worse, empty), "warn",
			"Undecided which is best. The baseline base (8/0) is highest; 1 of the 2 others are significantly worse.",
			"Its reward per node and round is 0.2.", 2,
		},
		"a tie": {
			of(base, row("d", 0.2, stats.OutcomeUndecided, "undecided: p = 1")), "warn",
			"Undecided which is best. The baseline base (8/0) is highest, which may be chance.",
			"d (4/4): undecided: p = 1.", 0,
		},
		"no baseline": {
			stats.Comparison{Measure: stats.MeasureReward, Rows: []stats.Row{better, worse}}, "warn",
			"Nothing is decided: no configuration is the baseline.", "swarm report --baseline NAME", 0,
		},
		"not comparable": {
			of(base, apart), "warn", "Undecided which is best: nothing is comparable with the baseline base (8/0).",
			"f (4/4): not comparable: nodes 4 against 8.", 0,
		},
		"the highest is not comparable": {
			of(base, apart, better), "good", "a (4/4) is highest, and better than the baseline", "3 seeds", 1,
		},
		"three": {
			of(base, better, worse), "good",
			"a (4/4) is highest, and better than the baseline",
			"3 seeds", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := verdict(c.comparison)
			require.Equal(t, c.tone, v.Tone)
			require.Contains(t, v.Lead, c.lead)
			require.Contains(t, v.Rest, c.rest)
			require.Len(t, v.Lines, c.lines)
		})
	}
}

func TestDifferences(t *testing.T) {
	run := func(experiment, config string) store.Totals {
		return store.Totals{Run: store.Run{Experiment: experiment, Config: []byte(config)}}
	}
	got := differences([]store.Totals{
		run("a", `{"experiment":"a","seed":1,"rate":0.1,"only":true,"same":1,"tasks":{"mixture":[{"name":"bf","weight":1},{"name":"x","weight":1}],"list":[1,2]}}`),
		run("b", `{"experiment":"b","seed":1,"rate":0.2,"same":1,"tasks":{"mixture":[{"name":"bf","weight":2}],"list":[1,3]}}`),
		run("a", `{"experiment":"a","seed":2,"rate":0.3,"only":true,"same":1,"tasks":{"mixture":[{"name":"bf","weight":1},{"name":"x","weight":1}],"list":[1,2]}}`),
		run("b", `not JSON`),
	})
	require.Equal(t, []Difference{
		{"only", []string{"true", ""}},
		{"rate", []string{"0.1 or 0.3", "0.2"}},
		{"tasks.list.1", []string{"2", "3"}},
		{"tasks.mixture.bf", []string{`{"weight":1}`, `{"weight":2}`}},
		{"tasks.mixture.x", []string{`{"weight":1}`, ""}},
	}, got)
	require.Empty(t, differences([]store.Totals{run("a", `{"seed":1,"x":1}`), run("b", `{"seed":2,"x":1}`)}))
	require.Len(t, differences([]store.Totals{run("a", `{"x":1}`), run("a", `{"x":2}`)}), 1, "runs of one experiment that differ")
}

func TestPlottedNumbersAreShort(t *testing.T) {
	text, err := json.Marshal(plotted{1, 0.123456789, math.NaN(), math.Inf(1), -2, 80e9, 1e300, 0})
	require.NoError(t, err)
	require.Equal(t, `[1,0.123457,null,null,-2,80000000000,1e+300,0]`, string(text))
}

func TestFormats(t *testing.T) {
	for want, got := range map[string]string{
		"–": number(nil), "0.1235": number(ptr(0.12345678)), "12345.7": number(ptr(12345.678)), "+94.0\u00a0%": percent(ptr(0.94)),
		"-3.0\u00a0%": percent(ptr(-0.03)), "below 0.0001": pvalue(ptr(1e-9)), "0.034": pvalue(ptr(0.0341)), "5.6\u00a0ms": duration(0.0056),
		"2h05m": duration(7500), "3d04h": duration(273600), "0.1\u00a0s": duration(0.1), "812\u00a0MB": gigabytes(812e6), "7.5\u00a0GB": gigabytes(7.5e9),
		"1.5 kWh": energy(ptr(5.4e6)), "2025-10-09 08:53:20": clock(1_760_000_000), "$1.50": money(ptr(1.5), "$"), "1.50 EUR": money(ptr(1.5), "EUR"),
		"€1.50": money(ptr(1.5), "€"), "a, b and c": units.List([]string{"a", "b", "c"}, "and"), "1 run": units.Plural(1, "run"), "abc…": shortened("abcdef", 4),
	} {
		require.Equal(t, want, got)
	}
	for _, v := range []*float64{ptr(math.NaN()), ptr(math.Inf(-1)), nil} {
		require.Equal(t, unknown, number(v))
		require.Equal(t, unknown, percent(v))
	}
	require.Equal(t, unknown, clock(math.NaN()))
}

func ptr(v float64) *float64 { return &v }

func TestSlotsAreFewAndWhole(t *testing.T) {
	for _, seconds := range []float64{0, 5, 1500, 86400, 4 * 86400} {
		slot := slotFor(seconds)
		require.Zero(t, slot%10)
		require.LessOrEqual(t, seconds/float64(slot), float64(slots))
	}
}
