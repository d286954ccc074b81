package resolve

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
)

// resolve parses arguments like a command and resolves the configuration.
func resolve(args, environ []string, hasCUDA bool) (configs.Config, configs.Model, []string, error) {
	var f Flags
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return configs.Config{}, configs.Model{}, nil, err
	}
	return Sources{Environ: environ, HasCUDA: hasCUDA, FindModel: findModel, Known: []string{"SWARM_HOME", "SWARM_PYTHON", "SWARM_PRICE"}}.Config(&f)
}

// findModel finds presets and folders, like node/model.
func findModel(name string) (configs.Model, error) {
	m, err := configs.LoadModel(name)
	text, missing := os.ReadFile(filepath.Join(name, "config.json"))
	if err == nil || missing != nil {
		return m, err
	}
	return configs.ParseModel(filepath.Base(name), name, text)
}

func writeFile(t require.TestingT, path, text string) string {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestConfigPrecedence(t *testing.T) {
	nano, err := configs.LoadModel("nano")
	require.NoError(t, err)
	nanoRate := nano.Defaults["learning_rate"].(float64)
	file := writeFile(t, filepath.Join(t.TempDir(), "exp.yaml"), "num_train_samples: 3\nlearning_rate: 0.5\nmodel: nano\n")
	started := writeFile(t, filepath.Join(t.TempDir(), "started.yaml"), "preset: 2loc6ext\nnum_train_samples: 5\n")
	tests := []struct {
		name         string
		args         []string
		environ      []string
		cuda         bool
		i, j         int
		rate         float64
		model        string
		preset, exp  string
		promptLength int
	}{
		{name: "defaults, no GPU", i: 8, j: 0, rate: nanoRate, model: "nano", exp: "default", promptLength: 192},
		{name: "defaults, GPU", cuda: true, i: 8, j: 0, rate: 1e-5, model: "gpt2", exp: "default", promptLength: 768},
		{name: "GPU not wanted", cuda: true, args: []string{"--device", "cpu"}, i: 8, rate: nanoRate, model: "nano", exp: "default", promptLength: 192},
		{name: "the file over the model", args: []string{"--config", file}, cuda: true, i: 3, rate: 0.5, model: "nano", exp: "exp", promptLength: 192},
		{name: "the preset over the file", args: []string{"--config", file + ",4loc4ext"}, i: 4, j: 4, rate: 0.5, model: "nano", preset: "4loc4ext", exp: "4loc4ext", promptLength: 192},
		{name: "in either order", args: []string{"--config", "4loc4ext", "--config", file}, i: 4, j: 4, rate: 0.5, model: "nano", preset: "4loc4ext", exp: "4loc4ext", promptLength: 192},
		{name: "the file over the preset it names", args: []string{"--config", started}, i: 5, j: 6, rate: nanoRate, model: "nano", preset: "2loc6ext", exp: "started", promptLength: 192},
		{name: "a preset on the command line over the file's", args: []string{"--config", started, "--preset", "6loc2ext"}, i: 6, j: 2, rate: nanoRate, model: "nano", preset: "6loc2ext", exp: "6loc2ext", promptLength: 192},
		{name: "the environment over the preset", args: []string{"--config", "4loc4ext"}, environ: []string{"SWARM_NUM_TRAIN_SAMPLES=6", "SWARM_EXPERIMENT=e"}, i: 6, j: 4, rate: nanoRate, model: "nano", preset: "4loc4ext", exp: "e", promptLength: 192},
		{name: "flags over the environment", args: []string{"--num-train-samples", "7", "--name", "f"}, environ: []string{"SWARM_NUM_TRAIN_SAMPLES=6", "SWARM_EXPERIMENT=e"}, i: 7, rate: nanoRate, model: "nano", exp: "f", promptLength: 192},
		{name: "set over flags", args: []string{"--num-train-samples", "7", "--set", "num_train_samples=2"}, i: 2, rate: nanoRate, model: "nano", exp: "default", promptLength: 192},
		{name: "the predecessor's names", environ: []string{"EXPERIMENT_NAME=old", "MODEL_NAME=openai-community/gpt2", "NUM_TRAIN_SAMPLES=4", "NUM_TRANSPLANT_TREES=4", "NODE_ID=node_0", "GDRIVE_PATH=/drive", "NODE_ROLE=worker"}, i: 4, j: 4, rate: 1e-5, model: "gpt2", exp: "old", promptLength: 768},
		{name: "ours over the predecessor's", environ: []string{"SWARM_MODEL=nano", "MODEL_NAME=gpt2", "NUM_TRAIN_SAMPLES="}, i: 8, rate: nanoRate, model: "nano", exp: "default", promptLength: 192},
		{name: "what many shells export is not rl-swarm's", environ: []string{"SEED=7", "MODEL_NAME=gpt2", "MAX_ROUNDS="}, i: 8, rate: nanoRate, model: "nano", exp: "default", promptLength: 192},
		{name: "rl-swarm's left out", args: []string{"--ignore-rl-swarm-env"}, environ: []string{"EXPERIMENT_NAME=old", "MODEL_NAME=gpt2", "SWARM_NUM_TRAIN_SAMPLES=6"}, i: 6, rate: nanoRate, model: "nano", exp: "default", promptLength: 192},
		{name: "the model of a flag over the file's", args: []string{"--config", file, "--model", "gpt2"}, i: 3, rate: 0.5, model: "gpt2", exp: "exp", promptLength: 768},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, m, warnings, err := resolve(test.args, test.environ, test.cuda)
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.Equal(t, test.i, c.NumTrainSamples)
			require.Equal(t, test.j, c.NumTransplantTrees)
			require.InDelta(t, test.rate, c.LearningRate, 0)
			require.Equal(t, test.model, c.Model)
			require.Equal(t, test.model, m.Name)
			require.Equal(t, test.preset, c.Preset)
			require.Equal(t, test.exp, c.Experiment)
			require.Equal(t, test.promptLength, c.MaxPromptLength)
		})
	}
}

func TestConfigPresets(t *testing.T) {
	for _, experiment := range configs.Experiments() {
		for _, model := range configs.Models() {
			c, m, _, err := resolve([]string{"--config", experiment, "--model", model}, nil, false)
			require.NoError(t, err)
			require.Equal(t, experiment, c.Experiment)
			want, err := configs.TaskSet(c.Tasks.Set)
			require.NoError(t, err)
			require.Equal(t, want, c.Tasks.Mixture)
			prompt := "default"
			if m.Weights == configs.Embedded {
				prompt = "none"
			}
			require.Equal(t, prompt, c.Tasks.SystemPrompt)
		}
	}
}

// Of set, file and mixture, the one in the highest layer is the source of questions.
func TestConfigTasks(t *testing.T) {
	dir := t.TempDir()
	items := writeFile(t, filepath.Join(dir, "items.jsonl"), "{}\n")
	mixture := writeFile(t, filepath.Join(dir, "mixture.yaml"), "tasks:\n  set: nano\n  mixture:\n  - name: bf\n    params: {Words: [Abc]}\n")
	own := []configs.TaskSpec{{Name: "bf", Weight: 1, Params: map[string]any{"Words": []any{"Abc"}}}}
	paper, err := configs.TaskSet("paper")
	require.NoError(t, err)

	c, _, _, err := resolve([]string{"--config", mixture}, nil, false)
	require.NoError(t, err)
	require.Equal(t, own, c.Tasks.Mixture)

	c, _, _, err = resolve([]string{"--config", mixture, "--set", "tasks.set=paper"}, nil, false)
	require.NoError(t, err)
	require.Equal(t, paper, c.Tasks.Mixture)

	c, _, _, err = resolve([]string{"--config", mixture, "--tasks-file", items}, nil, false)
	require.NoError(t, err)
	require.Empty(t, c.Tasks.Mixture)
	require.Equal(t, items, c.Tasks.File)

	c, _, _, err = resolve([]string{"--tasks-set", "paper"}, []string{"SWARM_TASKS_FILE=" + items}, false)
	require.NoError(t, err)
	require.Equal(t, paper, c.Tasks.Mixture)
	require.Empty(t, c.Tasks.File)
}

func TestConfigModelFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "mine")
	require.NoError(t, os.Mkdir(folder, 0o700))
	writeFile(t, filepath.Join(folder, "config.json"), `{"model_type": "gpt2", "vocab_size": 257, "n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 128}`)
	c, m, _, err := resolve([]string{"--model", folder}, nil, true)
	require.NoError(t, err)
	require.Equal(t, folder, c.Model)
	require.Equal(t, "mine", m.Name)
	require.Equal(t, folder, m.Weights)
	require.Equal(t, "bytes", m.Tokenizer)
	require.Equal(t, 96, c.MaxPromptLength)
	require.Equal(t, 32, c.MaxCompletionLength)
	require.Equal(t, "nano", c.Tasks.Set)
}

func TestConfigRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "many.yaml", "seed: 1\nrounds: many\n")
	writeFile(t, "typo.yaml", "tasks:\n  sets: nano\n")
	writeFile(t, "range.yaml", "\n\ntemperature: .0\n")
	writeFile(t, "broken.yaml", "rounds: 1\na: b: c\n")
	writeFile(t, "preset.yaml", "preset: 4loc5ext\n")
	tests := []struct {
		args, environ, want string
	}{
		{"--config 4loc5ext", "", `unknown config "4loc5ext": did you mean "4loc4ext"? Allowed: 8loc0ext, 6loc2ext, 4loc4ext, 2loc6ext, adaptive, adaptive-ema, or a YAML file`},
		{"--preset 4loc5ext", "", `unknown config "4loc5ext" (--preset): did you mean "4loc4ext"? Allowed: 8loc0ext, 6loc2ext, 4loc4ext, 2loc6ext, adaptive, adaptive-ema`},
		{"--config preset.yaml", "", `unknown config "4loc5ext" (preset.yaml:1): did you mean "4loc4ext"? Allowed: 8loc0ext, 6loc2ext, 4loc4ext, 2loc6ext, adaptive, adaptive-ema`},
		{"--config 4loc4ext,2loc6ext", "", `bad config "2loc6ext" (--config): allowed: one preset (4loc4ext is another)`},
		{"--config 4loc4ext --preset 2loc6ext", "", `bad preset "2loc6ext" (--preset): allowed: the same name as --config 4loc4ext`},
		{"--config none.yaml", "", `cannot read config file "none.yaml": no such file or directory`},
		{"--config many.yaml", "", `bad rounds "many" (many.yaml:2): allowed: a whole number from 1 to 10000000`},
		{"--config typo.yaml", "", `unknown key "tasks.sets" (typo.yaml:2): did you mean "tasks.set"?`},
		{"--config range.yaml", "", `bad temperature "0" (range.yaml:3): allowed: a number above 0, at most 100`},
		{"--config broken.yaml", "", `config file is not YAML (broken.yaml:2): mapping values are not allowed in this context`},
		{"--rounds many", "", `bad rounds "many" (--rounds): allowed: a whole number from 1 to 10000000`},
		{"--rounds 0", "", `bad rounds "0" (--rounds): allowed: a whole number from 1 to 10000000`},
		{"--temperature NaN", "", `bad temperature "NaN" (--temperature): allowed: a number above 0, at most 100`},
		{"--gradient-checkpointing=maybe", "", `bad gradient_checkpointing "maybe" (--gradient-checkpointing): allowed: true, false`},
		{"--name a/b", "", `bad experiment "a/b" (--name): allowed: 1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit`},
		{"--model gpt3", "", `unknown model "gpt3" (--model): did you mean "gpt2"? Allowed: gpt2, gpt2-medium, llama-3.2-1b-instruct, micro, nano, qwen2.5-0.5b-instruct, qwen3-0.6b, smollm2-135m-instruct, smollm2-360m-instruct, or a folder with config.json and *.safetensors`},
		{"--set rounds", "", `bad set "rounds" (--set): allowed: key=value`},
		{"--set task.set=nano", "", `unknown key "task.set" (--set): did you mean "tasks.set"?`},
		{"--set tasks.mixture=bf", "", `bad tasks.mixture "bf" (--set): allowed: a list of tasks in a YAML file`},
		{"--tasks-set big", "", `unknown tasks.set "big" (--tasks-set): allowed: nano, paper`},
		{"--tasks-file none.jsonl", "", `bad tasks.file "none.jsonl" (--tasks-file): allowed: a readable file`},
		{"--max-completion-length 128", "", `bad max_prompt_length "192" (model nano): allowed: together with max_completion_length (128) at most the context of nano, 256 tokens`},
		{"--config 4loc4ext --swarm-size 1", "", `bad num_transplant_trees "4" (preset 4loc4ext): allowed: 0 when swarm_size is 1: there are no peers to take rollouts from`},
		{"", "SEED=now NODE_ID=a", `bad seed "now" (SEED): allowed: a whole number from 0 to 9007199254740991`},
		{"", "SWARM_SYNC=never", `bad sync "never" (SWARM_SYNC): allowed: barrier, async`},
		{"", "MODEL_NAME=Gensyn/Qwen2.5-0.5B-Instruct MAX_ROUNDS=3", `unknown model "Gensyn/Qwen2.5-0.5B-Instruct" (MODEL_NAME): did you mean "qwen2.5-0.5b-instruct"? Allowed: gpt2, gpt2-medium, llama-3.2-1b-instruct, micro, nano, qwen2.5-0.5b-instruct, qwen3-0.6b, smollm2-135m-instruct, smollm2-360m-instruct, or a folder with config.json and *.safetensors`},
	}
	for _, test := range tests {
		t.Run(test.args+test.environ, func(t *testing.T) {
			_, _, _, err := resolve(strings.Fields(test.args), strings.Fields(test.environ), false)
			require.EqualError(t, err, test.want)
			var e *configs.Error
			require.True(t, errors.As(err, &e))
		})
	}
}

func TestConfigWarnsOfUnknownVariables(t *testing.T) {
	_, _, warnings, err := resolve(nil, []string{"SWARM_HOME=/h", "SWARM_PYTHON=python3", "SWARM_TASKS_SET=nano", "SWARM_ROUND=5", "HOME=/"}, false)
	require.NoError(t, err)
	require.Equal(t, []string{"unknown environment variable SWARM_ROUND is ignored"}, warnings)
}

// A run's stored configuration, given as a file, resolves to itself, whatever its sources and the host.
func TestConfigIsAFixedPoint(t *testing.T) {
	dir := t.TempDir()
	items := writeFile(t, filepath.Join(dir, "items.jsonl"), "{}\n")
	require.NoError(t, flag.Set("rapid.checks", "25")) // the only property here; each check resolves twice
	rapid.Check(t, func(t *rapid.T) {
		draw := func(key string, values ...string) []string {
			if !rapid.Bool().Draw(t, "has "+key) {
				return nil
			}
			return []string{"--set", key + "=" + rapid.SampledFrom(values).Draw(t, key)}
		}
		float := func(key string, low, high float64) []string {
			return draw(key, strconv.FormatFloat(rapid.Float64Range(low, high).Draw(t, "value of "+key), 'g', -1, 64))
		}
		args := []string{}
		for _, some := range [][]string{
			draw("experiment", "a", "1e3", "007", "true", "null", "x.y-z"), draw("preset", configs.Experiments()...),
			draw("model", configs.Models()...), draw("device", "auto", "cpu", "cuda:1"), draw("precision", "fp32", "bf16"),
			draw("seed", "0", "9007199254740991"), draw("rounds", "1", "7"), draw("gradient_checkpointing", "true", "false"),
			draw("tasks.set", "nano", "paper"), draw("tasks.file", items), draw("tasks.system_prompt", "none", "simple"),
			draw("loss_type", "grpo", "dr_grpo"), draw("top_k", "50"), draw("num_generations", "2", "64"),
			float("temperature", 1e-300, 100), float("learning_rate", 0, 1), float("adam_epsilon", 1e-12, 1e-3), float("beta", 0, 100),
		} {
			args = append(args, some...)
		}
		if rapid.Bool().Draw(t, "own mixture") {
			param := rapid.OneOf(rapid.Float64Range(-1e6, 1e6).AsAny(), rapid.Int().AsAny(), rapid.String().AsAny(), rapid.Bool().AsAny(),
				rapid.SliceOf(rapid.StringMatching(`[a-zA-Z0-9 :#.+-]{0,6}`)).AsAny())
			spec := configs.TaskSpec{Name: "bf", Weight: rapid.Float64Range(1e-3, 1e3).Draw(t, "weight"),
				Params: rapid.MapOfN(rapid.StringMatching(`[A-Za-z][A-Za-z_.]{0,8}`), param, 0, 4).Draw(t, "params")}
			text, err := yaml.Marshal(map[string]any{"tasks": map[string]any{"mixture": []configs.TaskSpec{spec}}})
			require.NoError(t, err)
			args = append(args, "--config", writeFile(t, filepath.Join(dir, "own.yaml"), string(text)))
		}
		first, model, _, err := resolve(args, nil, rapid.Bool().Draw(t, "GPU"))
		require.NoError(t, err)

		text, err := yaml.Marshal(first)
		require.NoError(t, err)
		stored := writeFile(t, filepath.Join(dir, "stored.yaml"), string(text))
		again, modelAgain, _, err := resolve([]string{"--config", stored}, nil, rapid.Bool().Draw(t, "GPU again"))
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, model, modelAgain)
	})
}

// SmolLM2 writes answer tags when it has seen examples, and the longest question of the set paper fits with them.
func TestSmolLM2LearnsByDefault(t *testing.T) {
	for _, model := range []string{"smollm2-135m-instruct", "HuggingFaceTB/SmolLM2-360M-Instruct"} {
		c, _, _, err := resolve([]string{"--model", model}, nil, false)
		require.NoError(t, err)
		require.Equal(t, []any{2, 2e-5, 1536}, []any{c.Tasks.Examples, c.LearningRate, c.MaxPromptLength})
		c, _, _, err = resolve([]string{"--model", model, "--tasks-examples", "0"}, nil, false)
		require.NoError(t, err)
		require.Zero(t, c.Tasks.Examples)
	}
}

// --paper sets every key of the algorithm, whatever the defaults. A contradicting value is an error that names the
// key.
func TestPaperIsThePapersAlgorithm(t *testing.T) {
	c, _, _, err := resolve([]string{"--config", "4loc4ext", "--paper"}, nil, false)
	require.NoError(t, err)
	values := configs.Values(c)
	for key, want := range configs.PaperValues() {
		if key == "external_sampling" {
			want = configs.SamplingAuto // which is uniform at the barrier
		}
		require.Equal(t, want, values[key], key)
	}
	require.Equal(t, []int{4, 4, 8}, []int{c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations})
	plain, _, _, err := resolve([]string{"--config", "4loc4ext"}, nil, false)
	require.NoError(t, err)
	require.Equal(t, configs.CorrectionAuto, plain.ExternalCorrection)
	require.Equal(t, configs.FilterAuto, plain.ExternalFilter)

	c, _, _, err = resolve([]string{"--paper", "--sync", "async", "--set", "external_sampling=auto"}, nil, false)
	require.NoError(t, err)
	require.Equal(t, configs.SamplingUniform, c.ExternalSampling)
	_, _, _, err = resolve([]string{"--paper", "--external-correction", "none", "--num-iterations", "1", "--rounds", "7"}, nil, false)
	require.NoError(t, err)

	file := writeFile(t, filepath.Join(t.TempDir(), "exp.yaml"), "beta: 0.1\n")
	for want, args := range map[string][]string{
		"--external-correction": {"--paper", "--external-correction", "importance"},
		"--set":                 {"--paper", "--set", "external_sampling=top"},
		"exp.yaml:1":            {"--paper", "--config", file},
		"preset adaptive":       {"--paper", "--config", "adaptive"},
	} {
		_, _, _, err := resolve(args, nil, false)
		var mistake *configs.Error
		require.ErrorAs(t, err, &mistake, want)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "--paper")
	}
	_, _, _, err = resolve([]string{"--paper"}, []string{"SWARM_EXTERNAL_FILTER=likelihood"}, false)
	require.ErrorContains(t, err, "SWARM_EXTERNAL_FILTER")
}
