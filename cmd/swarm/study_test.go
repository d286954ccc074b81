package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/study"
	models "github.com/sapo-swarm/swarm/node/model"
)

// flagsOf returns plan.Options after parsing a command line.
func flagsOf(t *testing.T, args ...string) (plan.Options, *pflag.FlagSet) {
	t.Helper()
	var p plan.Options
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	addPlanFlags(f, &p)
	require.NoError(t, f.Parse(args))
	return p, f
}

// Every experiment of every study is a valid configuration, and the swarm up that a sweep starts resolves the same
// one.
func TestEveryStudyCanBeRun(t *testing.T) {
	t.Parallel()
	for _, name := range configs.Studies() {
		design, err := configs.LoadStudy(name)
		require.NoError(t, err)
		for _, model := range []string{"", "gpt2"} {
			if len(design.Folders()) > 0 {
				continue // TestAStudyThatNeedsAModelCanBeRun
			}
			t.Run(name+"/"+model, func(t *testing.T) {
				t.Parallel()
				studyCanBeRun(t, design, model)
			})
		}
	}
}

// The studies teacher and sparse-tags need a model in a folder. Without it they are refused.
func TestAStudyThatNeedsAModelCanBeRun(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, command := range map[string]string{
		"teacher":     "swarm up 8loc0ext --model nano --name teacher --nodes 1 --rounds 300 --seed 1000 && swarm model save teacher node_0 ./teacher",
		"sparse-tags": "swarm pretrain --model nano --tag-share 0.02 --out ./sparse-tags",
	} {
		design, err := configs.LoadStudy(name)
		require.NoError(t, err)
		o := swarm(t, t.TempDir(), "sweep", "--study", name, "--dry-run")
		require.Equal(t, 2, o.code, o.stdout)
		require.Equal(t, fmt.Sprintf("Error: study %[1]s needs a model in ./%[1]s: make it first: %[2]s\n", name, command), o.stderr)
		require.NoError(t, os.Mkdir(name, 0o755))
		require.NoError(t, os.WriteFile(name+"/config.json",
			[]byte(`{"model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 256, "vocab_size": 257}`), 0o600))
		studyCanBeRun(t, design, "")
		studyCanBeRun(t, design, "gpt2")
	}
}

func studyCanBeRun(t *testing.T, design configs.Study, model string) {
	t.Helper()
	given := []string{"--eval-questions", "27"}
	if model != "" {
		given = append(given, "--model", model)
	}
	user, _ := flagsOf(t, given...)
	loaded, err := study.Load(design.Name, &user.Config, false)
	if model != "" && design.FixesModels() {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	sources, err := loaded.Sources()
	require.NoError(t, err)
	own, err := models.Find(cmp.Or(model, design.Base(), configs.NanoModel))
	require.NoError(t, err)
	settings, err := loaded.Settings(model, own)
	require.NoError(t, err)
	environ := []string{"NUM_TRAIN_SAMPLES=3", "NUM_TRANSPLANT_TREES=1", "NUM_GENERATIONS=2", "SWARM_SWARM_SIZE=9"}
	for _, key := range configs.Compared(settings) { // if it has an effect, every experiment equals the last
		found, err := configs.FindKey(key)
		require.NoError(t, err)
		environ = append(environ, fmt.Sprintf("%s=%v", found.EnvironmentName(), settings[len(settings)-1][key]))
	}
	for _, source := range sources {
		here := study.OptionsOf(user, source, false)
		c, _, _, err := configSources(nil, true).Config(&here.Config)
		require.NoError(t, err, source.Name)
		require.Equal(t, source.Name, c.Experiment)
		require.Equal(t, 27, c.EvalQuestions, "the user's flags win")
		same, _, _, err := configSources(environ, true).Config(&here.Config)
		require.NoError(t, err)
		require.Equal(t, c, same, "%s: an environment doesn't change what is compared", source.Name)

		args := study.UpArguments("/h", source, c.Seed, 0, given, false)
		there, _ := flagsOf(t, args[2:]...)
		child, _, _, err := configSources(nil, true).Config(&there.Config)
		require.NoError(t, err)
		require.Equal(t, c, child, source.Name)
		require.Equal(t, here.Nodes, there.Nodes)
	}
}

func TestFlagsWinOverAStudy(t *testing.T) {
	t.Parallel()
	var none resolve.Flags
	loaded, err := study.Load("swarm-size", &none, false)
	require.NoError(t, err)
	sources, err := loaded.Sources()
	require.NoError(t, err)
	user, _ := flagsOf(t, "--rounds", "7", "--set", "num_iterations=2")
	flags := study.OptionsOf(user, sources[0], false)
	c, _, _, err := configSources([]string{"SWARM_EVAL_EVERY=9", "SWARM_SWARM_SIZE=9"}, true).Config(&flags.Config)
	require.NoError(t, err)
	require.Equal(t, []int{7, 2, 50, 2}, []int{c.Rounds, c.NumIterations, c.EvalEvery, c.SwarmSize}, "and a study over the environment")
	require.Equal(t, "2", flags.Nodes)
	require.Equal(t, "auto", study.OptionsOf(user, sources[0], true).Nodes, "the user asked for --nodes auto")
	require.False(t, user.Config.Keys[0].Given, "the user's flags stay as they were")
}

func TestTheEnvironmentDoesNotWinOverAStudysPresets(t *testing.T) {
	t.Parallel()
	var none resolve.Flags
	loaded, err := study.Load("paper", &none, false)
	require.NoError(t, err)
	sources, err := loaded.Sources("2loc6ext", "8loc0ext")
	require.NoError(t, err)
	require.Equal(t, []string{"paper-8loc0ext", "paper-2loc6ext"}, []string{sources[0].Name, sources[1].Name}, "those named, in the study's order")
	require.Len(t, sources, 2)
	user, _ := flagsOf(t)
	flags := study.OptionsOf(user, sources[0], false)
	c, _, _, err := configSources([]string{"NUM_TRAIN_SAMPLES=4"}, true).Config(&flags.Config)
	require.NoError(t, err)
	require.Equal(t, []any{"paper-8loc0ext", 8, 0}, []any{c.Experiment, c.NumTrainSamples, c.NumTransplantTrees})
	require.Equal(t, "8", flags.Nodes)
}

func TestAStudyIsRefusedBesideWhatItDecides(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for want, args := range map[string][]string{
		`study paper has no experiment "adaptive": it has 8loc0ext, 6loc2ext, 4loc4ext, 2loc6ext`: {"sweep", "8loc0ext", "adaptive", "--study", "paper"},
		"sweep needs at least one configuration, or a study":                                      {"sweep"},
		`unknown study "papers" (--study)`:                                                        {"sweep", "--study", "papers"},
		"a study sets the models of its nodes":                                                    {"sweep", "--study", "paper", "--models", "nano,gpt2"},
		"study mixed-models takes no model":                                                       {"sweep", "--study", "mixed-models", "--model", "nano"},
		"sweep takes no --experiment":                                                             {"sweep", "--study", "paper", "--experiment", "mine"},
		`bad seeds "none"`:                                                                        {"sweep", "--study", "paper", "--seeds", "none"},
		"--study and --config":                                                                    {"plan", "--study", "paper", "--config", "8loc0ext"},
		"--seeds needs --study":                                                                   {"plan", "--seeds", "3"},
		`bad price "much"`:                                                                        {"plan", "--study", "paper", "--price", "much"},
		"--study and --name":                                                                      {"plan", "--study", "paper", "--name", "mine"},
		`bad learning_rate "0.001" (--learning-rate): allowed: none: study learning-rate compares values of it`: {
			"sweep", "--study", "learning-rate", "--learning-rate", "0.001"},
		`bad num_train_samples "4" (--set): allowed: none: study paper compares`: {"sweep", "--study", "paper", "--set", "num_train_samples=4"},
		`bad num_transplant_trees "4" (--num-transplant-trees)`:                  {"plan", "--study", "own-data", "--num-transplant-trees", "4"},
		`bad zero_advantage_filter "true" (--zero-advantage-filter)`:             {"plan", "--study", "filter", "--zero-advantage-filter"},
		`bad external_correction "importance" (--external-correction): allowed: none: study paper sets none. For another value write a study of your own`: {
			"sweep", "--study", "paper", "--external-correction", "importance"},
		`bad epsilon "0.1" (--epsilon): allowed: none: study paper sets 0.2.`:  {"sweep", "--study", "paper", "--epsilon", "0.1"},
		`bad beta "0.1" (--beta): allowed: none: study objective sets 0.`:      {"sweep", "--study", "objective", "--beta", "0.1"},
		`bad num_generations "4" (--set): allowed: none: study sparse sets 2.`: {"sweep", "--study", "sparse", "--set", "num_generations=4"},
		"--nodes conflicts with study swarm-size: remove it":                   {"sweep", "--study", "swarm-size", "--nodes", "4"},
		"--nodes conflicts with study swarm-size":                              {"plan", "--study", "swarm-size", "--nodes", "auto"},
	} {
		o := swarm(t, home, args...)
		require.Equal(t, 2, o.code, "%v: %s", args, o.stderr)
		require.Contains(t, o.stderr, want)
	}
}

// The plan of GPT-2's study on an absent card: time and money, marked as not measured.
func TestAPlanOfAStudySaysWhereItsFiguresAreFrom(t *testing.T) {
	t.Parallel()
	var x study.Cost
	plan := func(args ...string) {
		o := swarm(t, t.TempDir(), append([]string{"plan", "--study", "paper", "-o", "json"}, args...)...)
		require.Equal(t, 0, o.code, o.stderr)
		x = study.Cost{}
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &x))
	}
	plan("--model", "gpt2", "--gpu-memory", "80GB", "--price", "$2/h")
	require.Equal(t, 20, x.Runs)
	require.Len(t, x.Experiments, 4)
	total := 0.0
	for _, e := range x.Experiments {
		require.Equal(t, []int{8, 2000, 21}, []int{e.Nodes, e.Rounds, e.Evaluations}, e.Experiment)
		require.Equal(t, "first principles", e.Source)
		require.Contains(t, e.From, "not measured")
		require.InDelta(t, *e.LoadingSeconds+2000**e.RoundSeconds+21**e.EvalSeconds, *e.Seconds, 1e-6)
		total += 5 * *e.Seconds
	}
	require.InDelta(t, total, *x.Seconds, 1e-6)
	require.InDelta(t, 2*total/3600, *x.Cost, 1e-6)
	small := swarm(t, t.TempDir(), "plan", "--study", "paper", "--model", "gpt2", "--gpu-memory", "15GB")
	require.Equal(t, fail.ExitNoRoom, small.code, "not with fewer nodes: "+small.stdout)
	require.Contains(t, small.stderr, "does not fit: 8 nodes of gpt2")
	first, last := x.Experiments[0], x.Experiments[3] // 8/0 and 2/6
	require.InEpsilon(t, first.Round.Update, last.Round.Update, 1e-9, "all splits train on as much")
	require.Greater(t, first.Round.Generate, 1.5*last.Round.Generate, "and decode what is their own")

	plan("--model", "nano", "--device", "cpu", "--seeds", "5")
	require.Equal(t, 20, x.Runs)
	require.Nil(t, x.Seconds)
	require.Nil(t, x.Cost)
	for _, e := range x.Experiments {
		require.Nil(t, e.RoundSeconds)
		require.Contains(t, e.From, "unknown: no similar run")
	}
}

// The same command resumes an interrupted study, under the experiments' recorded names. A study that has changed
// since is not mixed with it.
func TestAStudyIsInterruptedAndGoesOn(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	args := func(rounds int, more ...string) []string {
		list := append([]string{"sweep", "--study", "filter", "--seeds", "1"}, tinyRun("--rounds", strconv.Itoa(rounds))...)
		return append(list, more...)
	}
	filter, err := configs.LoadStudy("filter")
	require.NoError(t, err)
	s := startSweep(t, home, args(1000, "-o", "json"))
	awaitRounds(t, home, 1)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, waitFor(t, s.cmd), s.stderr.String())
	require.Len(t, parseSweep(t, <-s.stdout).order(), 1)
	rounds := status(t, home).Round + 6

	again := swarm(t, home, args(rounds, "-o", "json")...)
	require.Equal(t, 0, again.code, again.stderr)
	out := parseSweep(t, again.stdout)
	require.Equal(t, 2, out.summary.Done)
	require.Len(t, out.order(), 2)
	require.Equal(t, filter.ExperimentNames(tinyModel()), []string{out.summary.Rows[0].Experiment, out.summary.Rows[1].Experiment})

	done := swarm(t, home, args(rounds)...)
	require.Equal(t, 0, done.code, done.stderr)
	require.NotContains(t, done.stdout, "sweep: run")
	require.Contains(t, done.stdout, "ndecided") // without an evaluation
	require.Contains(t, done.stdout, " report --study filter --model "+tinyModel())
	for want, changed := range map[string][]string{
		"temperature 1 → 0.5":    {"--temperature", "0.5"},
		"top_p 1 → 0.9":          {"--set", "top_p=0.9"},
		"eval_generations 4 → 2": {"--eval-generations", "2"},
	} {
		o := swarm(t, home, args(rounds, changed...)...)
		require.Equal(t, 2, o.code, o.stdout)
		require.Contains(t, o.stderr, want)
		require.Contains(t, o.stderr, "or another --home for the new ones")
	}

	o := swarm(t, home, append([]string{"plan", "--study", "filter", "-o", "json"}, tinyRun("--rounds", "1000")...)...)
	require.Equal(t, 0, o.code, o.stderr)
	var x study.Cost
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &x))
	for _, e := range x.Experiments {
		require.Equal(t, "measured", e.Source, e.From)
		require.Positive(t, *e.RoundSeconds)
		require.GreaterOrEqual(t, *e.Seconds, 1000**e.RoundSeconds)
	}
	require.NotNil(t, x.Seconds)
}
