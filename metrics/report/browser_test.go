package report_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/chromium"
)

// tab is a page in a browser, with its console messages and network requests.
type tab struct {
	ctx    context.Context
	mu     sync.Mutex
	said   []string
	wanted []string
}

func (b *tab) listen(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch x := e.(type) {
	case *runtime.EventExceptionThrown, *runtime.EventConsoleAPICalled, *log.EventEntryAdded:
		text, _ := json.Marshal(e)
		b.said = append(b.said, string(text))
	case *network.EventRequestWillBeSent:
		b.wanted = append(b.wanted, x.Request.URL)
	}
}

// open opens the page from a file in an offline browser of a given width, and draws every chart.
func open(t *testing.T, page string, width int, dark, scripts bool) *tab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	b := &tab{}
	b.ctx = chromium.Tab(t, 5*time.Minute, b.listen)
	scheme := map[bool]string{true: "dark", false: "light"}[dark]
	b.do(t,
		call(network.Enable, network.EnableParams{}),
		call(network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: true, DownloadThroughput: -1, UploadThroughput: -1}),
		chromedp.EmulateViewport(int64(width), 900),
		media("", scheme),
	)
	if !scripts {
		b.do(t, call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	}
	b.do(t, chromedp.Navigate("file://"+path))
	if scripts {
		b.do(t, run(`window.dispatchEvent(new Event("beforeprint"))`))
	}
	return b
}

func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, params)
		return err
	})
}

// media emulates a medium, such as print, and a color scheme.
func media(medium, scheme string) chromedp.Action[chromedp.Void] {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

func run(statement string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](statement)
}

func (b *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(b.ctx, steps...))
}

func ask[T any](t *testing.T, b *tab, expression string) T {
	t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return out
}

// quiet asserts that there were no console messages and no network requests.
func (b *tab) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.said)
	for _, url := range b.wanted {
		require.True(t, strings.HasPrefix(url, "file:"), url)
	}
	require.Len(t, b.wanted, 1, "the file itself")
}

// picture saves a screenshot of the whole page if REPORT_KEEP names a folder.
func (b *tab) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("REPORT_KEEP")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), png, 0o600))
}

// undrawn counts the places of charts without a chart.
const undrawn = `document.querySelectorAll("[data-chart]:not(:has(.chart))").length`

// blank counts the canvases on which almost nothing is painted.
const blank = `[...document.querySelectorAll("canvas")].filter(c => c.getContext("2d").getImageData(0, 0, c.width, c.height).data
  .reduce((n, v, i) => n + (i % 4 === 3 && v > 0 ? 1 : 0), 0) < 500).length`

func TestItOpensOffline(t *testing.T) {
	page := write(t, database(t, paperRuns(4, 200, 1)...), options())
	for _, c := range []struct {
		name  string
		width int
		dark  bool
		print bool
	}{{"light", 1280, false, false}, {"dark", 1280, true, false}, {"phone", 390, false, false}, {"print", 1040, true, true}} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t, page, c.width, c.dark, true)
			if c.print {
				b.do(t, media("print", "dark"))
			}
			require.Zero(t, ask[int](t, b, undrawn))
			require.Greater(t, ask[int](t, b, `document.querySelectorAll("canvas").length`), 17)
			require.Zero(t, ask[int](t, b, blank))
			require.Equal(t, c.dark && !c.print, ask[string](t, b, `getComputedStyle(document.body).backgroundColor`) == "rgb(18, 21, 26)")
			require.LessOrEqual(t, ask[int](t, b, `document.documentElement.scrollWidth`), c.width, "the page itself never scrolls sideways")
			require.Zero(t, ask[int](t, b, `[...document.querySelectorAll("nav a")].filter(a => !document.querySelector(a.getAttribute("href"))).length`))
			b.picture(t, c.name+".png")
			b.quiet(t)
		})
	}
}

func TestWithoutJavaScriptTheVerdictAndTablesAreThere(t *testing.T) {
	b := open(t, write(t, database(t, paperRuns(2, 30, 1)...), options()), 1280, false, false)
	b.picture(t, "noscript.png")
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("body")))
	require.NoError(t, err)
	for _, want := range []string{"Undecided which is best", "Charts need JavaScript", "4loc4ext", "1093.3", "out of memory"} {
		require.Contains(t, text, want)
	}
}

const hostile = `</script><img src=x onerror="window.hacked=1"><script>window.hacked=1</script><!--" onmouseover=hack() x="` + "\u2028\u2029 &lt; {{.}} ${hacked}"

func TestTextOfADatabaseNeverBecomesMarkup(t *testing.T) {
	x := synthetic{experiment: hostile, own: 4, external: 4, seed: 1, nodes: 2, rounds: 20, gain: 0.5, gpu: true, nodeName: hostile, message: hostile,
		config: `,"model":` + quoted(hostile) + `,"` + "javascript:alert(1)" + `":` + quoted(hostile)}
	other := x
	other.experiment, other.external, other.config = "plain", 0, ""
	b := open(t, write(t, database(t, x, other), options()), 1280, false, true)
	require.Zero(t, ask[int](t, b, undrawn))
	require.False(t, ask[bool](t, b, `"hacked" in window`))
	require.Zero(t, ask[int](t, b, `document.querySelectorAll("img, iframe, object, [onerror], [onmouseover]").length`))
	require.Equal(t, 3, ask[int](t, b, `document.scripts.length`), "two of data, one of ours")
	require.Contains(t, ask[string](t, b, `[...document.querySelectorAll("#comparison tbody th")].map((th) => th.textContent).join(" ")`), `<img src=x onerror=`)
	require.Contains(t, ask[string](t, b, `document.querySelector("#events details").textContent`), `<script>window.hacked=1</script>`)
	b.picture(t, "hostile.png")
	b.quiet(t)
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}
