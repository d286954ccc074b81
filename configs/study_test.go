package configs

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStudies(t *testing.T) {
	require.Equal(t, []string{
		"paper", "adaptive", "alternatives", "collapse", "control", "corrected", "corrections", "externals", "filter", "learning-rate", "mixed-models", "objective", "off-policy", "own-data", "pool",
		"sparse", "sparse-tags", "specialists", "swarm-size", "teacher",
	}, Studies())
	for _, name := range Studies() {
		s, err := LoadStudy(name)
		require.NoError(t, err)
		require.Equal(t, name, s.Name)
		require.GreaterOrEqual(t, s.Seeds, 3, "%s: fewer seeds decide nothing", name)
		for _, model := range append(Models(), "") {
			names := s.ExperimentNames(model)
			require.Len(t, names, len(s.Experiments))
			for i, full := range names {
				require.Regexp(t, experimentName, full)
				own := name + "-"
				if model != "" && model != NanoModel {
					own += model + "-"
				}
				other, theirs, shared := s.Experiments[i].other()
				if shared && (model != "gpt2" || other != "paper") { // paper has other rounds for gpt2
					require.Equal(t, other+strings.TrimPrefix(own, name)+theirs, full)
				} else {
					require.Equal(t, own+s.Experiments[i].Name, full)
				}
			}
		}
	}
	_, err := LoadStudy("papers")
	require.ErrorContains(t, err, `unknown study "papers": did you mean "paper"? Allowed: paper, adaptive, `)
}

// An experiment that two studies share runs once: the values that define it are the same in both.
func TestAnExperimentOfTwoStudiesIsTheSameInBoth(t *testing.T) {
	for _, name := range Studies() {
		s, err := LoadStudy(name)
		require.NoError(t, err)
		for i, e := range s.Experiments {
			if e.As == "" {
				continue
			}
			study, theirs, ok := e.other()
			require.True(t, ok, e.As)
			other, err := LoadStudy(study)
			require.NoError(t, err)
			for _, model := range []string{"", "gpt2", "gpt2-medium"} {
				m, err := LoadModel(cmp.Or(model, NanoModel))
				require.NoError(t, err)
				ours, err := s.Settings(model, m)
				require.NoError(t, err)
				if ours[i]["experiment"] != other.ExperimentName(model, theirs) {
					require.Equal(t, "gpt2", model, "%s %s", name, e.Name)
					require.NotEqual(t, other.With(model).Rounds, s.With(model).Rounds)
					continue
				}
				adopted, err := other.Settings(model, m)
				require.NoError(t, err)
				index := slices.IndexFunc(other.Experiments, func(o StudyExperiment) bool { return o.Name == theirs })
				all, err := stack(Values(Default()), m.Defaults, adopted[index])
				require.NoError(t, err)
				for key, value := range ours[i] {
					require.Equal(t, all[key], value, "%s of %s %s", key, name, e.Name)
				}
				require.Equal(t, other.NodesOf(other.Experiments[index]), s.NodesOf(e))
			}
		}
	}
}

func TestASharedExperimentIsAnothersAsItIs(t *testing.T) {
	text := "question: q\nbaseline: a\nmeasure: pass\nseeds: 3\nrounds: 300\nnodes: 8\n" +
		"set: {external_correction: none, external_filter: none, eval_every: 50, eval_questions: 108, eval_generations: 4, eval_draws: shared}\nexperiments:\n  - "
	s, err := parseStudy("mine", []byte(text+"{name: a, as: paper-4loc4ext}"))
	require.NoError(t, err)
	require.Equal(t, []StudyExperiment{{Name: "a", As: "paper-4loc4ext", Config: "4loc4ext"}}, s.Experiments)
	require.Equal(t, []string{"paper-4loc4ext"}, s.ExperimentNames(""))
	require.Equal(t, []string{"mine-gpt2-a"}, s.ExperimentNames("gpt2"))
	for experiment, want := range map[string]string{
		"{name: a, as: paper-4loc4ext, nodes: 4}": "only name beside it",
		"{name: a, as: mine-a}":                   "an experiment of another study",
		"{name: a, as: paper-5loc3ext}":           "5loc3ext",
		"{name: a, as: filter-filtered}":          "paper-4loc4ext, which it refers to itself",
	} {
		_, err := parseStudy("mine", []byte(text+experiment))
		require.ErrorContains(t, err, want)
	}
	_, err = parseStudy("mine", []byte(strings.Replace(text, "rounds: 300", "rounds: 100", 1)+"{name: a, as: paper-4loc4ext}"))
	require.ErrorContains(t, err, "a study with the same rounds, paper and set")
}

func TestAStudysExperimentsAreNamedByModel(t *testing.T) {
	paper, err := LoadStudy("paper")
	require.NoError(t, err)
	for model, want := range map[string]string{
		"": "paper-8loc0ext", "nano": "paper-8loc0ext", "gpt2": "paper-gpt2-8loc0ext", "openai-community/gpt2": "paper-gpt2-8loc0ext",
		"Qwen/Qwen2.5-0.5B-Instruct": "paper-qwen2.5-0.5b-instruct-8loc0ext", "/models/mine": "paper-mine-8loc0ext",
		"owner/other model": "paper-other-model-8loc0ext", "./a/b/": "paper-b-8loc0ext", "owner/id@rev": "paper-id-rev-8loc0ext",
		"./mine/nano": "paper-folder-nano-8loc0ext", "/x/GPT2": "paper-folder-GPT2-8loc0ext", "/": "paper-folder-8loc0ext",
		"/x/Qwen2.5-0.5B-Instruct":         "paper-folder-Qwen2.5-0-" + hashed("Qwen2.5-0.5B-Instruct") + "-8loc0ext",
		"a-name-of-four-and-twenty":        "paper-a-name-of-four-an-" + hashed("a-name-of-four-and-twenty") + "-8loc0ext",
		"/x/a-name-of-four-and-twentyfive": "paper-a-name-of-four-an-" + hashed("a-name-of-four-and-twentyfive") + "-8loc0ext",
	} {
		require.Equal(t, want, paper.ExperimentNames(model)[0], model)
	}
}

func hashed(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:6] }

func TestAStudysSettings(t *testing.T) {
	gpt2, err := LoadModel("gpt2")
	require.NoError(t, err)
	paper, err := LoadStudy("paper")
	require.NoError(t, err)
	settings, err := paper.Settings("gpt2", gpt2)
	require.NoError(t, err)
	want := map[string]any{
		"experiment": "paper-gpt2-6loc2ext", "model": "gpt2", "rounds": 2000, "eval_every": 100, "eval_questions": 108, "eval_generations": 4, "eval_draws": "shared",
		"num_train_samples": 6, "num_transplant_trees": 2, "num_generations": 8, "swarm_size": 8,
	}
	maps.Copy(want, PaperValues())
	want["external_sampling"] = SamplingAuto
	require.Equal(t, want, settings[1], "the paper's keys, the preset's over them, the study's, the model's over these")
	require.Equal(t, 50, paper.Set["eval_every"], "the study itself stays as it was")
	require.Equal(t, []string{"num_train_samples", "num_transplant_trees"}, Compared(settings))
	require.False(t, paper.ComparesNodes())

	rates, err := LoadStudy("learning-rate")
	require.NoError(t, err)
	settings, err = rates.Settings("gpt2", gpt2)
	require.NoError(t, err)
	for i, want := range []float64{1e-5, 3.33333e-6, 3e-5} {
		require.Equal(t, want, settings[i]["learning_rate"], rates.Experiments[i].Name)
	}
	nano, err := LoadModel(NanoModel)
	require.NoError(t, err)
	settings, err = rates.Settings("", nano)
	require.NoError(t, err)
	require.Equal(t, 3.33333e-05, settings[1]["learning_rate"], "a third of 0.0001, rounded to six digits")

	mine := Model{Name: "gpt2", Weights: "/models/gpt2"}
	settings, err = rates.Settings("../models/gpt2", mine)
	require.NoError(t, err)
	require.Equal(t, []any{"/models/gpt2", "learning-rate-folder-gpt2-8loc0ext-triple", 3e-3},
		[]any{settings[2]["model"], settings[2]["experiment"], settings[2]["learning_rate"]}, "a folder without a rate of its own has the default's")
	settings, err = paper.Settings("../models/gpt2", mine)
	require.NoError(t, err)
	require.Equal(t, 300, settings[0]["rounds"], "what the study has for the preset isn't for another model of its name")
	settings, err = paper.Settings("owner/id@rev", Model{Name: "owner/id", Weights: "/hub/snapshots/0a1b"})
	require.NoError(t, err)
	require.Equal(t, paper.ExperimentName("owner/id@rev", "8loc0ext"), settings[0]["experiment"], "of two revisions each has its own")
	require.Equal(t, "/hub/snapshots/0a1b", settings[0]["model"])
}

// All experiments have the same keys, so that a lower layer can't make two sides equal.
func TestAStudysExperimentsHaveTheSameKeys(t *testing.T) {
	for name, compared := range map[string][]string{
		"adaptive":    {"num_train_samples", "num_transplant_trees", "split", "split_alpha"},
		"control":     {"external_correction", "num_train_samples", "num_transplant_trees"},
		"corrected":   {"external_correction", "num_train_samples", "num_transplant_trees"},
		"externals":   {"external_sampling"},
		"filter":      {"zero_advantage_filter"},
		"objective":   {"epsilon_high", "num_iterations", "scale_rewards"},
		"off-policy":  {"external_advantage", "external_correction", "num_train_samples", "num_transplant_trees"},
		"own-data":    {"num_train_samples", "num_transplant_trees"},
		"pool":        {"external_lag"},
		"sparse":      {"external_correction", "num_train_samples", "num_transplant_trees"},
		"sparse-tags": {"external_correction", "num_train_samples", "num_transplant_trees"},
		"swarm-size":  {"swarm_size"}, "mixed-models": nil,
		"teacher": {"external_correction", "nodes.generate_only", "num_train_samples", "num_transplant_trees", "swarm_size"},
	} {
		s, err := LoadStudy(name)
		require.NoError(t, err)
		nano, err := LoadModel(NanoModel)
		require.NoError(t, err)
		settings, err := s.Settings("", nano)
		require.NoError(t, err)
		require.Equal(t, compared, Compared(settings), name)
		require.Equal(t, name == "swarm-size" || name == "teacher", s.ComparesNodes(), name)
		for i, values := range settings {
			for key := range settings[0] {
				require.Contains(t, values, key, "%s: %s", name, s.Experiments[i].Name)
			}
		}
	}
}

// A swarm of two has as many externals to draw from as its rounds train on, plus some that the filter may drop.
func TestThePoolOfTheSmallestSwarmIsLargeEnough(t *testing.T) {
	s, err := LoadStudy("swarm-size")
	require.NoError(t, err)
	for _, e := range s.Experiments {
		preset, err := Experiment(e.Config)
		require.NoError(t, err)
		own, external := preset["num_train_samples"].(int), preset["num_transplant_trees"].(int)
		require.GreaterOrEqual(t, own*(s.NodesOf(e)-1), 3*external, e.Name)
	}
}

// Sides with different numbers of nodes would differ in more than the study's question, because a GPU with a neighbor
// holds fewer nodes.
func TestAStudySaysHowManyNodes(t *testing.T) {
	for _, name := range Studies() {
		s, err := LoadStudy(name)
		require.NoError(t, err)
		for _, e := range s.Experiments {
			require.Positive(t, s.NodesOf(e), "%s: %s", name, e.Name)
		}
		want := map[string]int{"swarm-size": 2, "teacher": 7}[name]
		require.Equal(t, cmp.Or(want, 8), s.NodesOf(s.Experiments[0]), name)
	}
	s, err := parseStudy("good", []byte(goodStudy))
	require.NoError(t, err)
	require.Equal(t, []int{2, 4, 2}, []int{s.NodesOf(s.Experiments[0]), s.NodesOf(s.Experiments[1]), s.NodesOf(s.Experiments[2])})
}

const goodStudy = `question: why?
baseline: a
measure: pass
seeds: 3
rounds: 10
nodes: 2
set: {eval_every: 5}
models:
  gpt2: {rounds: 20}
experiments:
  - {name: a, config: 8loc0ext}
  - {name: b, config: 4loc4ext, nodes: 4, learning_rate_factor: 2, set: {tasks: {system_prompt: none}}}
  - {name: c, config: 4loc4ext, models: [nano, gpt2]}
`

func TestABadStudyIsRefused(t *testing.T) {
	s, err := parseStudy("good", []byte(goodStudy))
	require.NoError(t, err)
	require.True(t, s.FixesModels())
	for change, want := range map[string]string{
		"rounds: 10 => round: 10":                                             `unknown key "round" (line 5): did you mean "rounds"?`,
		"question: why? => question: ' '":                                     "bad question",
		"measure: pass => measure: vibes":                                     "allowed: pass, reward",
		"seeds: 3 => seeds: 0":                                                "allowed: 1 to 1000",
		"nodes: 2 => nodes: -2":                                               `bad nodes "-2"`,
		"rounds: 10 => rounds: 0":                                             "allowed: at least 1",
		"eval_every: 5 => eval_evry: 5":                                       `did you mean "eval_every"?`,
		"eval_every: 5 => eval_every: often":                                  `bad eval_every "often"`,
		"eval_every: 5 => seed: 5":                                            `bad set "seed"`,
		"gpt2: {rounds: 20} => gpt3: {rounds: 20}":                            `bad models "gpt3"`,
		"gpt2: {rounds: 20} => gpt2: {rounds: -1}":                            "bad models.gpt2.rounds",
		"gpt2: {rounds: 20} => gpt2: {set: {model: nano}}":                    `bad models.gpt2.set "model"`,
		"name: b => name: a":                                                  "each name once",
		"name: b => name: b/c":                                                "bad experiments",
		"config: 8loc0ext => config: 9loc0ext":                                `unknown config "9loc0ext"`,
		"nodes: 4 => nodes: -4":                                               "bad b.nodes",
		"learning_rate_factor: 2 => learning_rate_factor: -2":                 "bad b.learning_rate_factor",
		"system_prompt: none => system_prmpt: none":                           "unknown key",
		"[nano, gpt2] => [nano, gpt3]":                                        `unknown model "gpt3"`,
		"[nano, gpt2]} => [nano, gpt2], learning_rate_factor: 3}":             "for one model only",
		"[nano, gpt2]} => [nano, ./mine]}":                                    `unknown model "./mine"`,
		"[nano, gpt2]} => [./mine, gpt2], set: {nodes: {generate_only: 2}}}":  `bad c.models "./mine, gpt2" (study bad): allowed: the model of a node that trains`,
		"[nano, gpt2]} => [./mine, gpt2], set: {nodes: {generate_only: -1}}}": `bad a.models "" (study bad): allowed: presets, or in every`,
		"[nano, gpt2]} => [./mine]}":                                          "the one folder that its nodes train: [./mine]",
		"baseline: a => baseline: z":                                          `unknown experiment of study bad "z": allowed: a, b, c`,
		goodStudy + " => ":                                                    `bad study "bad": the file is empty`,
		"rounds: => ruonds:":                                                  `unknown key "ruonds" (line `,
		goodStudy + " => name: x":                                             `unknown key "name" (line 1): allowed: question, baseline, measure, seeds`,
		goodStudy + " => []":                                                  "cannot unmarshal",
		goodStudy + " => question: why?\nmeasure: pass\nseeds: 1\nrounds: 1\nbaseline: a": "bad experiments",
	} {
		before, after, _ := strings.Cut(change, " => ")
		require.Contains(t, goodStudy, before)
		_, err := parseStudy("bad", []byte(strings.Replace(goodStudy, before, after, 1)))
		var mistake *Error
		require.ErrorAs(t, err, &mistake, change)
		require.ErrorContains(t, err, want, change)
	}
}

// The nodes of a swarm with a teacher that train have the same settings as those of one without, whatever the teacher's
// model is.
func TestATeachersModelChangesNoSettingOfTheOthers(t *testing.T) {
	s, err := LoadStudy("teacher")
	require.NoError(t, err)
	require.Equal(t, []string{"./teacher"}, s.Folders())
	nano, err := LoadModel(NanoModel)
	require.NoError(t, err)
	settings, err := s.Settings("", nano)
	require.NoError(t, err)
	taught := settings[2]
	require.Equal(t, []any{"./teacher", "./teacher,nano,nano,nano,nano,nano,nano,nano", 1, 8}, []any{taught["model"], taught["models"], taught["nodes.generate_only"],
		s.NodesOf(s.Experiments[2])})
	require.Equal(t, []any{"nano", 1e-4, 48, "none"}, []any{taught["tasks.set"], taught["learning_rate"], taught["max_completion_length"], taught["tasks.system_prompt"]})
	for key, value := range settings[1] {
		if !slices.Contains([]string{"experiment", "model", "nodes.generate_only", "swarm_size"}, key) {
			require.Equal(t, value, taught[key], key)
		}
	}
	require.NotContains(t, taught, "micro_batch", "each model has its own")
	for _, e := range s.Experiments {
		require.Equal(t, []string{"nano"}, s.Trained(e))
	}
}

// All nodes of a study may train one base in a folder. The names of the experiments do not contain it.
func TestNodesMayTrainABaseInAFolder(t *testing.T) {
	s, err := LoadStudy("sparse-tags")
	require.NoError(t, err)
	require.Equal(t, []any{"./sparse-tags", []string{"./sparse-tags"}, true}, []any{s.Base(), s.Folders(), s.FixesModels()})
	base := Model{Name: "sparse-tags", Weights: "/w/sparse-tags", Defaults: map[string]any{"learning_rate": 2e-4}}
	settings, err := s.Settings("", base)
	require.NoError(t, err)
	for i, values := range settings {
		require.Equal(t, "sparse-tags-"+s.Experiments[i].Name, values["experiment"])
		require.Equal(t, []any{"/w/sparse-tags", nil}, []any{values["model"], values["models"]})
	}
	own, err := parseStudy("own", []byte(strings.NewReplacer("[nano, gpt2]", "[./mine]", "a, config: 8loc0ext", "a, config: 8loc0ext, models: [./mine]",
		"b, config: 4loc4ext", "b, config: 4loc4ext, models: [./mine]").Replace(goodStudy)))
	require.NoError(t, err)
	settings, err = own.Settings("", base)
	require.NoError(t, err)
	require.Equal(t, 4e-4, settings[1]["learning_rate"], "twice the base's rate")
}

// Runs of a study differ only in what its question is about. Its keys are set for all experiments, or for one.
func TestAStudysExperimentsDiffer(t *testing.T) {
	nano, err := LoadModel(NanoModel)
	require.NoError(t, err)
	for _, name := range Studies() {
		s, err := LoadStudy(name)
		require.NoError(t, err)
		var seen []string
		settings, err := s.Settings("", nano)
		require.NoError(t, err)
		for i, e := range s.Experiments {
			values := settings[i]
			delete(values, "experiment")
			if len(e.Models) > 0 {
				values["models"] = strings.Join(e.Models, ",")
			}
			values["nodes"] = s.NodesOf(e)
			text := fmt.Sprint(values)
			require.False(t, slices.Contains(seen, text), "%s: %s is another's twin", name, e.Name)
			seen = append(seen, text)
		}
	}
}

// A built-in study sets the correction and filter of others' rollouts itself. Its stored runs stay valid when the
// defaults change.
func TestTheProgramsStudiesPinTheirCorrections(t *testing.T) {
	nano, err := LoadModel(NanoModel)
	require.NoError(t, err)
	for _, name := range Studies() {
		s, err := LoadStudy(name)
		require.NoError(t, err)
		settings, err := s.Settings("", nano)
		require.NoError(t, err)
		for i, values := range settings {
			want := CorrectionNone
			if own, ok := s.Experiments[i].Set["external_correction"].(string); ok {
				want = own
			}
			require.Equal(t, want, values["external_correction"], "%s: %s", name, s.Experiments[i].Name)
			require.NotEqual(t, CorrectionAuto, values["external_correction"])
			require.Equal(t, FilterNone, values["external_filter"], "%s: %s", name, s.Experiments[i].Name)
		}
	}
}
