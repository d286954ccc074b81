package charts_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/charts"
)

// drawing draws one chart of each kind, with hostile labels and messages.
const drawing = `
const hostile = '<img src=x onerror="window.hacked=1"></script>&quot;';
const x = [...Array(50).keys()];
const lines = swarmCharts.lines(document.getElementById("lines"), {
  title: "Lines " + hostile, x, xLabel: "round", unit: "ratio",
  series: [
    {label: "first " + hostile, values: x.map(i => i % 7 === 3 ? null : i / 50), low: x.map(i => i / 50 - 0.1), high: x.map(i => i / 50 + 0.1)},
    {label: "second", values: x.map(i => 1 - i / 50)},
  ],
  markers: [{x: 20, label: hostile, kind: "bad"}],
});
const curve = (experiment, seed, round, shift) => ({run: experiment + seed, experiment, seed, metric: "reward", round,
  mean: round.map(r => shift + r / 100), low: round.map(r => shift + r / 200), high: round.map(r => shift + r / 50), nodes: [{node: "node_0", values: round.map(() => shift)}]});
const curves = swarmCharts.curves(document.getElementById("curves"), [curve("4loc4ext", 1, [0, 2, 4, 9], 0.1), curve("8loc", 1, [0, 3, 9], 0)], {nodes: true, title: "Curves"});
const chosen = [];
const timeline = swarmCharts.timeline(document.getElementById("timeline"), {title: "Events", from: 1e9, to: 1e9 + 3600, onSelect: (item) => chosen.push(item.label),
  lanes: [{label: "node_0", items: [{time: 1e9 + 60, kind: "restart", label: hostile}, {time: 1e9 + 1800, end: 1e9 + 2400, kind: "info", label: "long"}]},
    {label: hostile, items: [{time: 1e9 + 3000, kind: "out_of_memory", label: "full"}]}]});
const empty = swarmCharts.lines(document.getElementById("empty"), {title: "Empty", x: [], series: [{label: "a", values: []}], empty: "nothing yet"});
const stacked = swarmCharts.lines(document.getElementById("stacked"), {title: "Stack", x: [0, 1, 2], stacked: true, unit: "seconds",
  series: [{label: "a", values: [1, 2, 3]}, {label: "b", values: [10, 20, 30]}]});
`

const openTables = `document.querySelectorAll(".chart-button[aria-expanded]").forEach(b => b.click())`

// painted counts the painted pixels of a chart's canvas.
const painted = `(id => { const c = document.querySelector(id + " canvas");
  return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 === 3 && v > 0).length })`

func TestChartsDrawInARealBrowser(t *testing.T) {
	ctx, complaints := browser(t, drawing)
	for _, id := range []string{"#lines", "#curves", "#stacked"} {
		require.Greater(t, evaluate[int](t, ctx, painted+`("`+id+`")`), 2000, id)
	}
	require.Equal(t, 3, evaluate[int](t, ctx, `document.querySelectorAll("#timeline .tl-item").length`))
	require.Equal(t, "nothing yet", evaluate[string](t, ctx, `document.querySelector("#empty .chart-empty").textContent`))
	require.Contains(t, evaluate[string](t, ctx, `document.querySelector("#curves .chart-plot").getAttribute("aria-label")`),
		"4loc4ext: 0.1 at round 0, 0.19 at round 9")
	require.Equal(t, 2, evaluate[int](t, ctx, `document.querySelectorAll("#curves .chart-entry").length`), "thin node lines have no entry")
	if at := os.Getenv("CHARTS_SCREENSHOT"); at != "" {
		png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(at, png, 0o600))
	}
	complaints.none(t)
}

func TestTextNeverBecomesMarkup(t *testing.T) {
	ctx, complaints := browser(t, drawing)
	do(t, ctx, run(openTables), chromedp.WaitVisible(chromedp.CSS("#timeline table")))
	require.Equal(t, 0, evaluate[int](t, ctx, `document.querySelectorAll("img").length`))
	require.False(t, evaluate[bool](t, ctx, `"hacked" in window`))
	require.Contains(t, evaluate[string](t, ctx, `document.querySelector("#lines table caption").textContent`), "<img src=x")
	complaints.none(t)
}

func TestTheTableHasEveryNumber(t *testing.T) {
	ctx, _ := browser(t, drawing)
	do(t, ctx, run(openTables))
	rows := evaluate[[]string](t, ctx, `[...document.querySelectorAll("#stacked tr")].map(r => [...r.cells].map(c => c.textContent).join("|"))`)
	require.Equal(t, []string{"x|a|b", "0|1.0 s|10s", "1|2.0 s|20s", "2|3.0 s|30s"}, rows, "as they are, not stacked")
	rows = evaluate[[]string](t, ctx, `[...document.querySelectorAll("#lines tbody tr")].map(r => [...r.cells].map(c => c.textContent).join("|"))`)
	require.Len(t, rows, 50)
	require.Equal(t, "3|–|-4 %|16 %|94 %", rows[3], "unknown is –, not 0")
	rows = evaluate[[]string](t, ctx, `[...document.querySelectorAll("#curves tbody tr")].map(r => [...r.cells].map(c => c.textContent).join("|"))`)
	require.Len(t, rows, 5, "the rounds of both curves: 0 2 3 4 9")
	require.True(t, strings.HasPrefix(rows[1], "2|0.1|0.12|"), rows[1])
}

func TestKeysMoveTheCursorAndZoom(t *testing.T) {
	ctx, complaints := browser(t, drawing)
	at := `document.querySelector("#lines .chart-at").textContent`
	require.Equal(t, "latest, round 49", evaluate[string](t, ctx, at))
	do(t, ctx, chromedp.Focus(chromedp.CSS("#lines .chart-plot")), chromedp.KeyEvent(kb.Home))
	require.Equal(t, "round 0", evaluate[string](t, ctx, at))
	do(t, ctx, chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	require.Equal(t, "round 2", evaluate[string](t, ctx, at))
	require.Contains(t, evaluate[string](t, ctx, `document.querySelector("#lines [aria-live]").textContent`), "second 96 %")

	reset := `document.querySelector("#lines .chart-button").hidden`
	require.True(t, evaluate[bool](t, ctx, reset))
	do(t, ctx, chromedp.KeyEvent("+"))
	require.False(t, evaluate[bool](t, ctx, reset), "zoomed: there is a button back")
	do(t, ctx, chromedp.KeyEvent(kb.Escape))
	require.True(t, evaluate[bool](t, ctx, reset))

	do(t, ctx, chromedp.Focus(chromedp.CSS("#timeline .chart-plot")), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.Enter))
	require.Contains(t, evaluate[string](t, ctx, `document.querySelector("#timeline .chart-readout").textContent`), "node_0: long")
	require.Equal(t, []string{"long"}, evaluate[[]string](t, ctx, `chosen`))
	complaints.none(t)
}

func TestAnUpdateKeepsWhatTheUserChose(t *testing.T) {
	ctx, complaints := browser(t, drawing)
	do(t, ctx, chromedp.Click(chromedp.CSS("#stacked .chart-entry")), run(`stacked.update({title: "Stack", x: [0, 1, 2, 3], stacked: true,
	  unit: "seconds", series: [{label: "a", values: [1, 2, 3, 4]}, {label: "b", values: [10, 20, 30, 40]}, {label: "c", values: [1, 1, 1, 1]}]})`))
	require.Equal(t, []string{"false", "true", "true"},
		evaluate[[]string](t, ctx, `[...document.querySelectorAll("#stacked .chart-entry")].map(b => b.getAttribute("aria-pressed"))`))
	require.Equal(t, []string{"", "40s", "1.0 s"},
		evaluate[[]string](t, ctx, `[...document.querySelectorAll("#stacked .chart-value")].map(b => b.textContent)`))
	do(t, ctx, run(`[lines, curves, timeline, empty, stacked].forEach(c => c.destroy())`))
	require.Equal(t, 0, evaluate[int](t, ctx, `document.querySelectorAll(".chart, canvas, svg").length`))
	complaints.none(t)
}

func TestFormatReadsLikeTheTerminal(t *testing.T) {
	ctx, _ := browser(t, drawing)
	for _, c := range []struct{ call, want string }{
		{`null, "bytes"`, "–"}, {`NaN, "number"`, "–"}, {`Infinity`, "–"}, {`0`, "0"}, {`0.123456`, "0.1235"}, {`2000`, "2000"}, {`-0.5`, "-0.5"},
		{`1.5e9, "bytes"`, "1.5 GB"}, {`812e6, "bytes"`, "812 MB"}, {`80e9, "bytes"`, "80.0 GB"}, {`140e9, "bytes"`, "140 GB"},
		{`0.4, "seconds"`, "0.4 s"}, {`42, "seconds"`, "42s"}, {`87, "seconds"`, "1m27s"}, {`7500, "seconds"`, "2h05m"}, {`273600, "seconds"`, "3d04h"},
		{`0.944, "ratio"`, "94.4 %"}, {`312.4, "watts"`, "312 W"}, {`61, "celsius"`, "61 °C"}, {`1, "no such unit"`, "1"},
	} {
		require.Equal(t, c.want, evaluate[string](t, ctx, "swarmCharts.format("+c.call+")"), c.call)
	}
}

func TestTimesAreTheViewersOrUTC(t *testing.T) {
	ctx, _ := browser(t, drawing)
	zone := emulation.SetTimezoneOverrideParams{TimezoneID: "America/New_York"}
	do(t, ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetTimezoneOverride, zone)
		return err
	}))
	require.Equal(t, "2001-09-08 21:46:40", evaluate[string](t, ctx, `swarmCharts.format(1e9, "time")`))
	require.Equal(t, []string{"09-08 21:46", "22:46", "09-09 00:46"}, evaluate[[]string](t, ctx, `swarmCharts.timeTicks([1e9, 1e9 + 3600, 1e9 + 3 * 3600], 3600)`))
	do(t, ctx, run(`swarmCharts.utc = true`))
	require.Equal(t, "2001-09-09 01:46:40", evaluate[string](t, ctx, `swarmCharts.format(1e9, "time")`))
}

func TestAssetsAreServedWhole(t *testing.T) {
	total, text := 0, map[string]string{}
	for _, a := range charts.Assets() {
		total += len(a.Text)
		text[a.Name] = a.Text
		require.NotContains(t, strings.ToLower(a.Text), "</script", "%s: a report puts it inline", a.Name)
	}
	require.Less(t, total, 150_000, "bytes of every report")
	require.Len(t, text, len(charts.Assets()), "names are unique")
	require.Contains(t, text["uplot.js"], "Copyright (c) 2022 Leon Sorokin")
}
