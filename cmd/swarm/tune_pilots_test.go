package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/cmd/swarm/swarmtest"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/metrics/stats/rates"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// finishedPilots is a home with pilots of 80 rounds of nano at three rates. Gradients of the highest grow, and the
// lowest learns less. Those of the middle one grow with the share of groups that have an advantage.
func finishedPilots(t *testing.T) (home string, args []string) {
	t.Helper()
	var runs []finishedRun
	for _, rate := range []string{"3.3e-5", "1e-4", "3e-4"} {
		runs = append(runs, finishedRun{nodes: 2, args: []string{
			"--config", "4loc4ext", "--device", "cpu", "--eval-questions", "0", "--rounds", "80", "--experiment", "tune-4loc4ext-lr" + rate, "--learning-rate", rate,
		}})
	}
	home = finishedRuns(t, runs...)
	db, err := sql.Open("sqlite3", filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer db.Close()
	for i, rate := range []string{"3.3e-5", "1e-4", "3e-4"} {
		_, err := db.Exec(`UPDATE rounds SET grad_norm = CASE WHEN round < 60 THEN 1.0 ELSE ? END, reward = ? + 0.01 * (round % 2),
trained_own = 4, trained_external = 0, frac_reward_zero_std = CASE WHEN round < 60 THEN 0.75 ELSE ? END WHERE run = ?`,
			[]float64{1.1, 1.75, 2.5}[i], []float64{0.1, 0.2, 0.3}[i], []float64{0.75, 0.6875, 0.75}[i], fmt.Sprintf("tune-4loc4ext-lr%s-%d", rate, i+1))
		require.NoError(t, err)
	}
	return home, []string{"tune", "--workload", "sapo", "4loc4ext", "--model", "nano", "--device", "cpu", "--nodes", "2",
		"--set", "eval_questions=0", "--set", "external_correction=none", "--rounds", "80"}
}

func TestTuneAdvisesALearningRate(t *testing.T) {
	t.Parallel()
	home, args := finishedPilots(t)
	o := swarm(t, home, args...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
	require.Equal(t, `
tune done: 3 of 3 pilots done: 4loc4ext, nano, 2 nodes, seed 42

learning rate  reward  behind                  norm growth  alarm     outcome
3.3e-5          0.105  0.100 (0.100 to 0.100)         1.10  no        lower reward
1e-4            0.205  –                              1.40  no        advised
3e-4            0.305  –                              2.50  round 79  gradients grow

reward       mean of a pilot's newest 20 rounds
behind       the best reward minus this one, with its 95 % interval over these rounds. A lower reward has an interval above 0
norm growth  mean gradient norm of these rounds, divided by that of rounds 20 to 60, and by the growth in the share
             of groups with an advantage, if few had one. The alarm is raised above 1.6

Advice: learning rate 1e-4. It is the highest of these rates without an alarm whose reward is not below the best by more than noise.
This is a hint, not a verdict: each rate has one seed, and the noise is that between rounds. Another seed may give another order.
80 rounds are few. Of 30 recorded runs of nano that collapsed 27 raised the alarm within 140 rounds, the earliest in round 79. In a trial 80 and 140 rounds gave different advice. The same command with --rounds 140 extends the pilots.

Train at it:
swarm --home HOME up 4loc4ext --device=cpu --model=nano --nodes=2 --set=eval_questions=0 --set=external_correction=none --learning-rate 1e-4

The norms by round:
swarm --home HOME curve tune-4loc4ext-lr3.3e-5 tune-4loc4ext-lr1e-4 tune-4loc4ext-lr3e-4 --metric grad_norm
`, strings.ReplaceAll(o.stdout, home, "HOME"))

	o = swarm(t, home, append(args, "-o", "json")...)
	require.Equal(t, 0, o.code, o.stderr)
	document := fields(t, decode(t, o.stdout), map[string]string{
		"workload": "string", "config": "string", "model": "string", "nodes": "number", "rounds": "number", "seed": "number", "state": "string",
		"exit_code": "number", "learning_rate": "number?", "pilots": "array", "alarm_factor": "number", "command": "string", "lines": "array", "sweep": "object",
	})
	for _, p := range document["pilots"].([]any) {
		fields(t, p, map[string]string{"learning_rate": "number", "experiment": "string", "run": "string", "done": "bool", "pass": "number?", "reward": "number?",
			"behind": "number?", "behind_ci_low": "number?", "behind_ci_high": "number?", "grad_norm_growth": "number?", "alarm_round": "number?", "outcome": "string"})
	}
	var d study.RateDocument
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	require.Equal(t, []any{1e-4, 2, 80, store.RunDone}, []any{*d.LearningRate, d.Nodes, d.Rounds, d.State})

	// Other rates: those that are done count, the others are left.
	o = swarm(t, home, append(args, "--rates", "1e-4,2e-4", "--dry-run")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "tune: 2 pilots of 80 rounds each, learning rates 1e-4 and 2e-4: 4loc4ext, nano, 2 nodes, seed 42\n")
	require.Regexp(t, `(?m)^tune-4loc4ext-lr1e-4 +42 +done +80/80 `, o.stdout)
	require.Regexp(t, `(?m)^tune-4loc4ext-lr2e-4 +42 +pending +0/80 `, o.stdout)
	o = swarm(t, home, append(args, "--rates", "1e-4,2e-4", "--dry-run", "-o", "json")...)
	require.Equal(t, 0, o.code, o.stderr)
	d = study.RateDocument{}
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	require.Equal(t, "planned", d.State)
	require.Nil(t, d.LearningRate)
	require.Equal(t, []string{rates.Possible, rates.Unfinished}, []string{d.Pilots[0].Outcome, d.Pilots[1].Outcome})

	// More rounds extend all.
	o = swarm(t, home, append(args, "--rounds", "140", "--dry-run")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t, `(?m)^tune-4loc4ext-lr3e-4 +42 +stopped +80/140 `, o.stdout)

	// Another configuration is not mixed with the recorded one.
	o = swarm(t, home, append(args, "--set", "temperature=0.5")...)
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "Error: tune-4loc4ext-lr3.3e-5 seed 42: run tune-4loc4ext-lr3.3e-5-1 cannot continue with another configuration:\n  temperature 1 → 0.5\n")
}

func TestBadRatesStartNothing(t *testing.T) {
	t.Parallel()
	rates := `Error: bad rates "RATES": allowed: 2 to 16 different numbers above 0 and up to 1, such as 3e-5,1e-4,3e-4` + "\n"
	cases := map[string]string{
		"--workload sapo --rounds 79":                           `Error: bad rounds "79" (--rounds): allowed: a whole number from 80, because the alarm compares the newest 20 rounds with rounds 20 to 60` + "\n",
		"--workload sapo --set rounds=5":                        `Error: bad rounds "5" (--set): allowed: a whole number from 80`,
		"--workload sapo --set learning_rate=1e-4":              `Error: bad learning_rate "0.0001" (--set): allowed: none: --rates sets it` + "\n",
		"--workload sapo --set experiment=x":                    `Error: bad experiment "x" (--set): allowed: none: pilots are named after their rates` + "\n",
		"--workload sapo --set n_negatives=8":                   `Error: unknown key "n_negatives" (--set)`,
		"--workload sapo --set x":                               `Error: bad set "x" (--set): allowed: key=value` + "\n",
		"--workload sapo 4loc4ext 8loc0ext":                     "Error: tune tries the learning rates of one configuration, not of 2\n",
		"--workload sapo 4loc5ext":                              `Error: unknown config "4loc5ext": did you mean "4loc4ext"?`,
		"--workload sapo none.yaml":                             "none.yaml",
		"--workload sapo --model nan":                           `Error: unknown model "nan"`,
		"--workload sapo --nodes none":                          `none`,
		"--workload sapo -o yaml":                               `Error: bad output "yaml": allowed: text or json` + "\n",
		"--workload sapo --gpu 1":                               "Error: the GPU is unknown: neither --auto nor --gpu-memory is given",
		"--auto --rates 1e-4,3e-4":                              "Error: --rates is for learning rates, which tune tries with --workload sapo and without --auto and --gpu-memory\n",
		"--gpu-memory 24 --workload sapo --nodes 4":             "Error: --nodes is for learning rates",
		"--gpu-memory 24 --workload naics-embedder --rounds 90": "Error: --rounds is for learning rates",
		"--gpu-memory 24 --workload sapo 4loc4ext":              `Error: swarm tune takes no argument "4loc4ext"`,
	}
	for _, text := range []string{"1e-4", "0,1e-4", "1e-4,2", "1e-4,1e-4", "1e-4,1.0e-4", "a,1e-4", ",", "1e-4,", "nan,1e-4", "-1e-4,1e-4",
		".01,.02,.03,.04,.05,.06,.07,.08,.09,.10,.11,.12,.13,.14,.15,.16,.17"} {
		cases["--workload sapo --rates "+text] = strings.ReplaceAll(rates, "RATES", text)
	}
	for args, want := range cases {
		home := t.TempDir()
		cmd := swarmCommand(t, home, append([]string{"tune", "--device", "cpu"}, strings.Fields(args)...)...)
		if !strings.HasPrefix(args, "--workload sapo") || strings.Contains(args, "--gpu") {
			cmd = swarmCommand(t, home, append([]string{"tune"}, strings.Fields(args)...)...)
		}
		cmd.Dir = t.TempDir()
		o := finish(t, cmd)
		require.Equal(t, 2, o.code, "%s: %s", args, o.stderr)
		require.Contains(t, o.stderr, want, args)
		require.Empty(t, o.stdout, args)
		require.NoDirExists(t, filepath.Join(home, "runs"), args)
	}
	o := swarm(t, t.TempDir(), "tune", "--workload", "sapo", "--device", "cpu", "--rates", "")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, strings.ReplaceAll(rates, "RATES", ""))
}

// Without CONFIG it is swarm.yaml, as for the batch size, or the baseline. Rates are a third of that configuration's
// rate, the rate and three times it.
func TestTheRatesAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := func(args ...string) string {
		cmd := swarmCommand(t, t.TempDir(), append([]string{"tune", "--workload", "sapo", "--device", "cpu", "--nodes", "2", "--dry-run"}, args...)...)
		cmd.Dir = dir
		o := finish(t, cmd)
		require.Equal(t, 0, o.code, o.stderr)
		return o.stdout
	}
	o := lines()
	require.Contains(t, o, "learning rates 3.3e-5, 1e-4 and 3e-4: 8loc0ext, nano, 2 nodes, seed 42\n", "the model's")
	require.Contains(t, o, "\ntune-8loc0ext-lr3.3e-5 ")
	o = lines("--model", "micro", "--seed", "7")
	require.Contains(t, o, "8loc0ext, micro, 2 nodes, seed 7\n")
	require.Contains(t, o, "\ntune-micro-8loc0ext-lr")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "swarm.yaml"), []byte("preset: 4loc4ext\nexperiment: mine\nlearning_rate: 5e-5\nrounds: 3\n"), 0o600))
	o = lines()
	require.Contains(t, o, "tune: 3 pilots of 140 rounds each, learning rates 1.7e-5, 5e-5 and 1.5e-4: swarm.yaml, nano, 2 nodes, seed 42\n")
	require.Contains(t, o, "\ntune-mine-lr1.7e-5 ")
	require.Contains(t, lines("8loc0ext"), "learning rates 3.3e-5, 1e-4 and 3e-4: 8loc0ext")
}

// A signal stops the pilot in order. The same command continues, and its pilots are runs like others.
func TestPilotsStopInOrderAndGoOn(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	args := []string{"tune", "--workload", "sapo", "4loc4ext", "--rates", "1e-3,2e-3", "--model", tinyModel(), "--device", "cpu", "--nodes", "1", "--rounds", "80"}
	for _, set := range []string{"tasks.file=" + items(), "num_train_samples=2", "num_transplant_trees=2", "num_generations=4", "max_prompt_length=32",
		"max_completion_length=24", "barrier_deadline=60", "eval_questions=3", "eval_every=0"} {
		args = append(args, "--set", set)
	}
	s := startSweep(t, home, args)
	awaitRounds(t, home, 1)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, waitFor(t, s.cmd), s.stderr.String())
	require.Contains(t, s.stderr.String(), "Stopping after a checkpoint of the pilot. Repeat to stop now.\n")
	out := <-s.stdout
	require.Contains(t, out, "tune: 2 pilots of 80 rounds each, learning rates 0.001 and 0.002: 4loc4ext, tiny, 1 node, seed 42\n")
	require.Contains(t, out, "tune: run 1 of 2: tune-tiny-4loc4ext-lr0.001 seed 42; done 0, failed 0")
	require.Contains(t, out, "tune stopped: 0 of 2 pilots done")
	require.Contains(t, out, "No advice yet: 2 of 2 pilots are not finished. The same command continues.\n")
	require.Equal(t, "stopped", status(t, home).State)
	requireNoProcess(t, home)
	resumed := swarmtest.Finish(t, swarmCommand(t, home, "resume"))
	require.Equal(t, 2, resumed.Code)
	require.Contains(t, resumed.Stderr, " tune --workload sapo 4loc4ext --rates 1e-3,2e-3 ")

	o := swarm(t, home, append(args, "-o", "json")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stderr, "tune: run 1 of 2: ")
	require.Contains(t, o.stderr, "tune: run 2 of 2: ")
	require.Regexp(t, `run 2 of 2: .*; done 1, failed 0; about `, o.stderr)
	var d study.RateDocument
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d), "one document, and nothing else: %s", o.stdout)
	require.Equal(t, "done", d.State)
	require.Len(t, d.Pilots, 2)
	for _, p := range d.Pilots {
		require.True(t, p.Done)
		require.NotNil(t, p.Reward)
		require.NotNil(t, p.Growth)
		require.NotNil(t, p.Pass)
		require.NotContains(t, []string{rates.Unfinished, rates.Unknown}, p.Outcome)
	}
	again := swarm(t, home, append(args, "-o", "json")...)
	require.Equal(t, 0, again.code, again.stderr)
	require.Equal(t, o.stdout, again.stdout, "nothing is left to do")
	require.NotContains(t, again.stderr, "tune: run")
	compared := swarm(t, home, "compare", d.Pilots[0].Experiment, d.Pilots[1].Experiment)
	require.Equal(t, 0, compared.code, compared.stderr)
	removed := swarm(t, home, "rm", "--yes", d.Pilots[0].Experiment)
	require.Equal(t, 0, removed.code, removed.stderr)
}
