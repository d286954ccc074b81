package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

func statusInFrame() stats.Status {
	eta, pace, mean := 5025.0, 3.1, 0.274
	x := stats.Status{
		Experiment: "4loc4ext", Run: "4loc4ext-3", State: "lost", Round: 120, Rounds: 2000, CumulativeReward: 263.11, ETASeconds: &eta, Model: "nano",
		Device: "cpu", ElapsedSeconds: 372, SecondsPerRound: &pace, Reward: &mean, RecentRewards: []float64{0.1, 0.12, 0.2, 0.19, 0.25, 0.31, 0.3, 0.274, 0.28, 0.29},
		NodesAlive: 2, NodesPlanned: 3, Restarts: 1, MemoryBytes: 2_210_000_000, Attempts: 1, EvalReward: &mean, EvalRound: 100,
		Message: "node_2 gave up after 3 restarts: swarm logs 4loc4ext-3 node_2 says why; swarm up --config 4loc4ext goes on with the others",
	}
	for i, id := range []string{"node_0", "node_1", "node_2"} {
		n := stats.NodeStatus{ID: id, State: "generating", Round: 120 + i, Reward: &mean, RecentReward: &mean, MemoryBytes: 730_000_000,
			PeakMemoryBytes: 910_000_000, PID: 4120 + i}
		if i == 2 {
			n.State, n.Restarts, n.PID, n.Cause, n.Message = "given_up", 3, 0, "unknown", "killed by signal 9 (killed) while it was updating its policy in round 122"
		}
		x.Nodes = append(x.Nodes, n)
	}
	return x
}

func comparisonInFrame() stats.Comparison {
	v := func(x float64) *float64 { return &x }
	return stats.Comparison{
		Baseline: "8loc0ext", Measure: "training",
		Rows: []stats.Row{
			{Name: "8loc0ext", Experiment: "8loc0ext", Config: "8/0", Runs: 5, Seeds: 5, Nodes: 8, Rounds: 2000, CumulativeReward: 3011.4, RewardPerNodeRound: v(0.1882),
				EvalReward: v(0.201), EvalPass1: v(0.17), PaperReward: v(562), Outcome: "baseline", Verdict: "baseline"},
			{Name: "4loc4ext", Experiment: "4loc4ext", Config: "4/4", Runs: 5, Seeds: 5, Nodes: 8, Rounds: 2000, CumulativeReward: 4512.9, RewardPerNodeRound: v(0.2821),
				EvalReward: v(0.302), EvalPass1: v(0.262), Improvement: v(0.499), CILow: v(0.312), CIHigh: v(0.686), PaperReward: v(1093),
				PaperImprovement: v(0.94), Outcome: "better", Verdict: "better"},
		},
		Pairs: []stats.Pair{{A: "4loc4ext", B: "8loc0ext", Difference: v(0.0939), CILow: v(0.061), CIHigh: v(0.1268), Improvement: v(0.499), PValue: v(0.0021),
			PermutationPValue: v(2.0 / 252), PValueHolm: v(2.0 / 252), DecidedBy: stats.DecidedByPermutation, ProbabilityOfImprovement: v(1), Outcome: "better", Verdict: "better"}},
		Tasks: []stats.TaskComparison{{Task: "base_conversion", Rewards: []stats.TaskReward{{Reward: v(0.21)}, {Reward: v(0.35), Improvement: v(0.667)}}}},
		Notes: []string{"The paper's figures are of 8 nodes over 2000 rounds of Qwen2.5 0.5B, and these of nano: compare the signs, not the sizes."},
	}
}

func curveInFrame(rounds int) stats.Curve {
	c := stats.Curve{Run: "4loc4ext-3", Metric: "reward", Window: 100, Nodes: make([]stats.NodeSeries, 1)}
	for i := range rounds {
		mean := 0.3 * (1 - math.Exp(-float64(i)/60))
		c.Round = append(c.Round, i+1)
		c.Mean, c.Low, c.High = append(c.Mean, mean), append(c.Low, mean*0.8), append(c.High, mean*1.1)
	}
	return c
}

// experimentInFrame is the curve of three seeds against tokens.
func experimentInFrame() stats.ExperimentCurve {
	c := stats.ExperimentCurve{Experiment: "4loc4ext", Metric: "reward", Window: 100, Per: "tokens", Seeds: 3}
	for i := range 120 {
		mean := 0.3 * (1 - math.Exp(-float64(i)/40))
		c.X, c.Mean = append(c.X, 12_000*float64(i+1)), append(c.Mean, mean)
		c.Low, c.High = append(c.Low, mean-0.02), append(c.High, mean+0.02)
	}
	return c
}

func runsInFrame() []lifecycle.Listed {
	size, folder := int64(1_430_000_000), "/home/anna/.local/share/swarm/runs/4loc4ext-3"
	return []lifecycle.Listed{
		{Run: "4loc4ext-3", Experiment: "4loc4ext", State: "running", Round: 120, Rounds: 2000, Nodes: 8, Folder: &folder, SizeBytes: &size},
		{Run: "study-sharing-that-pays-2loc6ext-seed-42", Experiment: "study-sharing-that-pays-2loc6ext", State: "done", Round: 2000, Rounds: 2000, Nodes: 8,
			Imported: true, LastSeen: event.Now() - 3.5*86400},
	}
}

func jobsInFrame() []jobstats.JobRow {
	batch, peak := 24, int64(21_400_000_000)
	return []jobstats.JobRow{{Job: "finetune", State: "done", AttemptCount: 3, BatchSize: &batch, Accumulate: &batch, EffectiveBatch: &batch, PeakGPUBytes: &peak,
		ElapsedSeconds: 5025, Command: []string{"python3", "train.py", "--batch-size", "{batch_size}", "--config", "configs/finetune-large.yaml"}}}
}

func printComparison(t *testing.T, p *table.Page) {
	require.NoError(t, terminal.PrintComparison(p, comparisonInFrame(), nil))
}

// TestCurvePrintsEveryRoundToAPipe: a pipe gets every round. A terminal gets a plot with about twenty rounds, or all
// with --all.
func TestCurvePrintsEveryRoundToAPipe(t *testing.T) {
	lines := func(environ string, all bool) int {
		frame := frameOf(t, environ, func(_ *testing.T, p *table.Page) { terminal.PrintCurve(p, curveInFrame(197), all) })
		return strings.Count(frame, "\n")
	}
	require.Equal(t, 2+197, lines("", false))
	require.Equal(t, 2+197, lines("COLUMNS=80", true))
	require.Less(t, lines("COLUMNS=80", false), 40)
}
