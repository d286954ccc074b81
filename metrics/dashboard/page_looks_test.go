//go:build !race

package dashboard

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// pageLimit bounds the page's own scripts and styles, in bytes.
const pageLimit = 134_000

//go:embed testdata/audit.js
var audit string

// TestThePageIsSmallAndNeverMakesMarkup checks the page's sources.
func TestThePageIsSmallAndNeverMakesMarkup(t *testing.T) {
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|setHTML|` +
		`\beval\(|new Function|javascript:`)
	inline := regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<style|<script(?:\s[^>]*)?>[^<]`)
	outside := regexp.MustCompile(`https?://`)
	total := 0
	require.NoError(t, fs.WalkDir(page, "page", func(name string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		if entry.IsDir() {
			return nil
		}
		source, err := page.ReadFile(name)
		require.NoError(t, err)
		total += len(source)
		require.Empty(t, markup.FindString(string(source)), name)
		text := strings.ReplaceAll(string(source), "http://www.w3.org/2000/svg", "")
		require.Empty(t, outside.FindString(text), name)
		if strings.HasSuffix(name, ".html") {
			require.Empty(t, inline.FindString(text), name)
		}
		return nil
	}))
	require.Less(t, total, pageLimit)
}

// TestThePageLooksRight draws every view at two widths in both color schemes, and audits each: nothing wider than the
// page, all controls named, text readable, no console messages. SWARM_SCREENSHOTS=DIR saves pictures.
func TestThePageLooksRight(t *testing.T) {
	ctx, said := openChromium(t)
	base := looksSwarm(t).serve()
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {1280, "dark"}, {390, "light"}, {390, "dark"}} {
		for name, view := range map[string]struct{ hash, drawn string }{
			"runs":       {"/", "#comparison"},
			"grouped":    {"/?group=config&sel=sapo-1,base-1&x=time&window=10", "tr.group"},
			"overview":   {"/runs/sapo-1", ".event"},
			"memory":     {"/runs/sapo-1/memory", ".card .membar"},
			"charts":     {"/runs/sapo-1/charts", ".two canvas"},
			"evaluation": {"/runs/sapo-1/evaluation", "tbody tr"},
			"tasks":      {"/runs/sapo-1/tasks", "canvas"},
			"events":     {"/runs/crashed-1/events", ".chart-timeline svg"},
			"rollouts":   {"/runs/sapo-1/rollouts?node=node_0", "details.rollout"},
			"setup":      {"/runs/base-1/setup", ".facts"},
			"unknown":    {"/runs/nope", ".problem"},
		} {
			t.Run(fmt.Sprintf("%s %d %s", name, look.width, look.scheme), func(t *testing.T) {
				said.clear()
				draw(t, ctx, base+"/?"+t.Name()+"#"+view.hash, look.width, look.scheme)
				until(t, ctx, fmt.Sprintf(`document.querySelector(%q) !== null`, view.drawn))
				if !strings.HasPrefix(view.hash, "/runs/nope") {
					until(t, ctx, `document.querySelector("#view[data-ready]") !== null && document.querySelector("#view .problem") === null`)
					require.Empty(t, said.all())
				}
				keepPicture(t, ctx, fmt.Sprintf("%s-%d-%s.png", name, look.width, look.scheme))
				wrong, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](audit))
				require.NoError(t, err)
				require.Empty(t, wrong)
			})
		}
	}
}

func TestTheAuditFindsWhatIsWrong(t *testing.T) {
	ctx, _ := openChromium(t)
	base := looksSwarm(t).serve()
	for wrong, change := range map[string]string{
		"faint":              `document.querySelector(".part h2").style.color = "#ccc"`,
		"no name":            `document.querySelector("#theme-button").replaceWith(document.createElement("button"))`,
		"no label":           `document.querySelector("label[for=filter]").htmlFor = "view"`,
		"twice":              `document.querySelector(".part").id = "view"`,
		"wider than":         `document.querySelector(".part").style.width = "3000px"`,
		"heading skips":      `document.querySelector(".part").prepend(document.createElement("h4")), document.querySelector("h4").textContent = "x"`,
		"which isn't there":  `document.querySelector(".part").setAttribute("aria-labelledby", "nothing")`,
		"not one body > hea": `document.querySelector("body > header").remove()`,
	} {
		draw(t, ctx, base+"/?"+fmt.Sprint(len(change)), 390, "light")
		until(t, ctx, `document.querySelector("#comparison") !== null`)
		_, err := chromedp.Run(ctx, chromedp.Evaluate[any](change+", 1"))
		require.NoError(t, err)
		found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](audit))
		require.NoError(t, err)
		require.Contains(t, strings.Join(found, "\n"), wrong)
	}
}

func TestAnEmptyDatabaseSaysWhatToType(t *testing.T) {
	ctx, said := openChromium(t)
	base := newSwarm(t).serve()
	draw(t, ctx, base, 390, "light")
	until(t, ctx, `document.querySelector("[data-empty]")?.textContent.includes("swarm up --config 4loc4ext")`)
	keepPicture(t, ctx, "empty-390-light.png")
	wrong, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](audit))
	require.NoError(t, err)
	require.Empty(t, wrong)
	require.Empty(t, said.all())
}

// TestKeysReachEveryView presses keys as a user would.
func TestKeysReachEveryView(t *testing.T) {
	ctx, said := openChromium(t)
	base := looksSwarm(t).serve()
	draw(t, ctx, base, 1280, "light")
	until(t, ctx, `document.querySelectorAll("#runs tr[data-run]").length === 3`)
	press := func(keys string, then string) {
		t.Helper()
		require.NoError(t, chromedp.Do(ctx, chromedp.KeyEvent(keys)))
		until(t, ctx, then)
	}
	press("?", `document.querySelector("#help").open`)
	press("\x1b", `!document.querySelector("#help").open`)
	press("j", `document.activeElement.matches("#runs tbody th a")`)
	press("\r", `location.hash.startsWith("#/runs/") && document.querySelector("#view[data-ready] .run-head") !== null`)
	for i, section := range []string{"memory", "charts", "evaluation", "tasks", "events", "rollouts", "setup"} {
		press(fmt.Sprint(i+2), fmt.Sprintf(`location.hash.endsWith(%q)`, "/"+section))
		until(t, ctx, fmt.Sprintf(`document.querySelector(".sections [aria-current=page]").dataset.section === %q`, section))
	}
	press("g", `true`)
	press("r", `location.hash === "#/" && document.querySelector("#runs tr[data-run]") !== null`)
	require.NoError(t, chromedp.Do(ctx, slash))
	until(t, ctx, `document.activeElement.id === "filter" && document.activeElement.value === ""`)
	press("base", `document.querySelectorAll("#runs tr[data-run]").length === 1 && location.hash.includes("q=base")`)
	press("\x1b", `document.activeElement.id !== "filter"`)
	press("t", `document.documentElement.dataset.theme === "light"`)
	press("t", `document.documentElement.dataset.theme === "dark"`)
	require.Empty(t, said.all())
}

// TestChoosingGroupingAndSortingStayInTheAddress operates the runs table by mouse.
func TestChoosingGroupingAndSortingStayInTheAddress(t *testing.T) {
	ctx, said := openChromium(t)
	base := looksSwarm(t).serve()
	draw(t, ctx, base+"/#/?group=state&sort=experiment", 1280, "light")
	until(t, ctx, `document.querySelectorAll("#runs tr.group").length === 3`)
	until(t, ctx, `document.querySelector("#runs th[aria-sort]").textContent === "Experiment"`)
	click := func(selector string) {
		t.Helper()
		_, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).click()`, selector)))
		require.NoError(t, err)
	}
	click(`tr[data-run="sapo-1"] input`)
	until(t, ctx, `location.hash.includes("sel=sapo-1")`)
	until(t, ctx, `document.querySelector("#curves").closest("section").querySelectorAll(".chart-entry").length === 1`)
	click(`#runs tr.group input`)
	click(`#runs thead th:nth-child(7) button`)
	until(t, ctx, `location.hash.includes("sort=reward") && document.querySelector("#runs th[aria-sort]").getAttribute("aria-sort") === "ascending"`)
	click(`#runs thead th:nth-child(7) button`)
	until(t, ctx, `location.hash.includes("sort=-reward")`)
	until(t, ctx, `[...document.querySelectorAll("#runs .group input")].some((b) => b.indeterminate || b.checked)`)
	require.Empty(t, said.all())
}

// TestAStudyIsShownOnAnAxis chooses a study and an axis.
func TestAStudyIsShownOnAnAxis(t *testing.T) {
	ctx, said := openChromium(t)
	draw(t, ctx, walkedSwarm(t).serve(), 1280, "light")
	const section = `document.querySelector("[aria-labelledby=study]")`
	choose := func(label, value string) {
		t.Helper()
		inPage[bool](t, ctx, fmt.Sprintf(`(() => {
			const box = [...%s.querySelectorAll("label.choose")].find((l) => l.textContent.startsWith(%q)).control;
			box.value = %q;
			return box.dispatchEvent(new Event("change"));
		})()`, section, label, value))
	}
	until(t, ctx, section+`?.querySelector("h2").textContent === "Study nodes nano"`)
	until(t, ctx, section+`.textContent.includes("solo") && !`+section+`.querySelector(".question")`)
	choose("Study", "sharing/nano")
	until(t, ctx, section+`.querySelector(".question")?.textContent.startsWith("How many")`)
	until(t, ctx, section+`.querySelector(".verdicts [data-verdict=undecided]").textContent.includes("ndecided")`)
	require.Equal(t, 3, inPage[int](t, ctx, section+`.querySelector("tbody").children.length`), "an experiment without runs has a row")
	require.Equal(t, "baseline", inPage[string](t, ctx, section+`.querySelector(".verdict").textContent`))
	choose("At equal", "completions")
	until(t, ctx, section+`.querySelector(".verdicts li").textContent.startsWith("At equal completions (")`)
	until(t, ctx, `location.hash.includes("study=sharing") && location.hash.includes("per=completions")`)
	require.Contains(t, inPage[string](t, ctx, section+`.querySelector(".verdicts li:nth-child(2)").textContent`), "Planned: study-b-with")
	require.Contains(t, inPage[string](t, ctx, section+`.querySelector("details").textContent`), "Not begun: ")
	require.Contains(t, inPage[string](t, ctx, section+`.textContent`), "Held-out pass@1 by completions generated")
	require.Empty(t, said.all())
}

// TestTheOpenPageFollowsTheRun records rounds while the page is open. Focused elements keep the focus.
func TestTheOpenPageFollowsTheRun(t *testing.T) {
	ctx, said := openChromium(t)
	s := looksSwarm(t)
	base := s.serve()
	draw(t, ctx, base+"/#/runs/sapo-1", 1280, "light")
	until(t, ctx, `document.querySelectorAll(".node").length === 4 && document.documentElement.dataset.live === "live"`)
	until(t, ctx, `(document.querySelector(".node-links a").focus(), document.activeElement.matches(".node-links a"))`)
	for round := 30; round < 33; round++ {
		s.round("sapo-1", 4, round)
	}
	s.record("sapo-1", event.Event{Type: event.TypeWarning, Node: "node_2", Message: "a <b>new</b> one"})
	until(t, ctx, `document.querySelector(".run-progress .done").textContent === "33 of 40 rounds"`)
	until(t, ctx, `document.querySelector(".node").textContent.includes("round 33 / 40")`)
	until(t, ctx, `document.querySelector(".event-text").textContent.includes("a <b>new</b> one")`)
	until(t, ctx, `document.activeElement.matches(".node-links a")`)
	s.record("sapo-1", event.Event{Type: event.TypeRunEnded, State: store.RunLost, Message: "1 of 4 nodes gave up"})
	until(t, ctx, `document.querySelector(".run-head .badge").dataset.state === "lost"`)
	until(t, ctx, `document.querySelector(".banner").textContent.includes("gave up")`)
	until(t, ctx, `document.querySelector("#spoken[aria-live=polite]").textContent.includes("sapo, seed 42: lost")`)
	require.Empty(t, said.all())
}

// TestEveryModuleIsPreloaded checks index.html, because a module without a preload costs an extra round trip.
func TestEveryModuleIsPreloaded(t *testing.T) {
	index, err := page.ReadFile("page/index.html")
	require.NoError(t, err)
	names, err := fs.Glob(page, "page/*.js")
	require.NoError(t, err)
	for _, name := range names {
		require.Contains(t, string(index), `"`+filepath.Base(name)+`"`)
	}
}

// looksSwarm has a finished run, a running one and one whose coordinator is gone, with content in every view.
func looksSwarm(t *testing.T) *swarm {
	t.Helper()
	const nodes = 4
	s := newSwarm(t, func(o *Options) {
		o.Alive = func(x store.Snapshot, _ float64) bool { return x.Run.Experiment != "crashed" }
		o.Studies = studies(studied("base", stats.MeasurePass, hostile, "base", "sapo", "crashed"))
		o.Rollouts = func(_ context.Context, q RolloutQuery) (Rollouts, error) {
			answer, right, wrong := hostile, 1.0, 0.25
			question := Question{Task: "basic_arithmetic", Question: hostile, Answer: &answer,
				Completions: []Completion{{Text: hostile, Reward: &right, Terminated: true}, {Text: strings.Repeat("word ", 2000), Reward: &wrong}, {Text: ""}}}
			return Rollouts{Node: q.Node, Round: 7, Rounds: 8, Nodes: []string{"node_0", "node_1"}, Questions: []Question{question, question},
				Externals: []External{{From: "node_1", Question: question}, {Question: question}}}, nil
		}
	})
	s.open()
	for _, run := range []string{"base", "sapo", "crashed"} {
		key := run + "-1"
		s.start(key, run, nodes, 40)
		s.record(key, event.Event{Type: event.TypeRunStarted})
		for round := range 30 {
			s.round(key, nodes, round)
		}
		for i := range 2 * nodes {
			id, at := fmt.Sprint("node_", i%nodes), event.Now()+float64(i/nodes*60)
			s.record(key,
				event.Event{Type: event.TypeDevice, Time: at, Device: &event.Device{UUID: "GPU-1", Name: "H100", MemoryTotalBytes: 80e9, MemoryUsedBytes: 30e9,
					UnattributedBytes: 2e9, Utilization: 0.9, PowerWatts: 300, TemperatureCelsius: 60}},
				event.Event{Type: event.TypeState, Node: id, State: event.StateUpdating, RoundIndex: 30},
				event.Event{Type: event.TypeMemory, Time: at, Node: id, Memory: &event.Memory{RSSBytes: 2e9, PeakRSSBytes: 3e9,
					DeviceBytes: 6e9, DevicePeakBytes: 8e9, ResidentBytes: 3e9, GenerateBytes: 2e9, UpdateBytes: 4e9, BudgetBytes: 9e9, MicroBatch: 8}},
				event.Event{Type: event.TypeEval, Node: id, Eval: &event.Eval{Round: 20, Set: "s", Generations: 4, FormatRate: 0.9, MeanLength: 70,
					Questions: []event.EvalQuestion{{Task: "basic_arithmetic", Correct: 1 + i%2, RewardSum: 2.5}}}})
		}
		s.record(key,
			event.Event{Type: event.TypeWarning, Node: "node_1", Message: hostile},
			event.Event{Type: event.TypeGiveUp, Node: "node_3", Cause: event.CauseOutOfMemory, Message: strings.Repeat("memory", 40)})
		s.wait(key, 30*nodes)
	}
	s.record("base-1", event.Event{Type: event.TypeRunEnded, State: store.RunDone})
	require.NoError(t, s.store.Flush(t.Context()))
	return s
}
