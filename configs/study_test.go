package configs

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStudies(t *testing.T) {
	require.Equal(t, []string{
		"paper", "adaptive", "externals", "filter", "learning-rate", "mixed-models", "objective", "own-data", "pool", "swarm-size",
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
				require.Equal(t, s.Prefix(model)+s.Experiments[i].Name, full)
			}
		}
	}
	_, err := LoadStudy("papers")
	require.ErrorContains(t, err, `unknown study "papers": allowed: paper, adaptive, `)
}

func TestAStudysExperimentsAreNamedByModel(t *testing.T) {
	paper, err := LoadStudy("paper")
	require.NoError(t, err)
	for model, want := range map[string]string{
		"": "paper-8loc0ext", "nano": "paper-8loc0ext", "gpt2": "paper-gpt2-8loc0ext", "openai-community/gpt2": "paper-gpt2-8loc0ext",
		"Qwen/Qwen2.5-0.5B-Instruct": "paper-qwen2.5-0.5b-instruct-8loc0ext", "/models/mine": "paper-mine-8loc0ext",
		"owner/other model": "paper-other-model-8loc0ext", "./a/b/": "paper-b-8loc0ext",
	} {
		require.Equal(t, want, paper.ExperimentNames(model)[0], model)
	}
}

func TestAStudysSettings(t *testing.T) {
	gpt2, err := LoadModel("gpt2")
	require.NoError(t, err)
	paper, err := LoadStudy("paper")
	require.NoError(t, err)
	values, err := paper.Settings(gpt2, paper.Experiments[1])
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"experiment": "paper-gpt2-6loc2ext", "model": "gpt2", "rounds": 2000, "eval_every": 100, "eval_questions": 108, "eval_generations": 4,
	}, values, "the model's keys over the study's")
	require.Equal(t, 50, paper.Set["eval_every"], "the study itself stays as it was")

	rates, err := LoadStudy("learning-rate")
	require.NoError(t, err)
	for name, want := range map[string]any{"8loc0ext": nil, "8loc0ext-third": 3.33333e-6, "4loc4ext-triple": 3e-5} {
		e, err := rates.Experiment(name)
		require.NoError(t, err)
		values, err := rates.Settings(gpt2, e)
		require.NoError(t, err)
		require.Equal(t, want, values["learning_rate"], name)
	}

	mine := Model{Name: "mine", Weights: "/models/mine"}
	values, err = rates.Settings(mine, rates.Experiments[2])
	require.NoError(t, err)
	require.Equal(t, "/models/mine", values["model"])
	require.Equal(t, 3e-3, values["learning_rate"], "a folder without a rate of its own has the default's")
}

const goodStudy = `question: why?
baseline: a
measure: pass
seeds: 3
rounds: 10
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
		"rounds: 10 => round: 10":                                 "field round not found",
		"question: why? => question: ' '":                         "bad question",
		"measure: pass => measure: vibes":                         "allowed: pass, reward",
		"seeds: 3 => seeds: 0":                                    "allowed: 1 to 1000",
		"rounds: 10 => rounds: 0":                                 "allowed: at least 1",
		"eval_every: 5 => eval_evry: 5":                           `did you mean "eval_every"?`,
		"eval_every: 5 => eval_every: often":                      `bad eval_every "often"`,
		"eval_every: 5 => seed: 5":                                `bad set "seed"`,
		"gpt2: {rounds: 20} => gpt3: {rounds: 20}":                `bad models "gpt3"`,
		"gpt2: {rounds: 20} => gpt2: {rounds: -1}":                "bad models.gpt2.rounds",
		"gpt2: {rounds: 20} => gpt2: {set: {model: nano}}":        `bad models.gpt2.set "model"`,
		"name: b => name: a":                                      "each name once",
		"name: b => name: b/c":                                    "bad experiments",
		"config: 8loc0ext => config: 9loc0ext":                    `unknown config "9loc0ext"`,
		"nodes: 4 => nodes: -4":                                   "bad b.nodes",
		"learning_rate_factor: 2 => learning_rate_factor: -2":     "bad b.learning_rate_factor",
		"system_prompt: none => system_prmpt: none":               "unknown key",
		"[nano, gpt2] => [nano, gpt3]":                            `unknown model "gpt3"`,
		"[nano, gpt2]} => [nano, gpt2], learning_rate_factor: 3}": "with one model",
		"baseline: a => baseline: z":                              `unknown experiment of study bad "z": allowed: a, b, c`,
		goodStudy + " => []":                                      "cannot unmarshal",
		goodStudy + " => question: why?\nmeasure: eval\nseeds: 1\nrounds: 1\nbaseline: a": "bad experiments",
	} {
		before, after, _ := strings.Cut(change, " => ")
		require.Contains(t, goodStudy, before)
		_, err := parseStudy("bad", []byte(strings.Replace(goodStudy, before, after, 1)))
		var mistake *Error
		require.ErrorAs(t, err, &mistake, change)
		require.ErrorContains(t, err, want, change)
	}
}

// Runs of a study differ in what it asks about and in nothing else: its keys are set for all, or for one side.
func TestAStudysExperimentsDiffer(t *testing.T) {
	nano, err := LoadModel(NanoModel)
	require.NoError(t, err)
	for _, name := range Studies() {
		s, err := LoadStudy(name)
		require.NoError(t, err)
		var seen []string
		for _, e := range s.Experiments {
			values, err := s.Settings(nano, e)
			require.NoError(t, err)
			delete(values, "experiment")
			if len(e.Models) > 0 {
				values["models"] = strings.Join(e.Models, ",")
			}
			values["preset"], values["nodes"] = e.Config, s.NodesOf(e)
			text := show(values)
			require.False(t, slices.Contains(seen, text), "%s: %s is another's twin", name, e.Name)
			seen = append(seen, text)
		}
	}
}
