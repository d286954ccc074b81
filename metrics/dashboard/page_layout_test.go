//go:build !race

package dashboard

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

//go:embed testdata/layout.js
var layout string

// walkTime bounds the walk over all pages. On an idle machine the walk takes half a minute.
const walkTime = 8 * time.Minute

var (
	walkWidths  = []int64{390, 768, 1280, 1920}
	walkSchemes = []string{"light", "dark"}
)

// look changes width and color scheme of the open page.
func look(t *testing.T, ctx context.Context, width int64, scheme string) {
	t.Helper()
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 844), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		return err
	})))
	// Charts adopt the size of their place in the second frame from now.
	require.NoError(t, chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](`window.frames_ = 0, requestAnimationFrame(() => requestAnimationFrame(
		() => requestAnimationFrame(() => { window.frames_ = 1 }))), undefined`)))
	until(t, ctx, `window.frames_ === 1`)
}

// TestNothingLeavesItsPlaceOnAnyPage opens every page and tab at four widths in both color schemes: of a study, of runs
// of 1, 8 and 64 nodes, of a failed run, of a real run and of an empty home. Boxes must stay within their parents, and
// text may be cut only with an ellipsis and a title. SWARM_SCREENSHOTS=DIR saves pictures.
func TestNothingLeavesItsPlaceOnAnyPage(t *testing.T) {
	ctx, said := boundedChromium(t, walkTime)
	full, empty := walkedSwarm(t).serve(), newSwarm(t).serve()
	real := newSwarm(t, walkedOptions)
	unpack(t, filepath.Join(images, "live.db.gz"), real.path)
	realBase := real.serve()
	pages := []struct{ name, address, drawn string }{
		{"empty", empty + "/", "[data-empty]"},
		{"runs", full + "/?runs", "#comparison"},
		{"runs-open", full + "/?open#/?group=none&single=1&x=seconds", "#comparison"},
		{"runs-chosen", full + "/?chosen#/?sel=study-a-1,study-a-2,study-b-1&x=money&window=1", "#comparison"},
		{"runs-study", full + "/?study#/?study=sharing/nano&per=completions", ".question"},
	}
	for run, base := range map[string]string{"study-a-1": full, "solo-1": full, "wide-1": full, "broken-1": full, "4loc4ext-1": realBase} {
		for i, section := range []string{"overview", "memory", "charts", "evaluation", "tasks", "events", "rollouts", "setup"} {
			pages = append(pages, struct{ name, address, drawn string }{run + "-" + section, fmt.Sprintf("%s/?%s%d#/runs/%s/%s", base, run, i, run, section),
				"#view[data-ready] .sections"})
		}
	}
	for _, page := range pages {
		t.Run(page.name, func(t *testing.T) {
			said.clear()
			draw(t, ctx, page.address, walkWidths[0], walkSchemes[0])
			until(t, ctx, fmt.Sprintf(`document.querySelector(%q) !== null`, page.drawn))
			settlePage(t, ctx)
			inPage[bool](t, ctx, `([...document.querySelectorAll('[aria-labelledby=study] details')].forEach((d) => { d.open = true }), true)`)
			var all []string
			widths := walkWidths
			if strings.HasSuffix(page.name, "-overview") {
				widths = append(slices.Clone(widths), 1400) // the width at which cards are narrowest
			}
			for i, width := range widths {
				for _, scheme := range walkSchemes {
					if i > 0 && scheme == "dark" && os.Getenv("SWARM_SCREENSHOTS") == "" {
						continue // dark changes colors only, and text that it makes unreadable is so at every width
					}
					look(t, ctx, width, scheme)
					keepPicture(t, ctx, fmt.Sprintf("walk-%s-%d-%s.png", page.name, width, scheme))
					wrong, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](layout))
					require.NoError(t, err)
					for _, line := range wrong {
						all = append(all, fmt.Sprintf("%d px, %s: %s", width, scheme, line))
					}
				}
			}
			require.Empty(t, all)
			require.Empty(t, said.all())
		})
	}
}

// settlePage waits until all parts of the page have their data: nothing has changed for a while.
func settlePage(t *testing.T, ctx context.Context) {
	t.Helper()
	until(t, ctx, `(() => {
		const now = document.querySelector("#view").innerHTML.length + "/" + document.querySelectorAll("canvas").length +
			"/" + performance.getEntriesByType("resource").length;
		if (window.settled_?.now !== now) window.settled_ = { now, at: performance.now() };
		return document.querySelector("#view .problem") === null && performance.now() - window.settled_.at > 300;
	})()`)
}

// TestTheLayoutAuditFindsWhatIsWrong breaks a page on purpose.
func TestTheLayoutAuditFindsWhatIsWrong(t *testing.T) {
	ctx, _ := boundedChromium(t, walkTime)
	base := walkedSwarm(t).serve()
	for wrong, change := range map[string]string{
		"to the right of": `document.querySelector(".node-reward .spark").style.flex = "none", document.querySelector(".node-reward .spark").style.width = "30rem",
			document.querySelector(".node-reward .spark").style.maxWidth = "none"`,
		"cut without": `Object.assign(document.querySelector("#run-title").style, { overflow: "hidden", whiteSpace: "nowrap", width: "1rem" })`,
		"text \"":     `Object.assign(document.querySelector(".run-name + p").style, { whiteSpace: "nowrap", width: "2rem" })`,
		"the choice":  `document.querySelector("select").style.width = "3rem"`,
		"cut below":   `Object.assign(document.querySelector(".run-head").style, { overflow: "hidden", height: "1rem" })`,
	} {
		draw(t, ctx, base+"/?"+fmt.Sprint(len(change))+"#/runs/study-a-1", 1280, "light")
		until(t, ctx, `document.querySelector(".node-reward .spark path[d]") !== null && document.querySelector("select") !== null`)
		settlePage(t, ctx)
		require.NoError(t, chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](change+", undefined")))
		found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](layout))
		require.NoError(t, err)
		require.Contains(t, strings.Join(found, "\n"), wrong)
	}
}

// TestManyRunsAreGroupedByExperiment shows 200 runs as one row per experiment, and opens each row.
func TestManyRunsAreGroupedByExperiment(t *testing.T) {
	ctx, said := boundedChromium(t, walkTime)
	s := newSwarm(t)
	s.open()
	for i := range 200 {
		key := fmt.Sprintf("experiment-%d-seed-%d", i/10, i%10)
		s.start(key, fmt.Sprintf("experiment-%d", i/10), 2, 5)
		s.round(key, 2, 0)
		s.record(key, event.Event{Type: event.TypeRunEnded, State: store.RunDone})
	}
	require.NoError(t, s.store.Flush(t.Context()))
	base := s.serve()
	draw(t, ctx, base, 1280, "light")
	until(t, ctx, `document.querySelectorAll("#runs tr.group").length === 20`)
	require.Zero(t, inPage[int](t, ctx, `document.querySelectorAll("#runs tr[data-run]").length`), "closed at first")
	require.Equal(t, "experiment", inPage[string](t, ctx, `[...document.querySelectorAll("label.choose")].find((l) => l.textContent.startsWith("Group by")).control.value`))
	keepPicture(t, ctx, "many-1280-light.png")
	inPage[bool](t, ctx, `(document.querySelector("#runs .fold").click(), true)`)
	until(t, ctx, `document.querySelectorAll("#runs tr[data-run]").length === 10`)
	inPage[bool](t, ctx, `(document.querySelector("#runs .fold").click(), true)`)
	until(t, ctx, `document.querySelectorAll("#runs tr[data-run]").length === 0`)
	until(t, ctx, `document.querySelectorAll("#curves").length === 1 &&
		document.querySelector("#curves").closest("section").querySelectorAll(".chart-entry").length === 6`)
	draw(t, ctx, base+"/?none#/?group=none", 1280, "light")
	until(t, ctx, `document.querySelectorAll("#runs tr[data-run]").length === 200`)
	require.Empty(t, said.all())
}

// walkedSwarm has a study of two experiments with three seeds, a run of one node, one of 64 nodes, and a failed one.
// Every view has content.
func walkedSwarm(t *testing.T) *swarm {
	t.Helper()
	s := newSwarm(t, walkedOptions)
	s.open()
	for i, run := range []struct {
		key, experiment string
		nodes, rounds   int
		gain            float64
	}{
		{"study-a-1", "study-a", 8, 40, 0.4}, {"study-a-2", "study-a", 8, 40, 0.42}, {"study-a-3", "study-a", 8, 40, 0.38},
		{"study-b-1", "study-b-with-quite-a-long-name-as-sweeps-give", 8, 40, 0.3}, {"study-b-2", "study-b-with-quite-a-long-name-as-sweeps-give", 8, 40, 0.2},
		{"study-b-3", "study-b-with-quite-a-long-name-as-sweeps-give", 8, 40, 0.25}, {"solo-1", "solo", 1, 30, 0.1}, {"wide-1", "wide", 64, 8, 0.2},
		{"broken-1", "broken", 4, 20, 0.2},
	} {
		s.walkRun(i, run.key, run.experiment, run.nodes, run.rounds, run.gain)
	}
	require.NoError(t, s.store.Flush(t.Context()))
	return s
}

func walkedOptions(o *Options) {
	o.Alive = func(x store.Snapshot, _ float64) bool { return x.Run.Experiment != "broken" }
	o.Rollouts = walkedRollouts
	o.Studies = studies(studied("sharing", stats.MeasurePass, "How many of a round's eight rollouts should come from others, if importance ratios correct them?",
		"study-a", "study-b-with-quite-a-long-name-as-sweeps-give", "study-c-not-begun"), studied("nodes", stats.MeasureReward, "", "solo", "wide"))
	o.Logs = func(context.Context, LogQuery) (Logs, error) { return Logs{}, nil }
}

// walkRun records a whole run.
func (s *swarm) walkRun(seed int, key, experiment string, nodes, rounds int, gain float64) {
	s.t.Helper()
	begin := event.Now() - 4000
	r := store.Run{Run: key, Experiment: experiment, Model: "nano", Device: "cuda:0", Seed: int64(seed), Rounds: rounds, NumTrainSamples: 4,
		NumTransplantTrees: 4 * (nodes % 2), NumGenerations: 8, PricePerHour: 1.29, PriceCurrency: "$", Started: begin, Host: "here", PID: 1,
		Config: json.RawMessage(`{"experiment":"x","rounds":40,"learning_rate":0.0003,"tasks":{"set":"paper","mixture":[{"name":"bf","weight":1}]}}`)}
	for i := range nodes {
		r.NodeIDs = append(r.NodeIDs, fmt.Sprint("node_", i))
	}
	require.NoError(s.t, s.store.StartRun(s.t.Context(), r))
	s.record(key, event.Event{Type: event.TypeRunStarted, Time: begin})
	for round := range rounds {
		for i := range nodes {
			reward := gain*(1-math.Exp(-3*float64(round)/float64(rounds))) + 0.03*math.Sin(float64(7*round+11*i+seed))
			s.record(key, event.Event{Type: event.TypeRound, Node: fmt.Sprint("node_", i), Time: begin + 60*float64(round+1), Round: &event.Round{
				Round: round, Reward: max(0, reward), TrainingReward: 2 * max(0, reward), Completions: 32, MeanLength: 42, StepTime: 20.5, GenerateTime: 9.25,
				UpdateTime: 8, BarrierTime: 2, LeaseTime: 1, ScoreTime: 0.2, JournalTime: 0.05, TrainedOwn: 4, TrainedExternal: 4, Steps: 1,
				Tasks: []event.TaskReward{{Task: "basic_arithmetic", Completions: 16, RewardSum: 4}, {Task: "propositional_logic", Completions: 16, RewardSum: 2}},
				Peers: []event.Peer{{Node: fmt.Sprint("node_", (i+1)%nodes), Available: 4, Used: 2, Filtered: 1, Rejected: 1}},
			}})
		}
	}
	for i := range nodes {
		id := fmt.Sprint("node_", i)
		s.record(key,
			event.Event{Type: event.TypeDevice, Time: begin + 60*float64(i+1), Device: &event.Device{UUID: "GPU-1", Name: "NVIDIA H100 80GB HBM3", MemoryTotalBytes: 80e9,
				MemoryUsedBytes: 30e9, UnattributedBytes: 2e9, Utilization: 0.9, PowerWatts: 300, TemperatureCelsius: 60}},
			event.Event{Type: event.TypeState, Node: id, Time: begin + 60*float64(rounds), State: event.StateUpdating, RoundIndex: rounds},
			event.Event{Type: event.TypeMemory, Time: begin + 60*float64(i+1), Node: id, Memory: &event.Memory{RSSBytes: 2e9, PeakRSSBytes: 3e9, DeviceBytes: 6e9,
				DevicePeakBytes: 8e9, ResidentBytes: 3e9, GenerateBytes: 2e9, UpdateBytes: 4e9, BudgetBytes: 9e9, MicroBatch: 8}})
		for _, round := range []int{0, rounds / 2, rounds} {
			s.record(key, event.Event{Type: event.TypeEval, Node: id, Time: begin + 60*float64(round), Eval: &event.Eval{Round: round, Set: "paper-64", Generations: 8,
				FormatRate: 0.9, MeanLength: 70, Questions: []event.EvalQuestion{
					{Task: "basic_arithmetic", Correct: min(8, round/10+seed%3), RewardSum: float64(min(8, round/10+seed%3))},
					{Task: "propositional_logic", Correct: 1 + i%2, RewardSum: 2.5}}}})
		}
	}
	if experiment == "broken" {
		s.walkTroubles(key, begin)
	} else if experiment != "wide" {
		s.record(key, event.Event{Type: event.TypeRunEnded, Time: begin + 60*float64(rounds+1), State: store.RunDone})
	}
}

// walkTroubles records problems of a run.
func (s *swarm) walkTroubles(key string, begin float64) {
	s.t.Helper()
	code, long := 1, strings.Repeat("CUDA out of memory: tried to allocate 512 MiB ", 12)
	s.record(key,
		event.Event{Type: event.TypeMemoryStep, Node: "node_0", Time: begin + 100, Cause: event.CauseOutOfMemory, MemoryStep: &event.MemoryStep{Round: 3,
			Phase: "update", Cause: event.MemoryGPU, Action: event.ActionHalveMicroBatch, MicroBatch: 8, RequestedBytes: 3e9, UsedBytes: 7e9, FreeBytes: 5e8,
			TotalBytes: 80e9}},
		event.Event{Type: event.TypeExit, Node: "node_0", Time: begin + 160, Cause: event.CauseOutOfMemory, ExitCode: &code, Message: long},
		event.Event{Type: event.TypeRestart, Node: "node_0", Time: begin + 161, Seconds: 2, Message: long},
		event.Event{Type: event.TypeWarning, Node: "node_1", Time: begin + 400, Message: hostile},
		event.Event{Type: event.TypeWarning, Node: "node_2", Time: begin + 401, Message: strings.Repeat("unbroken", 60)},
		event.Event{Type: event.TypeGiveUp, Node: "node_3", Time: begin + 700, Cause: event.CauseOutOfMemory, Message: strings.Repeat("memory", 40)})
}

func walkedRollouts(_ context.Context, q RolloutQuery) (Rollouts, error) {
	answer, right, wrong := "42", 1.0, 0.25
	question := Question{Task: "basic_arithmetic", Question: "What is 6 times 7? " + strings.Repeat("Think about it. ", 30), Answer: &answer,
		Completions: []Completion{{Text: "<answer>42</answer>", Reward: &right, Terminated: true}, {Text: strings.Repeat("word ", 800), Reward: &wrong},
			{Text: strings.Repeat("unbroken", 200)}, {Text: ""}}}
	return Rollouts{Node: q.Node, Round: 7, Rounds: 8, Nodes: []string{"node_0", "node_1"}, Questions: []Question{question, question},
		Externals: []External{{From: "node_1", Question: question}}}, nil
}
