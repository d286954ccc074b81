//go:build !race

package dashboard

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func inPage[T any](t testing.TB, ctx context.Context, expression string) T {
	t.Helper()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return out
}

// A page that is opened before the first run shows that run when it starts, and follows it without a reload.
func TestAPageFollowsARunFromNothing(t *testing.T) {
	ctx, said := openChromium(t)
	s := newSwarm(t)
	draw(t, ctx, s.serve(), 1280, "light")
	until(t, ctx, `document.querySelector("[data-empty]") !== null && document.documentElement.dataset.live === "live"`)
	inPage[bool](t, ctx, `window.sameDocument = true`)
	s.open()
	s.start("a-1", "a", 2, 9)
	until(t, ctx, `document.querySelector('tr[data-run="a-1"]') !== null`)
	s.round("a-1", 2, 0)
	until(t, ctx, `document.querySelector('tr[data-run="a-1"]').textContent.includes("1 / 9")`)
	inPage[string](t, ctx, `location.hash = "#/runs/a-1/events"`)
	until(t, ctx, `document.querySelector("#view[data-ready]") !== null`)
	s.record("a-1", event.Event{Type: event.TypeWarning, Node: "node_1", Message: "a new warning"})
	until(t, ctx, `document.querySelector("#view").textContent.includes("a new warning")`)
	s.record("a-1", event.Event{Type: event.TypeRunEnded, State: store.RunDone})
	until(t, ctx, `document.querySelector("#view").textContent.toLowerCase().includes("done")`)

	const split = `[...document.querySelectorAll(".part")].find((p) => p.querySelector("h2").textContent === "I and J")`
	inPage[string](t, ctx, `location.hash = "#/runs/a-1/charts"`)
	until(t, ctx, `document.querySelectorAll(".part canvas").length >= 5`)
	require.False(t, inPage[bool](t, ctx, split+`.checkVisibility()`), "a fixed split has no path")
	s.start("b-1", "b", 2, 9)
	for round := range 4 {
		for node := range 2 {
			s.record("b-1", event.Event{Type: event.TypeRound, Node: fmt.Sprint("node_", node),
				Round: &event.Round{Round: round, Completions: 32, SplitOwn: 8 - 2*round, SplitExternal: 2 * round}})
		}
	}
	s.wait("b-1", 8)
	inPage[string](t, ctx, `location.hash = "#/runs/b-1/charts"`)
	until(t, ctx, split+`?.querySelector("canvas")?.checkVisibility()`)
	require.True(t, inPage[bool](t, ctx, `window.sameDocument === true`))
	pageWritesMoneyAsTheProgramDoes(t, ctx)
	require.Empty(t, said.all())
}

func pageWritesMoneyAsTheProgramDoes(t *testing.T, ctx context.Context) {
	t.Helper()
	inPage[bool](t, ctx, `(import(new URL("format.js", document.baseURI)).then((f) => { window.money = f.money }), true)`)
	until(t, ctx, `window.money !== undefined`)
	for _, amount := range []float64{0, 4.0993, 0.01, 0.003, 0.00312, 0.00996, 0.00994, 0.001, 0.0000012, 1e-9} {
		for _, currency := range []string{"", "$", "EUR"} {
			require.Equal(t, units.Money(amount, currency), inPage[string](t, ctx, fmt.Sprintf("money(%g, %q)", amount, currency)))
		}
	}
}

// The page reports the death of the coordinator, and continues when it restarts.
func TestAPageTellsOfACoordinatorThatDiesAndReturns(t *testing.T) {
	ctx, said := openChromium(t)
	s := newSwarm(t)
	s.open()
	s.start("a-1", "a", 2, 9)
	s.round("a-1", 2, 0)
	s.wait("a-1", 2)
	draw(t, ctx, s.serve()+"/#/runs/a-1", 1280, "light")
	until(t, ctx, `document.querySelector("#view[data-ready]") !== null && document.documentElement.dataset.live === "live"`)
	require.True(t, inPage[bool](t, ctx, `document.querySelector("[data-banner=gone]") === null`))
	s.dead.Store(true)
	until(t, ctx, `document.querySelector("[data-banner=gone]") !== null`)
	s.start("a-1", "a", 2, 9)
	s.dead.Store(false)
	until(t, ctx, `document.querySelector("[data-banner=gone]") === null`)
	require.Empty(t, said.all())
}

// When the server stops, as the dashboard of swarm up does at the end of its run, the page reports it and retries.
// After a restart it has the entries that it missed.
func TestAPageComesBackAfterItsServer(t *testing.T) {
	ctx, _ := openChromium(t) // its console reports connection errors, as expected
	s := newSwarm(t)
	s.open()
	s.start("a-1", "a", 2, 9)
	s.round("a-1", 2, 0)
	s.wait("a-1", 2)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serving, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(serving, listener) }()
	draw(t, ctx, "http://"+listener.Addr().String(), 1280, "light")
	until(t, ctx, `document.documentElement.dataset.live === "live" && document.querySelector('tr[data-run="a-1"]') !== null`)
	stop()
	require.NoError(t, <-done)
	until(t, ctx, `document.documentElement.dataset.live === "lost" && document.querySelector("[data-banner=lost]") !== null`)

	s.start("b-1", "b", 2, 9)
	require.NoError(t, s.store.Flush(t.Context()))
	s.server, err = New(s.server.options)
	require.NoError(t, err)
	s.serveOn(listenAgain(t, listener.Addr().String()))
	until(t, ctx, `document.documentElement.dataset.live === "live" && document.querySelector('tr[data-run="b-1"]') !== null`)
	require.True(t, inPage[bool](t, ctx, `document.querySelector("[data-banner=lost]") === null`))
}

// listenAgain listens on an address that was in use shortly before.
func listenAgain(t *testing.T, address string) (listener net.Listener) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		var err error
		listener, err = net.Listen("tcp", address)
		return err == nil
	}, patience, 10*time.Millisecond)
	return listener
}

// requests are the addresses that a browser requested.
type requests struct {
	mu   sync.Mutex
	seen []string
}

func (r *requests) listen(e any) {
	if sent, ok := e.(*network.EventRequestWillBeSent); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = append(r.seen, sent.Request.URL)
	}
}

// views lists all sections of the page.
var views = []string{"", "/memory", "/charts", "/evaluation", "/tasks", "/events", "/rollouts", "/setup"}

// Untrusted text is shown literally: it runs no script, loads nothing, and creates no elements.
func TestHostileTextIsOnlyText(t *testing.T) {
	ctx, said := openChromium(t)
	asked := &requests{}
	s := newSwarm(t, func(o *Options) {
		o.Rollouts = func(_ context.Context, q RolloutQuery) (Rollouts, error) {
			answer, reward := hostile, 1.0
			question := Question{Task: hostile, Question: hostile, Answer: &answer, Completions: []Completion{{Text: hostile, Reward: &reward}}}
			externals := []External{{From: hostile, Question: question}}
			return Rollouts{Node: q.Node, Rounds: 3, Note: hostile, Questions: []Question{question}, Externals: externals}, nil
		}
		o.Logs = func(context.Context, LogQuery) (Logs, error) {
			return Logs{Note: hostile, Lines: []LogLine{{Node: "node_0", Text: hostile}}}, nil
		}
	})
	s.open()
	s.start("a-1", hostile[:60], 2, 3)
	for round := range 3 {
		s.round("a-1", 2, round)
	}
	s.record("a-1",
		event.Event{Type: event.TypeWarning, Node: "node_1", Message: hostile},
		event.Event{Type: event.TypeFailure, Node: "node_1", Cause: hostile, Message: hostile},
		event.Event{Type: event.TypeRunEnded, State: store.RunFailed, Message: hostile},
	)
	require.NoError(t, s.store.Flush(t.Context()))
	base := s.serve()
	page, cancel := chromedp.NewContext(ctx, chromedp.WithListener(asked.listen), chromedp.WithListener(said.listen))
	defer cancel()
	require.NoError(t, chromedp.Do(page, chromedp.Steps()))
	for i, view := range views {
		draw(t, page, fmt.Sprintf("%s/?%d#/runs/a-1%s", base, i, view), 1280, "light")
		until(t, page, `document.querySelector("#view[data-ready]") !== null`)
		if view == "/rollouts" {
			until(t, page, `document.querySelector("[data-rollouts]")?.textContent.includes("onerror=")`)
		}
		require.NotEqual(t, "owned", inPage[string](t, page, `document.title`))
		require.Zero(t, inPage[int](t, page, `document.querySelectorAll('img, [onerror], body script:not([src]), iframe, object, embed').length`), view)
		if view == "/events" || view == "/rollouts" {
			until(t, page, `document.body.textContent.includes("<img src=x")`)
		}
	}
	require.Empty(t, said.all())
	asked.mu.Lock()
	defer asked.mu.Unlock()
	require.Greater(t, len(asked.seen), 20)
	for _, address := range asked.seen {
		require.True(t, strings.HasPrefix(address, base+"/"), "a request to elsewhere: %s", address)
	}
}

// Tab reaches every control in one cycle, and each shows its focus.
func TestTabReachesEveryControl(t *testing.T) {
	ctx, said := openChromium(t)
	base := looksSwarm(t).serve()
	for _, view := range []string{"/", "/runs/sapo-1", "/runs/sapo-1/charts", "/runs/sapo-1/rollouts", "/runs/crashed-1/events"} {
		draw(t, ctx, base+"/?"+view+"#"+view, 1280, "light")
		until(t, ctx, `document.querySelector("#view[data-ready]") !== null && document.documentElement.dataset.live === "live"`)
		const visible = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
			.filter((e) => !e.disabled && e.tabIndex >= 0 && e.checkVisibility({visibilityProperty: true}) && !e.closest("dialog:not([open])"))`
		inPage[int](t, ctx, `(window.reached = new Set(), window.unseen = [], `+visible+`.length)`)
		const note = `(() => {
			const e = document.activeElement;
			if (e === document.body || e === document.documentElement) return false;
			const s = getComputedStyle(e);
			if (s.outlineStyle === "none" && s.boxShadow === "none") window.unseen.push(e.outerHTML.slice(0, 120));
			window.reached.add(e);
			return ` + visible + `.every((e) => window.reached.has(e) || (e.type === "radio" && e.name));
		})()`
		all := false
		for range 300 {
			require.NoError(t, chromedp.Do(ctx, chromedp.KeyEvent("\t")))
			if all = inPage[bool](t, ctx, note); all {
				break
			}
		}
		missed := inPage[[]string](t, ctx, visible+`.filter((e) => !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 120))`)
		require.True(t, all, "%s: not reached: %v", view, missed)
		require.Empty(t, inPage[[]string](t, ctx, `window.unseen`), view)
	}
	require.Empty(t, said.all())
}

// With 4 runs of 8 nodes and 2000 rounds, the first chart appears within a second, and every view works.
func TestAPageOfThePapersExperiments(t *testing.T) {
	if testing.Short() {
		t.Skip("64,000 rounds")
	}
	ctx, said := openChromium(t)
	s := newPaper(t)
	base := s.serve()
	selected := base + "/#/?sel=8loc0ext-1,6loc2ext-1,4loc4ext-1,2loc6ext-1&metric=reward&window=100"
	draw(t, ctx, selected, 1280, "light")
	until(t, ctx, `document.querySelector("[data-drawn] canvas") !== null`)
	require.Equal(t, 4, inPage[int](t, ctx, `document.querySelectorAll("tr[data-run]").length`))
	first := inPage[float64](t, ctx, `performance.now()`)
	t.Logf("first chart at most %.0f ms after navigation began", first)
	slowest := inPage[float64](t, ctx, `Math.max(...performance.getEntriesByType("resource")
		.filter((e) => e.name.includes("/api/") && !e.name.includes("stream")).map((e) => e.responseEnd - e.requestStart))`)
	t.Logf("slowest API response %.0f ms", slowest)
	const slack = 10 // allowance for a busy machine; docs/RESULTS.md has the measurements
	require.Less(t, first, float64(slack*1000))
	for i, view := range views {
		draw(t, ctx, fmt.Sprintf("%s/?%d#/runs/4loc4ext-1%s", base, i, view), 1280, "light")
		until(t, ctx, `document.querySelector("#view[data-ready]") !== null && document.querySelector("#view .problem") === null`)
	}
	require.Empty(t, said.all())
}

// A page without access shows nothing. A page that was authorized once stays authorized.
func TestATokenOpensThePage(t *testing.T) {
	ctx, _ := openChromium(t)
	s := newSwarm(t, func(o *Options) { o.Token = token })
	base := s.serve()
	draw(t, ctx, base, 1280, "light")
	require.Contains(t, inPage[string](t, ctx, `document.body.textContent`), "needs its token")
	draw(t, ctx, base+"/?token="+token, 1280, "light")
	require.Eventually(t, func() bool { // the page may navigate away during the query
		there, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.querySelector("[data-empty]") !== null && !location.href.includes("token")`))
		return err == nil && there
	}, patience, 20*time.Millisecond)
	draw(t, ctx, base+"/?again", 1280, "light")
	until(t, ctx, `document.documentElement.dataset.live === "live"`)
	require.Empty(t, inPage[string](t, ctx, `document.cookie`), "no script can read it")
}
