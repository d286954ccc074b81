package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// The command, the report, the dashboard and a notebook show the same numbers of a database, to the last digit.
func TestTheSameNumbersEverywhere(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 for the notebook's part")
	}
	program, err := exec.LookPath("swarm")
	require.NoError(t, err)
	home := twoExperiments(t)
	evaluateHome(t, home)
	dashboard := startDashboard(t, home)
	bridge, err := filepath.Abs("../../notebooks-bridge")
	require.NoError(t, err)

	for _, x := range []struct {
		name, command string
		reported      bool
		api, bridge   string
	}{
		{"comparison", "compare own0 own1 --tasks -o json", true, "api/compare?names=own0&names=own1",
			"swarm_bridge.compare('own0', 'own1')"},
		{"status", "status own1-4 -o json", true, "api/runs/own1-4", "swarm_bridge.attach('own1-4').status()"},
		{"curve", "curve own1-4 --window 5 -o json", false, "api/runs/own1-4/curve?metric=reward&window=5&points=0",
			"swarm_bridge.curves('own1-4', window=5, points=0)"},
		{"experiments", "curve own1 --window 5 --per tokens --runs -o json", false, "api/curves?names=own1&window=5&points=0&per=tokens&single=1", ""},
		{"evaluations", "eval own1-4 -o json", true, "api/runs/own1-4/evaluations", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			o := swarm(t, home, strings.Fields(x.command)...)
			require.Zero(t, o.code, o.stderr)
			want := settled(t, o.stdout, x.name)
			require.NotEmpty(t, want)
			if x.reported {
				page := swarm(t, home, "report", "--out", "-", "own0", "own1")
				require.Zero(t, page.code, page.stderr)
				_, data, _ := strings.Cut(page.stdout, `id="documents">`)
				data, _, _ = strings.Cut(data, "</script>")
				require.Equal(t, want, settled(t, data, x.name), "report")
			}
			var served json.RawMessage
			fetchJSON(t, dashboard.url+x.api, &served)
			require.Equal(t, want, settled(t, string(served), x.name), "dashboard")
			if x.bridge != "" {
				cmd := exec.Command(python, "-c", "import json, swarm_bridge; print(json.dumps("+x.bridge+"))")
				cmd.Dir = bridge
				cmd.Env = append(cmd.Environ(), "SWARM_PROGRAM="+program, "SWARM_HOME="+home)
				out, err := cmd.Output()
				require.NoError(t, err, errorOutput(err))
				require.Equal(t, want, settled(t, string(out), x.name), "notebook")
			}
		})
	}
}

// settled decodes a surface's document. It removes what surrounds the statistics, and what depends on the time of the
// request.
func settled(t *testing.T, text, name string) any {
	t.Helper()
	var document any
	require.NoError(t, json.Unmarshal([]byte(text), &document), text)
	if list, ok := document.([]any); ok { // the notebook's curves
		document = map[string]any{"curves": list}
	}
	object := document.(map[string]any)
	if name == "experiments" {
		return object["experiments"]
	}
	delete(object, "experiments")                                                                      // part of a curve
	if runs, ok := object["runs"].([]any); ok && object["comparison"] != nil && name != "comparison" { // part of a report
		for _, run := range runs {
			if run := run.(map[string]any); run["row"].(map[string]any)["run"] == "own1-4" {
				object = run
			}
		}
	}
	if curves, ok := object["curves"].([]any); ok {
		require.Len(t, curves, 1)
		object = curves[0].(map[string]any)
	}
	if inner, ok := object[name].(map[string]any); ok {
		object = inner
	}
	if name == "comparison" {
		delete(object, "tasks") // only the command and the report include them
	}
	return object
}

// evaluateHome adds held-out evaluations to a home's runs.
func evaluateHome(t *testing.T, home string) {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	defer s.Close()
	for i, run := range []string{"own0-0", "own0-1", "own0-2", "own0-3", "own1-4", "own1-5", "own1-6", "own1-7"} {
		for n, node := range []string{"node_0", "node_1"} {
			require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeEval, Run: run, Node: node, Time: 2000, Eval: &event.Eval{
				Round: 20, Set: "s", Generations: 4, Temperature: 1, FormatRate: 0.7, MeanLength: 31,
				Questions: []event.EvalQuestion{{Task: "a", Correct: i % 3, RewardSum: 0.1 * float64(i+n)}, {Task: "b", Correct: n, RewardSum: 1.7}},
			}}))
		}
	}
}

func errorOutput(err error) string {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // straight from Output
		return string(exit.Stderr)
	}
	return ""
}
