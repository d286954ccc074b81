package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// A run from start to end: its text output, and every JSON document.
func TestHappyPath(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := append([]string{"up", "--config", "4loc4ext", "--rounds", "3"}, tinyRun("--nodes", "4")...)
	text := swarm(t, home, up...)
	require.Equal(t, 0, text.code, text.stderr)
	require.Empty(t, text.stderr)
	require.Contains(t, text.stdout, "4loc4ext-1: tiny on cpu, 4 nodes, I/J/G 2/2/4, 3 rounds, seed 42\n")
	require.Contains(t, text.stdout, "4loc4ext done: 3 of 3 rounds in ")
	require.NotContains(t, text.stdout, "\x1b", "escape sequences where there is no terminal")

	first := testStatusDocument(t, home, "4loc4ext-1")
	shown := swarm(t, home, "status")
	require.Equal(t, 0, shown.code)
	require.Contains(t, shown.stdout, "node_3")

	lines := swarm(t, home, append(up, "-o", "json", "--fresh")...)
	require.Equal(t, 0, lines.code, lines.stderr)
	require.Empty(t, lines.stderr)
	testEventLines(t, lines.stdout)
	second := testStatusDocument(t, home, "4loc4ext-2")
	require.Positive(t, first["cumulative_reward"])
	require.InDelta(t, first["cumulative_reward"], second["cumulative_reward"], 0, "the same seed gives the same rewards")

	baseline := swarm(t, home, append([]string{"up", "--config", "8loc0ext", "--rounds", "3"}, tinyRun("--nodes", "1", "--num-transplant-trees", "0")...)...)
	require.Equal(t, 0, baseline.code, baseline.stderr)
	testCompareDocument(t, home)
	unknown := swarm(t, home, "status", "nosuch")
	require.Equal(t, outcome{2, "", "Error: no run or experiment \"nosuch\" is recorded\nTry: swarm ls\n"}, unknown)
}

// testStatusDocument checks status -o json of a done run, and returns it.
func testStatusDocument(t *testing.T, home, run string) map[string]any {
	t.Helper()
	o := swarm(t, home, "status", run, "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	s := fields(t, decode(t, o.stdout), map[string]string{
		"experiment": "string", "run": "string", "state": "string", "round": "number", "rounds": "number",
		"cumulative_reward": "number", "eta_seconds": "number?", "nodes": "array",
	})
	require.Equal(t, "4loc4ext", s["experiment"])
	require.Equal(t, run, s["run"])
	require.Equal(t, "done", s["state"])
	require.InDelta(t, 3, s["round"], 0)
	require.InDelta(t, 3, s["rounds"], 0)
	require.Nil(t, s["eta_seconds"])
	require.Len(t, s["nodes"], 4)
	total := 0.0
	for i, document := range s["nodes"].([]any) {
		n := fields(t, document, map[string]string{
			"id": "string", "state": "string", "round": "number", "reward": "number?", "cumulative_reward": "number",
			"memory_bytes": "number", "peak_memory_bytes": "number", "restarts": "number", "pid": "number",
		})
		require.Equal(t, fmt.Sprintf("node_%d", i), n["id"])
		require.Equal(t, "done", n["state"])
		require.InDelta(t, 3, n["round"], 0)
		require.InDelta(t, 0, n["restarts"], 0)
		require.Greater(t, n["peak_memory_bytes"], 50e6, "torch alone takes more")
		total += n["cumulative_reward"].(float64)
	}
	require.InDelta(t, s["cumulative_reward"], total, 1e-9)
	return s
}

// testEventLines checks up -o json: one event per line, the summary last.
func testEventLines(t *testing.T, stdout string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	counts := map[string]int{}
	for i, line := range lines {
		e := fields(t, decode(t, line), map[string]string{"type": "string", "time": "number"})
		kind := e["type"].(string)
		counts[kind]++
		require.Equal(t, i == len(lines)-1, kind == string(event.TypeSummary), "line %d of %d: %s", i+1, len(lines), line)
		require.Equal(t, "4loc4ext-2", e["run"])
		if kind == string(event.TypeRound) {
			r := fields(t, e["round"], map[string]string{
				"round": "number", "reward": "number", "reward_std": "number", "frac_reward_zero_std": "number",
				"completions_mean_length": "number", "entropy": "number", "grad_norm": "number", "step_time": "number",
				"trained_own": "number", "trained_external": "number", "peers": "array",
			})
			require.InDelta(t, 2, r["trained_own"], 0)
			require.Len(t, r["peers"], 3)
		}
	}
	require.Equal(t, 1, counts["run_started"])
	require.Equal(t, 1, counts["run_ended"])
	require.Equal(t, 4, counts["spawn"])
	require.Equal(t, 4, counts["loaded"])
	require.Equal(t, 4, counts["exit"])
	require.Equal(t, 12, counts["round"])
	require.Zero(t, counts["warning"]+counts["failure"]+counts["restart"]+counts["giveup"])
	summary := fields(t, decode(t, lines[len(lines)-1]), map[string]string{
		"type": "string", "run": "string", "state": "string", "cumulative_reward": "number", "nodes": "array", "restarts": "number",
	})
	require.Equal(t, "done", summary["state"])
}

func testCompareDocument(t *testing.T, home string) {
	t.Helper()
	o := swarm(t, home, "compare", "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	c := fields(t, decode(t, o.stdout), map[string]string{"baseline": "string", "rows": "array"})
	require.Equal(t, "8loc0ext", c["baseline"])
	rows := c["rows"].([]any)
	require.Len(t, rows, 2)
	for i, want := range []struct {
		experiment, config, verdict string
		runs, nodes                 int
	}{{"4loc4ext", "2/2", "not comparable: nodes 4 against 1", 2, 4}, {"8loc0ext", "2/0", "baseline", 1, 1}} {
		row := fields(t, rows[i], map[string]string{
			"experiment": "string", "config": "string", "runs": "number", "nodes": "number", "rounds": "number",
			"cumulative_reward": "number", "improvement": "number?", "ci_low": "number?", "ci_high": "number?", "p_value": "number?",
			"verdict": "string", "eval_reward": "number?", "paper_improvement": "number?",
		})
		require.Equal(t, want.experiment, row["experiment"])
		require.Equal(t, want.config, row["config"])
		require.Contains(t, row["verdict"], want.verdict)
		require.InDelta(t, want.runs, row["runs"], 0)
		require.InDelta(t, want.nodes, row["nodes"], 0)
		require.InDelta(t, 3, row["rounds"], 0)
	}
	table := swarm(t, home, "compare")
	require.Equal(t, 0, table.code)
	require.Regexp(t, `(?m)^8loc0ext +2/0 +1 +1 +3 .* baseline$`, table.stdout)
	missing := swarm(t, home, "compare", "--baseline", "nosuch")
	require.Equal(t, outcome{2, "", "Error: no experiment \"nosuch\" is recorded\nTry: swarm ls\n"}, missing)
}

// The bundled model as users get it: its reward must clearly rise under SAPO. Four nodes and 10 rounds stand in for
// the README's eight and 40. docs/RESULTS.md has that curve, which grows sixfold.
func TestBundledModelLearns(t *testing.T) {
	t.Parallel()
	python, err := findPython()
	if err != nil {
		t.Skip(err)
	}
	require.FileExists(t, filepath.Join("..", "..", "..", "node", "model", "nano", "model.safetensors"))
	home := t.TempDir()
	o := swarm(t, home, "up", "--python", python.Path, "--config", "4loc4ext", "--model", "nano", "--device", "cpu", "--nodes", "4",
		"--rounds", "10", "--eval-questions", "0", "--learning-rate", "0.0003", "-o", "json") // three times nano's own rate: faster over so few rounds
	require.Equal(t, 0, o.code, o.stderr)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	var summary struct {
		Type  string   `json:"type"`
		Model string   `json:"model"`
		Round int      `json:"round"`
		First *float64 `json:"first_reward"`
		Last  *float64 `json:"last_reward"`
		Edge  int      `json:"edge_rounds"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &summary))
	require.Equal(t, "summary", summary.Type)
	require.Equal(t, "nano", summary.Model)
	require.Equal(t, 10, summary.Round)
	require.Equal(t, 5, summary.Edge)
	require.NotNil(t, summary.First)
	require.NotNil(t, summary.Last)
	t.Logf("mean reward of the first 5 rounds %.3f, of the last 5 %.3f", *summary.First, *summary.Last)
	require.Greater(t, *summary.Last, 1.5**summary.First)
}
