package charts_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/chromium"
	"github.com/sapo-swarm/swarm/metrics/charts"
)

const index = `<!doctype html><html lang="en"><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src file:; style-src file:">
<title>charts</title><link rel="stylesheet" href="uplot.css"><link rel="stylesheet" href="theme.css"><body>
<div id="lines"></div><div id="curves"></div><div id="timeline"></div><div id="empty"></div><div id="stacked"></div>
<script src="uplot.js"></script><script src="charts.js"></script><script src="drawing.js"></script></body></html>`

// complaints are the messages of a page's console.
type complaints struct {
	mu   sync.Mutex
	said []string
}

func (c *complaints) listen(event any) {
	switch event.(type) {
	case *runtime.EventExceptionThrown, *runtime.EventConsoleAPICalled, *log.EventEntryAdded:
		text, _ := json.Marshal(event)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.said = append(c.said, string(text))
	}
}

func (c *complaints) none(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.said)
}

// browser opens a page that loads the script from files, and returns its console messages. The page forbids inline
// styles and scripts.
func browser(t *testing.T, script string) (context.Context, *complaints) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("index.html", index)
	write("drawing.js", script)
	for _, a := range charts.Assets() {
		write(a.Name, a.Text)
	}
	c := &complaints{}
	ctx := chromium.Tab(t, 6*time.Minute, c.listen)
	do(t, ctx, chromedp.EmulateViewport(900, 1400))
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	do(t, ctx, chromedp.Navigate("file://"+filepath.Join(dir, "index.html")), chromedp.WaitVisible(chromedp.CSS("#stacked canvas")))
	return ctx, c
}

func do(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(ctx, steps...))
}

// run runs a statement.
func run(statement string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](statement)
}

func evaluate[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return out
}
