package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestNothingLeavesItsPlaceInAReport opens reports at four widths in both color schemes. Boxes must stay within their
// parents, text may be cut only with an ellipsis and a title, and the comparison must fit the page of a desktop.
// REPORT_KEEP=DIR saves pictures.
func TestNothingLeavesItsPlaceInAReport(t *testing.T) {
	audit, err := os.ReadFile(filepath.Join("..", "dashboard", "testdata", "layout.js"))
	require.NoError(t, err)
	long := paperRuns(2, 30, 1)
	for i := range long {
		long[i].experiment = "a-study-with-a-long-name-" + long[i].experiment
		long[i].message = strings.Repeat("unbroken", 40)
	}
	b := open(t, "<!doctype html><title>empty</title>", walkWidths[0], false, true)
	for name, runs := range map[string][]synthetic{
		"study": paperRuns(4, 40, 1, 2),
		"long":  long,
		"one":   {{experiment: "solo", own: 4, external: 4, seed: 1, nodes: 1, rounds: 20, gain: 0.5, unfinished: true}},
		"wide":  {{experiment: "wide", own: 4, external: 4, seed: 1, nodes: 64, rounds: 6, gain: 0.5, adaptive: true}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "report.html")
			require.NoError(t, os.WriteFile(path, []byte(write(t, database(t, runs...), options())), 0o600))
			b.do(t, chromedp.Navigate("file://"+path), run(`window.dispatchEvent(new Event("beforeprint"))`))
			require.Zero(t, ask[int](t, b, undrawn))
			var all []string
			for _, width := range walkWidths {
				for _, scheme := range []string{"light", "dark"} {
					if width != 390 && scheme == "dark" {
						continue // dark changes colors only
					}
					b.do(t, chromedp.EmulateViewport(int64(width), 900), media("", scheme), run(`window.drawn_ = 0,
						requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn_ = 1 }))), undefined`))
					_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](`window.drawn_ === 1`))
					require.NoError(t, err)
					if width == 1280 && scheme == "light" || width == 390 && scheme == "dark" { // pages are long, and pictures of them slow
						b.picture(t, fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
					}
					for _, line := range ask[[]string](t, b, string(audit)) {
						all = append(all, fmt.Sprintf("%d px, %s: %s", width, scheme, line))
					}
				}
				if width >= 1280 {
					require.LessOrEqual(t, ask[int](t, b, `(() => { const s = document.querySelector("#comparison .scroll"); return s.scrollWidth - s.clientWidth })()`), 0,
						"the comparison is cut off at %d px", width)
				}
			}
			require.Empty(t, all)
		})
	}
}

var walkWidths = []int{390, 768, 1280, 1920}

// TestTheCurvesOfAReport switches axis, band, single runs and smoothing.
func TestTheCurvesOfAReport(t *testing.T) {
	b := open(t, write(t, database(t, paperRuns(2, 30, 1, 2, 3)...), options()), 1280, false, true)
	const entries = `document.querySelectorAll('[data-chart="smoothed"] .chart-entry').length`
	require.Equal(t, 4, ask[int](t, b, entries), "a line an experiment")
	require.Equal(t, "round,completions generated,tokens generated,time in engines,time at work,cost, $", ask[string](t, b,
		`[...document.querySelectorAll('[data-chart="smoothed"] option')].map((o) => o.textContent).join()`))
	heads := func() string {
		return ask[string](t, b, `(() => {
			const chart = document.querySelector('[data-chart="smoothed"]');
			if (chart.querySelector(".chart-table").hidden) chart.querySelector(".chart-button[aria-expanded]").click();
			return [...chart.querySelectorAll("thead th")].map((th) => th.textContent).join();
		})()`)
	}
	require.Contains(t, heads(), "4loc4ext · 3 seeds, 95 % from")
	change := func(what, value string) {
		b.do(t, run(fmt.Sprintf(`(() => { const el = %s; el.%s; el.dispatchEvent(new Event("change")); })()`, what, value)))
	}
	box := func(i int) string {
		return fmt.Sprintf(`document.querySelectorAll('[data-chart="smoothed"] input')[%d]`, i)
	}
	change(`document.querySelector('[data-chart="smoothed"] select')`, `value = "money"`)
	require.True(t, strings.HasPrefix(heads(), "cost, $,"), heads())
	change(box(0), "checked = false")
	require.NotContains(t, heads(), "95 %")
	change(box(1), "checked = true")
	require.Contains(t, heads(), "4loc4ext-2", "a single run")
	require.Equal(t, 4, ask[int](t, b, entries))

	const raw = `document.querySelector('[data-chart="raw-0"] .chart-plot').getAttribute("aria-label")`
	smooth := ask[string](t, b, raw)
	change(`document.querySelector("#smooth")`, "checked = false")
	require.NotEqual(t, smooth, ask[string](t, b, raw))
	b.quiet(t)
}
