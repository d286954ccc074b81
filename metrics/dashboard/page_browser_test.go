//go:build !race

package dashboard

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/chromium"
)

// complaints are the messages of a page's console.
type complaints struct {
	mu   sync.Mutex
	said []string
}

func (c *complaints) listen(e any) {
	switch e.(type) {
	case *runtime.EventExceptionThrown, *runtime.EventConsoleAPICalled, *log.EventEntryAdded:
		text, _ := json.Marshal(e)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.said = append(c.said, string(text))
	}
}

func (c *complaints) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.said...)
}

func (c *complaints) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = nil
}

// openChromium opens a tab that is closed at the end of the test.
func openChromium(t *testing.T) (context.Context, *complaints) {
	t.Helper()
	return boundedChromium(t, 5*time.Minute)
}

// boundedChromium is openChromium with another bound for all that the test does in the tab.
func boundedChromium(t *testing.T, bound time.Duration) (context.Context, *complaints) {
	t.Helper()
	said := &complaints{}
	return chromium.Tab(t, bound, said.listen), said
}

// draw opens an address at a width and in a color scheme.
func draw(t *testing.T, ctx context.Context, address string, width int64, scheme string) {
	t.Helper()
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 844), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		return err
	}), chromedp.Navigate(address)))
}

// slash presses the key as a keyboard does: the key press types its character unless the page prevents it.
// chromedp.KeyEvent sends both separately.
var slash = chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
	_, err := cdp.Call(ctx, target, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "/", Text: "/"})
	return err
})

// until waits for an expression to be true.
func until(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(time.Minute)))
	require.NoError(t, err, expression)
}

func keepPicture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("SWARM_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), picture, 0o600))
}
