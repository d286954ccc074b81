package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/model"
)

// finishedRun is a done run in a database, as swarm up makes it with these flags.
type finishedRun struct {
	args   []string // for nano on the CPU
	nodes  int
	device string // planned device; empty: cpu
	state  string // empty: done
	reward float64
}

// finishedRuns is a home with those runs.
func finishedRuns(t *testing.T, runs ...finishedRun) string {
	t.Helper()
	home := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	for i, r := range runs {
		flags, _ := flagsOf(t, append([]string{"--model", "nano", "--rounds", "4"}, r.args...)...)
		c, m, _, err := configSources(nil, false).Config(&flags.Config)
		require.NoError(t, err)
		if c.ExternalFilter = configs.FilterNone; c.ExternalCorrection == configs.CorrectionAuto { // no run is recorded with auto
			c.ExternalCorrection = configs.CorrectionNone
		}
		if c.EvalDraws == configs.DrawsAuto {
			c.EvalDraws = configs.DrawsNode
		}
		dir, err := model.Resolve(m, home)
		require.NoError(t, err)
		inputs, err := plan.InputHashes(t.Context(), dir, c.Tasks)
		require.NoError(t, err)
		if r.device == "" {
			r.device = fit.DeviceCPU
		}
		run := store.Run{
			Run: c.Experiment + fmt.Sprintf("-%d", i+1), Experiment: c.Experiment, Model: "nano", Device: r.device, Seed: c.Seed, Rounds: c.Rounds,
			NumTrainSamples: c.NumTrainSamples, NumTransplantTrees: c.NumTransplantTrees, NumGenerations: c.NumGenerations,
			Config: document(t, c), Plan: document(t, fit.Plan{Device: r.device, Nodes: r.nodes}), Versions: document(t, coordinator.Versions{Inputs: inputs}),
			Started: float64(1000 + 100*i),
		}
		for n := range r.nodes {
			run.NodeIDs = append(run.NodeIDs, fit.NodeName(n))
		}
		require.NoError(t, db.StartRun(t.Context(), run))
		if r.state == "" {
			r.state = store.RunDone
		}
		for round := range c.Rounds {
			for _, node := range run.NodeIDs {
				require.NoError(t, db.Record(t.Context(), event.Event{Type: event.TypeRound, Run: run.Run, Node: node,
					Time: run.Started + float64(round), Round: &event.Round{Round: round, Reward: r.reward}}))
			}
		}
		require.NoError(t, db.Record(t.Context(), event.Event{Type: event.TypeRunEnded, Run: run.Run, Time: run.Started + 50, State: event.State(r.state)}))
		require.NoError(t, os.MkdirAll(filepath.Join(home, "runs", run.Run), 0o755))
	}
	require.NoError(t, db.Close())
	return home
}

func document(t *testing.T, v any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// up and sweep refuse settings that differ from a run's in the same words, even if the run is done.
func TestUpAndSweepRefuseAFinishedRunOfOtherSettings(t *testing.T) {
	t.Parallel()
	home := finishedRuns(t, finishedRun{args: []string{"--config", "8loc0ext", "--device", "cpu"}, nodes: 8})
	for _, x := range []struct {
		args []string
		want string // in the error's lines
	}{
		{[]string{"--nodes", "4"}, "  nodes 8 → 4\n"},
		{[]string{"--nodes", "4", "--temperature", "0.5"}, "  temperature 1 → 0.5\n  nodes 8 → 4\n"},
		{[]string{"--device", "cuda"}, "  device cpu → cuda\n"},
		{[]string{"--precision", "bf16"}, "  precision fp32 → bf16\n"},
		{[]string{"--rounds", "3"}, "Error: run 8loc0ext-1 has done 4 rounds of node_0 already, more than --rounds 3\n"},
		{[]string{"--nodes", "8"}, ""},
		{[]string{"--nodes", "max"}, ""},
		{[]string{"--device", "cpu", "--precision", "fp32"}, ""},
		{nil, ""},
	} {
		settings := append([]string{"--model", "nano", "--rounds", "4"}, x.args...)
		up := swarm(t, home, append([]string{"up", "--config", "8loc0ext"}, settings...)...)
		sweep := swarm(t, home, append([]string{"sweep", "8loc0ext", "--dry-run"}, settings...)...)
		if x.want == "" {
			require.Equal(t, 0, up.code, up.stderr)
			require.Contains(t, up.stdout, "8loc0ext-1 has already done all its 4 rounds.")
			require.Equal(t, 0, sweep.code, sweep.stderr)
			require.Contains(t, sweep.stdout, "done 1, failed 0")
			continue
		}
		require.Equal(t, 2, up.code, "%v: %s", x.args, up.stdout)
		require.Contains(t, up.stderr, x.want)
		require.Equal(t, 2, sweep.code, "%v: %s", x.args, sweep.stdout)
		head, _, _ := strings.Cut(up.stderr, "\nTry: ")
		require.Equal(t, head, sweep.stderr[:strings.Index(sweep.stderr, "\nTry: ")])
		require.NotContains(t, sweep.stderr, "--fresh", "sweep has no such flag")
	}
}

// Changed files make another experiment, even if the run is done.
func TestUpAndSweepRefuseAFinishedRunOfOtherQuestions(t *testing.T) {
	t.Parallel()
	questions := filepath.Join(t.TempDir(), "questions.jsonl")
	text, err := os.ReadFile(items())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(questions, text, 0o644))
	given := []string{"--set", "tasks.file=" + questions, "--device", "cpu", "--eval-questions", "0"}
	home := finishedRuns(t, finishedRun{args: append([]string{"--config", "8loc0ext"}, given...), nodes: 2})
	given = append([]string{"--model", "nano", "--rounds", "4"}, given...)
	up, sweep := append([]string{"up", "--config", "8loc0ext"}, given...), append([]string{"sweep", "8loc0ext", "--dry-run"}, given...)
	for _, command := range [][]string{up, sweep} {
		o := swarm(t, home, command...)
		require.Equal(t, 0, o.code, o.stderr)
	}
	require.NoError(t, os.WriteFile(questions, append(text, text...), 0o644))
	for _, command := range [][]string{up, sweep} {
		o := swarm(t, home, command...)
		require.Equal(t, 2, o.code, o.stdout)
		require.Contains(t, o.stderr, "Error: run 8loc0ext-1 cannot continue with other contents of tasks.file (sha256 ")
	}
}

// With auto, new runs may get other nodes, or another device, than an existing run. Then the sweep reports the
// difference and starts nothing.
func TestASweepRefusesRunsThatDifferInMoreThanTheirConfigurations(t *testing.T) {
	t.Parallel()
	config := func(name string, more ...string) []string { return append([]string{"--config", name}, more...) }
	sweep := func(home string, args ...string) outcome {
		return swarm(t, home, append([]string{"sweep", "8loc0ext", "4loc4ext", "--dry-run", "--model", "nano", "--rounds", "4"}, args...)...)
	}
	const what = "Error: the sweep would compare runs that differ in more than their configurations:\n"
	// swarm_size 4 limits auto to 4 nodes here.
	home := finishedRuns(t, finishedRun{args: config("8loc0ext"), nodes: 8})
	for _, seeds := range []string{"1", "2"} {
		o := sweep(home, "--swarm-size", "4", "--device", "cpu", "--seeds", seeds)
		require.Equal(t, 2, o.code, o.stdout)
		require.Contains(t, o.stderr, what+"  nodes: run 8loc0ext-1 of 8loc0ext seed 42 has 8\n  nodes: a new run of 4loc4ext seed 42 would have 4")
		require.Contains(t, o.stderr, "\nTry: --nodes 8 for all of them, or another --home, so that all runs are new\n")
	}
	o := sweep(home, "--nodes", "8")
	require.Equal(t, 0, o.code, o.stderr)

	home = finishedRuns(t, finishedRun{args: config("8loc0ext"), nodes: 8}, finishedRun{args: config("4loc4ext"), nodes: 8})
	o = sweep(home, "--swarm-size", "4")
	require.Equal(t, 0, o.code, "all have as many: %s", o.stderr)

	home = finishedRuns(t, finishedRun{args: config("8loc0ext"), nodes: 4, device: fit.DeviceCUDA})
	o = sweep(home, "--swarm-size", "4")
	require.Equal(t, 2, o.code, o.stdout)
	require.Contains(t, o.stderr, "  device: run 8loc0ext-1 of 8loc0ext seed 42 has cuda\n  device: a new run of 4loc4ext seed 42 would have cpu\n"+
		"  precision: run 8loc0ext-1 of 8loc0ext seed 42 has tf32\n  precision: a new run of 4loc4ext seed 42 would have fp32\n")
	require.Contains(t, o.stderr, "\nTry: another --home, so that all runs are new\n")
}

// A difference that the configurations themselves request is no reason to refuse, but it is reported.
func TestASweepSaysThatConfigurationsGetDifferentNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"two": "swarm_size: 2\nnum_train_samples: 4\n", "four": "swarm_size: 4\nnum_train_samples: 4\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text+"model: nano\nrounds: 4\ndevice: cpu\n"), 0o644))
	}
	files := []string{"sweep", filepath.Join(dir, "two.yaml"), filepath.Join(dir, "four.yaml"), "--dry-run"}
	home := finishedRuns(t, finishedRun{args: []string{"--config", files[1]}, nodes: 2})
	o := swarm(t, home, files...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stderr, "the configurations have different numbers of nodes (two 2, four 4): --nodes N gives all the same number")
	o = swarm(t, t.TempDir(), append(files, "--nodes", "2")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.NotContains(t, o.stderr, "different numbers of nodes")
}

// A run that another process makes during the sweep counts only if it matches the sweep.
func TestARunMadeOtherwiseMeanwhileDoesNotCount(t *testing.T) {
	t.Parallel()
	for nodes, code := range map[int]int{4: fail.ExitDone, 8: fail.ExitUsage} {
		home := finishedRuns(t)
		var o sweepOptions
		g := &globals{home: layout.Home(home), logger: slog.New(slog.DiscardHandler), stdout: &strings.Builder{}, stderr: &strings.Builder{}}
		flags, set := flagsOf(t, "--model", "nano", "--rounds", "4", "--device", "cpu", "--nodes", "4")
		o.Plan, o.Seeds, o.NodesGiven = flags, "1", set.Changed("nodes")
		host, err := g.studyHost(false)
		require.NoError(t, err)
		s, err := study.New(t.Context(), host, o.Options, []string{"8loc0ext", "4loc4ext"}, plan.Price{}, nil, false)
		require.NoError(t, err)
		made := finishedRuns(t, finishedRun{args: []string{"--config", "8loc0ext"}, nodes: nodes})
		for _, name := range []string{"swarm.db", "runs"} {
			require.NoError(t, os.RemoveAll(filepath.Join(home, name)))
			require.NoError(t, os.Rename(filepath.Join(made, name), filepath.Join(home, name)))
		}
		require.NoError(t, s.Open(t.Context()))
		t.Cleanup(s.Close)
		got, err := s.Turn(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, code, got)
		status, err := s.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, code == fail.ExitDone, status.Rows[0].State == store.RunDone)
		if code != fail.ExitDone {
			require.Contains(t, g.stderr.(*strings.Builder).String(), "8loc0ext seed 42 did not finish (run 8loc0ext-1 cannot continue with another configuration: nodes 8 → 4)")
		}
	}
}

// For tasks with the same names and weights, the refusal shows the differences, one per line, at most five.
func TestARefusalShowsWhatDiffersInTheMixture(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(text string) {
		require.NoError(t, os.WriteFile(file, []byte("model: nano\nrounds: 4\ndevice: cpu\ntasks:\n  mixture:\n"+text), 0o644))
	}
	write("  - {name: bf, params: {difficulty: 1}}\n  - {name: base_conversion, params: {min_base: 2, max_base: 10}}\n")
	home := finishedRuns(t, finishedRun{args: []string{"--config", file}, nodes: 2})
	write("  - {name: bf, params: {difficulty: 2}}\n  - {name: base_conversion, params: {min_base: 2, max_base: 16}}\n")
	o := swarm(t, home, "up", "--config", file)
	require.Equal(t, outcome{2, "", `Error: run mine-1 cannot continue with another configuration:
  tasks.mixture.bf.params.difficulty 1 → 2
  tasks.mixture.base_conversion.params.max_base 10 → 16
Try: the original values, --fresh for a new run of this experiment, or --name OTHER for another experiment
`}, o)
	o = swarm(t, home, "up", "--config", file, "--temperature", "0.5", "--beta", "0.1", "--epsilon", "0.1", "--top-k", "5", "--top-p", "0.5", "--nodes", "3")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "  epsilon 0.2 → 0.1\n  temperature 1 → 0.5\n  top_k 0 → 5\n  top_p 1 → 0.5\n  and 3 more\nTry: ")
}

// Defaults that planning resolves apply only to new runs: up and sweep resume a run with its own correction and random
// numbers of evaluations. A sweep does not compare runs made under another version's default with new ones.
func TestARunKeepsWhatAutoWasWhenItBegan(t *testing.T) {
	t.Parallel()
	settings := []string{"--model", "nano", "--rounds", "4", "--device", "cpu"}
	home := finishedRuns(t, finishedRun{args: []string{"--config", "4loc4ext", "--eval-draws", "shared"}, nodes: 2})
	up := swarm(t, home, append([]string{"up", "4loc4ext"}, settings...)...)
	require.Equal(t, 0, up.code, up.stderr)
	require.Contains(t, up.stdout, "4loc4ext-1 has already done all its 4 rounds.")
	up = swarm(t, home, append([]string{"up", "4loc4ext", "--external-correction", "importance"}, settings...)...)
	require.Equal(t, 2, up.code, up.stdout)
	require.Contains(t, up.stderr, `external_correction "none" → "importance"`)

	dry := func(args ...string) outcome {
		return swarm(t, home, append(append([]string{"sweep", "4loc4ext", "--dry-run", "--nodes", "2"}, settings...), args...)...)
	}
	one := dry()
	require.Equal(t, 0, one.code, one.stderr)
	require.Contains(t, one.stdout, "done 1, failed 0")
	two := dry("--seeds", "2")
	require.Equal(t, 2, two.code, two.stdout)
	require.Contains(t, two.stderr, "external_correction: run 4loc4ext-1 of 4loc4ext seed 42 has none\n"+
		"  external_correction: a new run of 4loc4ext seed 43 would have importance\n"+
		"  eval_draws: run 4loc4ext-1 of 4loc4ext seed 42 has shared\n"+
		"  eval_draws: a new run of 4loc4ext seed 43 would have node\n"+
		"Try: --external-correction none --eval-draws shared for all of them, or another --home, so that all runs are new\n")
	paper := dry("--seeds", "2", "--paper", "--eval-draws", "shared")
	require.Equal(t, 0, paper.code, paper.stderr)
	require.Contains(t, paper.stdout, "done 1, failed 0")
}
