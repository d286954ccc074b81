package configs

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// valid is a configuration that passes.
func valid(t *testing.T) Config {
	t.Helper()
	c := Default()
	c.Experiment, c.Model = "test", "nano"
	mixture, err := TaskSet(c.Tasks.Set)
	require.NoError(t, err)
	c.Tasks.Mixture = mixture
	require.NoError(t, Validate(c))
	return c
}

func TestValidateRefuses(t *testing.T) {
	tests := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Experiment = "" }, `bad experiment "": allowed: 1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit`},
		{func(c *Config) { c.Experiment = "../x" }, `bad experiment "../x": allowed: 1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit`},
		{func(c *Config) { c.Experiment = "a\n" }, `bad experiment "a\n": allowed: 1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit`},
		{func(c *Config) { c.Preset = "8loc1ext" }, `bad preset "8loc1ext": allowed: 8loc0ext, 6loc2ext, 4loc4ext, 2loc6ext, adaptive, adaptive-ema`},
		{func(c *Config) { c.Seed = -1 }, `bad seed "-1": allowed: a whole number from 0 to 9007199254740991`},
		{func(c *Config) { c.Seed = MaxSeed + 1 }, `bad seed "9007199254740992": allowed: a whole number from 0 to 9007199254740991`},
		{func(c *Config) { c.Rounds = 0 }, `bad rounds "0": allowed: a whole number from 1 to 10000000`},
		{func(c *Config) { c.SwarmSize = 0 }, `bad swarm_size "0": allowed: a whole number from 1 to 1000`},
		{func(c *Config) { c.SwarmSize = 1001 }, `bad swarm_size "1001": allowed: a whole number from 1 to 1000`},
		{func(c *Config) { c.NumTrainSamples = 0 }, `bad num_train_samples "0": allowed: a whole number from 1 to 256`},
		{func(c *Config) { c.NumTransplantTrees = -1 }, `bad num_transplant_trees "-1": allowed: a whole number from 0 to 1024`},
		{func(c *Config) { c.NumTransplantTrees, c.SwarmSize = 1, 1 }, `bad num_transplant_trees "1": allowed: 0 when swarm_size is 1: there are no peers to take rollouts from`},
		{func(c *Config) { c.NumTrainSamples, c.NumTransplantTrees, c.SwarmSize = 2, 3, 2 }, `bad num_transplant_trees "3": allowed: a whole number from 0 to 2, the number of rollouts that the others share in a round: num_train_samples (2) x (swarm_size (2) - 1)`},
		{func(c *Config) { c.NumGenerations = 1 }, `bad num_generations "1": allowed: a whole number from 2 to 256`},
		{func(c *Config) { c.Model = "" }, `bad model "": allowed: a model's name or folder`},
		{func(c *Config) { c.Device = "gpu" }, `bad device "gpu": allowed: auto, cpu, cuda, cuda:N`},
		{func(c *Config) { c.Device = "cuda:" }, `bad device "cuda:": allowed: auto, cpu, cuda, cuda:N`},
		{func(c *Config) { c.Precision = "int8" }, `bad precision "int8": allowed: auto, fp32, tf32, bf16, fp16`},
		{func(c *Config) { c.Tasks.Set = "big" }, `bad tasks.set "big": allowed: nano, paper`},
		{func(c *Config) { c.Tasks.SystemPrompt = "rude" }, `bad tasks.system_prompt "rude": allowed: default, simple, direct, chain_of_draft, DeepSeekZero, none`},
		{func(c *Config) { c.Tasks.Examples = -1 }, `bad tasks.examples "-1": allowed: a whole number from 0 to 8`},
		{func(c *Config) { c.Tasks.Examples = 9 }, `bad tasks.examples "9": allowed: a whole number from 0 to 8`},
		{func(c *Config) { c.Temperature = 0 }, `bad temperature "0": allowed: a number above 0, at most 100`},
		{func(c *Config) { c.Temperature = math.NaN() }, `bad temperature "NaN": allowed: a number above 0, at most 100`},
		{func(c *Config) { c.Temperature = math.Inf(1) }, `bad temperature "+Inf": allowed: a number above 0, at most 100`},
		{func(c *Config) { c.TopK = -1 }, `bad top_k "-1": allowed: a whole number from 0 to 1000000`},
		{func(c *Config) { c.TopP = 0 }, `bad top_p "0": allowed: a number above 0, at most 1`},
		{func(c *Config) { c.TopP = 1.5 }, `bad top_p "1.5": allowed: a number above 0, at most 1`},
		{func(c *Config) { c.MaxPromptLength = 0 }, `bad max_prompt_length "0": allowed: a whole number from 1 to 1048576`},
		{func(c *Config) { c.MaxCompletionLength = 0 }, `bad max_completion_length "0": allowed: a whole number from 1 to 1048576`},
		{func(c *Config) { c.LearningRate = -1e-5 }, `bad learning_rate "-1e-05": allowed: a number from 0 to 1`},
		{func(c *Config) { c.AdamBeta1 = 1 }, `bad adam_beta1 "1": allowed: a number from 0 to below 1`},
		{func(c *Config) { c.AdamBeta2 = math.NaN() }, `bad adam_beta2 "NaN": allowed: a number from 0 to below 1`},
		{func(c *Config) { c.AdamEpsilon = 0 }, `bad adam_epsilon "0": allowed: a number above 0, at most 1`},
		{func(c *Config) { c.WeightDecay = 2 }, `bad weight_decay "2": allowed: a number from 0 to 1`},
		{func(c *Config) { c.MaxGradNorm = -1 }, `bad max_grad_norm "-1": allowed: a number from 0 to 1000000`},
		{func(c *Config) { c.Epsilon = 0 }, `bad epsilon "0": allowed: a number above 0, at most 1`},
		{func(c *Config) { c.EpsilonHigh = 11 }, `bad epsilon_high "11": allowed: a number above 0, at most 10`},
		{func(c *Config) { c.Beta = -0.1 }, `bad beta "-0.1": allowed: a number from 0 to 100`},
		{func(c *Config) { c.NumIterations = 0 }, `bad num_iterations "0": allowed: a whole number from 1 to 100`},
		{func(c *Config) { c.ScaleRewards = "batch" }, `bad scale_rewards "batch": allowed: group, none`},
		{func(c *Config) { c.LossType = "sapo" }, `bad loss_type "sapo": allowed: bnpo, grpo, dr_grpo`},
		{func(c *Config) { c.MicroBatch = -1 }, `bad micro_batch "-1": allowed: a whole number from 0 to 1048576`},
		{func(c *Config) { c.Sync = "never" }, `bad sync "never": allowed: barrier, async`},
		{func(c *Config) { c.MaxStaleness = -1 }, `bad max_staleness "-1": allowed: a whole number from 0 to 1000`},
		{func(c *Config) { c.MaxPeers = 10_001 }, `bad max_peers "10001": allowed: a whole number from 0 to 10000`},
		{func(c *Config) { c.ExternalSampling = "" }, `bad external_sampling "": allowed: auto, uniform, fair, reward, top`},
		{func(c *Config) { c.ExternalLag = 65 }, `bad external_lag "65": allowed: a whole number from 0 to 64`},
		{func(c *Config) { c.Rounds, c.ExternalLag = 10, 10 }, `bad external_lag "10": allowed: less than rounds (10), because nothing can be drawn before round external_lag`},
		{func(c *Config) { c.Sync, c.ExternalLag = SyncAsync, 1 }, `bad external_lag "1": allowed: 0 with sync async, where max_staleness decides which rollouts are drawn`},
		{func(c *Config) { c.Split = "" }, `bad split "": allowed: fixed, reward-ema, bandit`},
		{func(c *Config) { c.SplitAlpha = math.NaN() }, `bad split_alpha "NaN": allowed: a number from 0 to 1000`},
		{func(c *Config) { c.SplitEMA = 1 }, `bad split_ema "1": allowed: a number from 0 to below 1`},
		{func(c *Config) { c.SplitEvery = 0 }, `bad split_every "0": allowed: a whole number from 1 to 10000000`},
		{func(c *Config) { c.Split, c.SwarmSize = SplitBandit, 1 }, `bad split "bandit": allowed: fixed when swarm_size is 1: there are no peers to take rollouts from`},
		{func(c *Config) { c.Split, c.NumTrainSamples = SplitRewardEMA, 1 }, `bad split "reward-ema": allowed: fixed, or num_train_samples (1) + num_transplant_trees (0) from 2 to 256, because a node may have to share that many`},
		{func(c *Config) { c.Split, c.NumTrainSamples, c.NumTransplantTrees = SplitBandit, 200, 57 }, `bad split "bandit": allowed: fixed, or num_train_samples (200) + num_transplant_trees (57) from 2 to 256, because a node may have to share that many`},
		{func(c *Config) { c.BarrierDeadline = 0 }, `bad barrier_deadline "0": allowed: a number above 0, at most 86400`},
		{func(c *Config) { c.BarrierQuorum = 0 }, `bad barrier_quorum "0": allowed: a number above 0, at most 1`},
		{func(c *Config) { c.CheckpointEvery = 0 }, `bad checkpoint_every "0": allowed: a whole number from 1 to 10000000`},
		{func(c *Config) { c.MaxRestarts = -1 }, `bad max_restarts "-1": allowed: a whole number from 0 to 1000000`},
		{func(c *Config) { c.ValidationQuestions = -1 }, `bad validation_questions "-1": allowed: a whole number from 0 to 10000`},
		{func(c *Config) { c.EvalQuestions, c.ValidationQuestions = 0, 36 }, `bad validation_questions "36": allowed: 0 without evaluations (eval_questions 0), because evaluations choose the weights`},
		{func(c *Config) { c.OnAlarm = "" }, `bad on_alarm "": allowed: warn, stop, lower-rate`},
		{func(c *Config) { c.Tasks.Mixture = nil }, `bad tasks.mixture "0 tasks": allowed: 1 to 256 tasks`},
		{func(c *Config) { c.Tasks.File = "q.jsonl" }, `bad tasks.file "q.jsonl": allowed: either tasks.file or tasks.mixture`},
		{func(c *Config) { c.Tasks.Mixture[1].Weight = 0 }, `bad tasks.mixture[1].weight "0": allowed: a number above 0, at most 1000000`},
		{func(c *Config) { c.Tasks.Mixture[0].Name = "sudoku" }, `bad tasks.mixture[0].name "sudoku": allowed: arc_1d, base_conversion, basic_arithmetic, bf, binary_matrix, calendar_arithmetic, decimal_arithmetic, fraction_simplification, propositional_logic`},
		{func(c *Config) { c.Tasks.Mixture[0].Params["num_train"] = math.NaN() }, `bad tasks.mixture[0].params.num_train "NaN": allowed: a finite number`},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			c := valid(t)
			test.change(&c)
			err := Validate(c)
			require.EqualError(t, err, test.want)
			var e *Error
			require.True(t, errors.As(err, &e))
		})
	}
}

func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"largest pool":     func(c *Config) { c.NumTrainSamples, c.NumTransplantTrees, c.SwarmSize = 2, 14, 8 },
		"one node alone":   func(c *Config) { c.SwarmSize = 1 },
		"a numbered card":  func(c *Config) { c.Device = "cuda:3" },
		"no learning":      func(c *Config) { c.LearningRate = 0 },
		"no clipping":      func(c *Config) { c.MaxGradNorm = 0 },
		"bounds inclusive": func(c *Config) { c.TopP, c.BarrierQuorum, c.Seed = 1, 1, MaxSeed },
		"nobody waits":     func(c *Config) { c.Sync, c.MaxStaleness, c.MaxPeers, c.ExternalSampling = "async", 0, 0, "uniform" },
		"old externals":    func(c *Config) { c.NumTransplantTrees, c.ExternalLag = 4, 64 },
		"a split of 1/7":   func(c *Config) { c.Split, c.NumTrainSamples, c.NumTransplantTrees, c.SwarmSize = SplitBandit, 1, 7, 2 },
		"a file of items":  func(c *Config) { c.Tasks.File, c.Tasks.Mixture = "q.jsonl", nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := valid(t)
			change(&c)
			require.NoError(t, Validate(c))
		})
	}
}

// Every scalar key has a rule, or is a boolean.
func TestEveryKeyIsChecked(t *testing.T) {
	checked := map[string]bool{MixtureKey: true, NodeTasksKey: true, "gradient_checkpointing": true, "auto_batch_size": true, "optimizer_offload": true, "param_offload": true, "cuda_graphs": true, "cpu_fallback": true,
		"zero_advantage_filter": true}
	for _, c := range checks(Config{}) {
		checked[c.key] = true
	}
	for _, key := range Keys() {
		require.True(t, checked[key], "no rule for %s", key)
	}
	require.Len(t, checked, len(Keys()), "a rule for a key that isn't one")
}

func TestValidateModel(t *testing.T) {
	nano, err := LoadModel("nano")
	require.NoError(t, err)
	c := valid(t)
	require.EqualError(t, ValidateModel(c, nano),
		`bad max_prompt_length "768": allowed: together with max_completion_length (256) at most the context of nano, 256 tokens`)
	c.MaxPromptLength, c.MaxCompletionLength = 208, 48
	require.NoError(t, ValidateModel(c, nano))
}
