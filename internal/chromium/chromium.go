// Package chromium gives all tests of a package one browser, because a start takes more than a second of processor
// time. Only tests import it.
package chromium

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

// life bounds the time from the browser's start to its end.
const life = 14 * time.Minute

// browser is the running browser. Its first tab stays empty.
var browser struct {
	sync.Mutex
	ctx  context.Context
	stop func()
}

// Main runs a package's tests as hermetic.Main does, ends the browser, and returns the exit code.
func Main(m *testing.M) int {
	leave, err := hermetic.Enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer leave()
	defer stop()
	return m.Run()
}

// Tab opens a tab that is closed when the test ends. It has its own profile: cookies, storage and cache. bound limits
// the time of everything that the test does in the tab. listen receives the tab's events. Without Chromium, Tab skips
// the test.
func Tab(t testing.TB, bound time.Duration, listen func(any)) context.Context {
	t.Helper()
	running, err := start(t)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(running, bound)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(listen), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // otherwise the deadline of the first command would apply to the tab
		t.Fatal(err)
	}
	return ctx
}

// start returns the context of the browser. The first call starts it.
func start(t testing.TB) (context.Context, error) {
	t.Helper()
	browser.Lock()
	defer browser.Unlock()
	if browser.ctx != nil && browser.ctx.Err() == nil {
		return browser.ctx, nil
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on PATH: the page is not drawn")
	}
	bounded, kill := context.WithTimeout(context.Background(), life)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true))
	allocated, release := chromedp.NewExecAllocator(bounded, options...)
	ctx, end := chromedp.NewContext(allocated)
	browser.stop = func() { end(); release(); kill() }
	if err := chromedp.Do(ctx); err != nil {
		browser.stop()
		return nil, err
	}
	browser.ctx = ctx
	return ctx, nil
}

// stop ends the browser, if there is one.
func stop() {
	browser.Lock()
	defer browser.Unlock()
	if browser.stop != nil {
		browser.stop()
	}
}
