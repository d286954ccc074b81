//go:build !race

package terminal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const (
	images   = "../../docs/images"
	livePage = "live-view.png"
)

// liveFrame returns the live view of a real, running run: docs/images/live.db.gz is an export made during the run.
func liveFrame(t *testing.T) string {
	t.Helper()
	reader, err := store.OpenFile(t.Context(), filepath.Join(images, "live.db.gz"))
	require.NoError(t, err)
	defer reader.Close()
	snapshot, err := reader.Snapshot(t.Context(), "")
	require.NoError(t, err)
	now := snapshot.Run.Resumed
	for _, n := range snapshot.Nodes {
		now = max(now, n.LastEvent)
	}
	status := stats.NewStatus(snapshot, now, true)
	c := testConfig(status)
	c.Now = func() time.Time { return time.Unix(int64(now), 0) }
	m := newModel(t.Context(), c)
	entries, err := reader.Timeline(t.Context(), status.Run, 0, 1000)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Event.Type != event.TypeSpawn {
			m.cfg.Feed.Add(e.Event)
		}
	}
	m.Update(tea.WindowSizeMsg{Width: 96, Height: 22})
	m.Update(m.poll())
	return m.View().Content
}

// TestThePictureIsOfThisView compares the hash recorded for docs/images/live-view.png with that of the frame. With
// SWARM_TEST_IMAGES=1 it renders the picture.
func TestThePictureIsOfThisView(t *testing.T) {
	frame := liveFrame(t)
	sum := sha256.Sum256([]byte(frame))
	hash := hex.EncodeToString(sum[:])
	if os.Getenv("SWARM_TEST_IMAGES") != "" {
		paint(t, frame, filepath.Join(images, livePage))
		noteSource(t, livePage, hash)
	}
	noted, err := os.ReadFile(filepath.Join(images, "SOURCES"))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(images, livePage))
	require.Contains(t, string(noted), livePage+" "+hash+"\n", "the live view is newer than its picture: make screenshots")
}

var styled = regexp.MustCompile(`\x1b\[([\d;]*)m`)

// markup converts a frame to HTML: weight and color of the terminal become classes.
func markup(frame string) string {
	var b strings.Builder
	classes := map[string]bool{}
	at := 0
	write := func(text string) {
		var names []string
		for name := range classes {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(&b, `<span class="%s">%s</span>`, strings.Join(names, " "), html.EscapeString(text))
	}
	for _, m := range styled.FindAllStringSubmatchIndex(frame, -1) {
		write(frame[at:m[0]])
		at = m[1]
		for _, code := range strings.Split(frame[m[2]:m[3]], ";") {
			switch code {
			case "", "0":
				clear(classes)
			default:
				classes["s"+code] = true
			}
		}
	}
	write(frame[at:])
	return b.String()
}

// paint renders a frame in Chromium as a terminal would show it.
func paint(t *testing.T, frame, path string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	require.NoError(t, err, "apt-get install chromium fonts-dejavu-core")
	page := filepath.Join(t.TempDir(), "live.html")
	require.NoError(t, os.WriteFile(page, []byte(`<!doctype html><meta charset="utf-8"><style>
body { margin: 0; background: #12151a; display: inline-block; }
pre { margin: 0; padding: 18px 22px; color: #dfe3e8; font: 15px/1.3 "DejaVu Sans Mono", monospace; }
.s1 { font-weight: bold; color: #fff; } .s2 { color: #97a1ac; } .s7 { background: #dfe3e8; color: #12151a; }
.s31 { color: #ff8a80; } .s32 { color: #4fd0a8; }
</style><pre>`+markup(frame)+"</pre>"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true))
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(600, 100), chromedp.Navigate("file://"+page)))
	size, err := chromedp.Run(ctx, chromedp.Evaluate[[]int64](`[document.body.offsetWidth, document.body.offsetHeight]`))
	require.NoError(t, err)
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(size[0], size[1])))
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, picture, 0o644)) //nolint:gosec // a picture of the documentation
}

// noteSource records the hash of a picture's source.
func noteSource(t *testing.T, name, hash string) {
	t.Helper()
	path := filepath.Join(images, "SOURCES")
	text, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(l string) bool {
		return l == "" || strings.HasPrefix(l, name+" ")
	})
	lines = append(lines, name+" "+hash)
	slices.Sort(lines)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)) //nolint:gosec // a file of the documentation
}
