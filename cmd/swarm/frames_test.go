package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/doctor"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/runs"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	others "github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

var updateFrames = flag.Bool("update", false, "rewrite testdata/frames")

// frameNow is the time of every frame, in Unix seconds.
const frameNow = 1_800_000_000

// frames are the outputs of commands, rendered from documents on screens of every kind.
var frames = map[string]func(t *testing.T, p *table.Page){
	"plan":    planFrame,
	"doctor":  func(_ *testing.T, p *table.Page) { p.Table(doctor.Table(doctorFindings())) },
	"workers": func(_ *testing.T, p *table.Page) { workersInFrame().Print(p, frameNow) },
	"status": func(_ *testing.T, p *table.Page) {
		(runs.Overview{Status: new(statusInFrame()), Jobs: jobsInFrame()}).Print(p)
	},
	"compare": printComparison,
	"curve":   func(_ *testing.T, p *table.Page) { terminal.PrintCurve(p, curveInFrame(197), false) },
	"curve-experiment": func(_ *testing.T, p *table.Page) {
		terminal.PrintExperimentCurve(p, experimentInFrame(), false)
	},
	"ls":   func(_ *testing.T, p *table.Page) { p.Table(runs.Table(runsInFrame())) },
	"eval": func(_ *testing.T, p *table.Page) { terminal.PrintEvaluations(p, evaluationsInFrame(), false) },
}

// screens are the environments of a frame, read as for a pipe.
var screens = []string{"COLUMNS=40", "COLUMNS=80", "COLUMNS=120", "", "COLUMNS=80 LC_ALL=C", "COLUMNS=80 NO_COLOR=1"}

func TestFrames(t *testing.T) {
	for name, print := range frames {
		t.Run(name, func(t *testing.T) {
			var all strings.Builder
			for _, environ := range screens {
				fmt.Fprintf(&all, "---- %s\n%s", strings.TrimSpace("piped "+environ), frameOf(t, environ, print))
			}
			path := filepath.Join("testdata", "frames", name+".txt")
			if *updateFrames {
				require.NoError(t, os.WriteFile(path, []byte(all.String()), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), all.String(), "go test ./cmd/swarm -run TestFrames -update rewrites it")
		})
	}
}

// TestNoFrameIsWiderThanItsScreen: at any width, no line is wider unless it is one unbreakable word. There is no
// color, ASCII output is ASCII, and omissions are stated.
func TestNoFrameIsWiderThanItsScreen(t *testing.T) {
	for name, print := range frames {
		whole := frameOf(t, "", print)
		for width := 30; width <= 200; width += 7 {
			frame := frameOf(t, fmt.Sprintf("COLUMNS=%d LC_ALL=C", width), print)
			for line := range strings.Lines(frame) {
				line = strings.TrimSuffix(line, "\n")
				require.True(t, ansi.StringWidth(line) <= width || len(strings.Fields(line)) == 1, "%s at %d: %q", name, width, line)
				require.True(t, charset.Printable(line), "%s at %d: %q", name, width, line)
			}
		}
		require.NotContains(t, whole, "Not shown at", name)
		require.NotContains(t, whole, "\x1b", name)
		require.Equal(t, frameOf(t, "COLUMNS=80", print), frameOf(t, "COLUMNS=80 NO_COLOR=1", print), name)
	}
}

func frameOf(t *testing.T, environ string, print func(t *testing.T, p *table.Page)) string {
	var out bytes.Buffer
	p := table.NewPage(&out, screen.Of(&out, strings.Fields(environ)))
	print(t, p)
	require.NoError(t, p.Flush())
	return out.String()
}

// inFrame reads a document of testdata/frames.
func inFrame[T any](t *testing.T, name string) T {
	var document T
	text, err := os.ReadFile(filepath.Join("testdata", "frames", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &document))
	return document
}

func planFrame(t *testing.T, p *table.Page) {
	m, err := configs.LoadModel("gpt2")
	require.NoError(t, err)
	plan.Planned{Config: configs.Config{SwarmSize: 8}, Model: m, Plan: inFrame[fit.Plan](t, "plan.json")}.Print(p)
}

func doctorFindings() []doctor.Finding {
	return []doctor.Finding{
		{Check: "swarm", OK: true, Found: "v1.1.0, go1.26.8, linux/amd64"},
		{Check: "home", OK: true, Found: "/home/anna/.local/share/swarm, 59.6 GB free"},
		{Check: "host", OK: true, Found: "16 cores, 128.0 GB of memory, 112.4 GB free"},
		{Check: "GPU", Found: "none: no NVIDIA driver on this machine (libnvidia-ml.so.1 not found)", Try: "install the NVIDIA driver"},
		{Check: "engine", OK: true, Found: "answers after 6.9 s, torch 2.7.0, BLAS openblas SkylakeX, CUDA false, 240 MB resident"},
	}
}

func workersInFrame() workers.Listing {
	return workers.Listing{
		Run: "friends-7",
		Workers: []others.Row{
			{Worker: "anna", Host: "anna-desktop.example.org", Device: "NVIDIA GeForce RTX 4090", State: "connected", Nodes: 4, Rounds: 1840,
				RolloutsAvailable: 14720, RolloutsUsed: 9311, UsefulRatio: 1, LastSeen: frameNow - 2},
			{Worker: "bert", Host: "colab", Device: "Tesla T4", State: "away", Nodes: 1, Rounds: 112, RolloutsAvailable: 880, RolloutsRejected: 120,
				RolloutsUsed: 512, UsefulRatio: 0.88, Refused: 3, LastSeen: frameNow - 3725, Reason: "no heartbeat for one minute: its host or its network is down"},
			{Worker: "cleo", Host: "laptop", Device: "CPU", State: "connected", Nodes: 1},
		},
		Listed: []workers.Listed{
			{Name: "anna", Kind: "worker", LastSeen: frameNow - 2},
			{Name: "bert", Kind: "worker", LastSeen: frameNow - 3725},
			{Name: "invitation", Kind: "invitation"},
			{Name: "mallory", Kind: "worker", Banned: "wrong answer keys in every third batch that was offered", LastSeen: frameNow - 90000},
		},
	}
}

func evaluationsInFrame() evaluation.Document {
	pass := func(one, two, four float64) []evaluation.Pass {
		return []evaluation.Pass{{K: 1, Value: one}, {K: 2, Value: two}, {K: 4, Value: four}}
	}
	tags, tokens := 0.93, 41.2
	return evaluation.Document{
		Run: "4loc4ext-3", Experiment: "4loc4ext", Config: "4/4", Seed: 42,
		Rows: []evaluation.Row{
			{Round: 0, Set: "9f2c41aa", Nodes: 8, Questions: 54, Generations: 4, Reward: 0.021, RewardLow: 0.014, RewardHigh: 0.032, Pass: pass(0.02, 0.035, 0.06)},
			{Round: 100, Set: "9f2c41aa", Nodes: 8, Questions: 54, Generations: 4, Reward: 0.274, RewardLow: 0.251, RewardHigh: 0.301, Pass: pass(0.268, 0.35, 0.44),
				FormatRate: &tags, MeanLength: &tokens},
		},
		Tasks: []evaluation.Task{
			{Task: "base_conversion", Questions: 6, Reward: 0.31, Pass: pass(0.3, 0.41, 0.5)},
			{Task: "binary_matrix", Questions: 6, Reward: 0.02, Pass: pass(0.02, 0.03, 0.05)},
		},
	}
}
