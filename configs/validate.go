package configs

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MaxSeed is the largest seed. JSON numbers are exact up to it.
const MaxSeed = 1<<53 - 1

var (
	experimentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	deviceName     = regexp.MustCompile(`^(auto|cpu|cuda|cuda:[0-9]{1,3})$`)
)

// systemPrompts lists the library's system prompts, and none.
func systemPrompts() []string {
	return []string{"default", "simple", "direct", "chain_of_draft", "DeepSeekZero", "none"}
}

// check is one rule on one key.
type check struct {
	key     string
	value   string
	ok      bool
	allowed string
}

// Validate checks every key's range and the rules between keys. It returns an *Error for the first broken rule, in
// the order of Config's fields.
func Validate(c Config) error {
	for _, rule := range slices.Concat(checks(c), relations(c)) {
		if !rule.ok {
			return &Error{Key: rule.key, Value: rule.value, Allowed: rule.allowed}
		}
	}
	if err := validateMixture(c.Tasks); err != nil {
		return err
	}
	return validateNodeTasks(c)
}

// ValidateModel checks what depends on the model: prompt and completion must fit into its context together.
func ValidateModel(c Config, m Model) error {
	if c.MaxPromptLength+c.MaxCompletionLength > m.Shape.Context {
		return &Error{
			Key:     "max_prompt_length",
			Value:   strconv.Itoa(c.MaxPromptLength),
			Allowed: fmt.Sprintf("together with max_completion_length (%d) at most the context of %s, %d tokens", c.MaxCompletionLength, m.Name, m.Shape.Context),
		}
	}
	return nil
}

func checks(c Config) []check {
	return []check{
		{"experiment", c.Experiment, experimentName.MatchString(c.Experiment), "1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit"},
		oneOf("preset", c.Preset, append(Experiments(), "")),
		whole("seed", c.Seed, 0, MaxSeed),
		whole("rounds", int64(c.Rounds), 1, 10_000_000),
		whole("swarm_size", int64(c.SwarmSize), 1, 1000),
		whole("num_train_samples", int64(c.NumTrainSamples), 1, maxShared),
		whole("num_transplant_trees", int64(c.NumTransplantTrees), 0, 1024),
		whole("num_generations", int64(c.NumGenerations), 2, 256),
		{"model", c.Model, c.Model != "" && !strings.ContainsFunc(c.Model, isControl), "a model's name or folder"},
		{"models", c.Models, c.Models == "" || parses(c.Models), modelsAllowed},
		{"device", c.Device, deviceName.MatchString(c.Device), "auto, cpu, cuda, cuda:N"},
		oneOf("precision", c.Precision, []string{"auto", "fp32", "tf32", "bf16", "fp16"}),
		oneOf("tasks.set", c.Tasks.Set, TaskSets()),
		{"tasks.file", c.Tasks.File, !strings.ContainsFunc(c.Tasks.File, isControl), "a file's path"},
		{"tasks.words", c.Tasks.Words, !strings.ContainsFunc(c.Tasks.Words, isControl), "a file's path"},
		oneOf("tasks.system_prompt", c.Tasks.SystemPrompt, systemPrompts()),
		whole("tasks.examples", int64(c.Tasks.Examples), 0, 8),
		whole("nodes.generate_only", int64(c.Nodes.GenerateOnly), 0, int64(max(0, c.SwarmSize-1))),
		real("temperature", c.Temperature, 0, 100, false, true),
		whole("top_k", int64(c.TopK), 0, 1_000_000),
		real("top_p", c.TopP, 0, 1, false, true),
		whole("max_prompt_length", int64(c.MaxPromptLength), 1, 1<<20),
		whole("max_completion_length", int64(c.MaxCompletionLength), 1, 1<<20),
		real("learning_rate", c.LearningRate, 0, 1, true, true),
		real("adam_beta1", c.AdamBeta1, 0, 1, true, false),
		real("adam_beta2", c.AdamBeta2, 0, 1, true, false),
		real("adam_epsilon", c.AdamEpsilon, 0, 1, false, true),
		real("weight_decay", c.WeightDecay, 0, 1, true, true),
		real("max_grad_norm", c.MaxGradNorm, 0, 1e6, true, true),
		real("epsilon", c.Epsilon, 0, 1, false, true),
		real("epsilon_high", c.EpsilonHigh, 0, 10, false, true),
		real("beta", c.Beta, 0, 100, true, true),
		whole("num_iterations", int64(c.NumIterations), 1, 100),
		oneOf("scale_rewards", c.ScaleRewards, []string{"group", "none"}),
		oneOf("loss_type", c.LossType, []string{"bnpo", "grpo", "dr_grpo"}),
		whole("micro_batch", int64(c.MicroBatch), 0, 1<<20),
		whole("gradient_accumulation_steps", int64(c.GradientAccumulationSteps), 1, 1<<20),
		whole("clear_cache_every_n_rounds", int64(c.ClearCacheEveryNRounds), 0, 10_000_000),
		oneOf("sync", c.Sync, []string{SyncBarrier, SyncAsync}),
		real("barrier_deadline", c.BarrierDeadline, 0, 86_400, false, true),
		real("barrier_quorum", c.BarrierQuorum, 0, 1, false, true),
		whole("max_staleness", int64(c.MaxStaleness), 0, 1000),
		whole("max_peers", int64(c.MaxPeers), 0, 10_000),
		oneOf("external_sampling", c.ExternalSampling, []string{SamplingAuto, SamplingUniform, SamplingFair, SamplingReward, SamplingTop}),
		oneOf("external_advantage", c.ExternalAdvantage, []string{AdvantageAll, AdvantagePositive}),
		oneOf("external_correction", c.ExternalCorrection, Corrections()),
		real("external_divergence", c.ExternalDivergence, 0, 1000, true, true),
		oneOf("external_filter", c.ExternalFilter, Filters()),
		real("external_filter_threshold", c.ExternalFilterThreshold, 0, 1000, false, true),
		whole("external_lag", int64(c.ExternalLag), 0, maxExternalLag),
		oneOf("split", c.Split, []string{SplitFixed, SplitRewardEMA, SplitBandit}),
		real("split_alpha", c.SplitAlpha, 0, 1000, true, true),
		real("split_ema", c.SplitEMA, 0, 1, true, false),
		whole("split_every", int64(c.SplitEvery), 1, 10_000_000),
		whole("eval_every", int64(c.EvalEvery), 0, 10_000_000),
		whole("eval_questions", int64(c.EvalQuestions), 0, 10_000),
		whole("eval_generations", int64(c.EvalGenerations), 1, 256),
		oneOf("eval_draws", c.EvalDraws, []string{DrawsAuto, DrawsNode, DrawsShared}),
		whole("checkpoint_every", int64(c.CheckpointEvery), 1, 10_000_000),
		whole("validation_questions", int64(c.ValidationQuestions), 0, 10_000),
		oneOf("share", c.Share, []string{"auto", "static", "lease", "mps"}),
		whole("gpus_per_node", int64(c.GPUsPerNode), 1, 64),
		whole("max_restarts", int64(c.MaxRestarts), 0, 1_000_000),
		oneOf("on_alarm", c.OnAlarm, Alarms()),
	}
}

// maxExternalLag is the maximum age of others' rollouts, in rounds. The swarm keeps as many rounds for nodes that
// return.
const maxExternalLag = 64

// maxShared is the maximum number of questions in one message of the exchange.
const maxShared = 256

// relations returns the rules between keys. A round's pool holds I rollouts of each of the other nodes.
func relations(c Config) []check {
	pool := c.NumTrainSamples * (c.SwarmSize - 1)
	j := strconv.Itoa(c.NumTransplantTrees)
	return []check{
		{"num_transplant_trees", j, c.NumTransplantTrees == 0 || c.SwarmSize >= 2, "0 when swarm_size is 1: there are no peers to take rollouts from"},
		{"num_transplant_trees", j, c.Adaptive() || c.NumTransplantTrees <= pool, fmt.Sprintf(
			"a whole number from 0 to %d, the number of rollouts that the others share in a round: num_train_samples (%d) x (swarm_size (%d) - 1)", pool, c.NumTrainSamples, c.SwarmSize)},
		{"external_lag", strconv.Itoa(c.ExternalLag), c.ExternalLag == 0 || !c.Async(), "0 with sync async, where max_staleness decides which rollouts are drawn"},
		{"external_lag", strconv.Itoa(c.ExternalLag), c.ExternalLag == 0 || c.ExternalLag < c.Rounds, fmt.Sprintf(
			"less than rounds (%d), because nothing can be drawn before round external_lag", c.Rounds)},
		{"validation_questions", strconv.Itoa(c.ValidationQuestions), c.ValidationQuestions == 0 || c.EvalQuestions > 0,
			"0 without evaluations (eval_questions 0), because evaluations choose the weights"},
		{"split", c.Split, !c.Adaptive() || c.SwarmSize >= 2, SplitFixed + " when swarm_size is 1: there are no peers to take rollouts from"},
		{"split", c.Split, !c.Adaptive() || 2 <= c.Budget() && c.Budget() <= maxShared, fmt.Sprintf(
			"%s, or num_train_samples (%d) + num_transplant_trees (%d) from 2 to %d, because a node may have to share that many", SplitFixed, c.NumTrainSamples,
			c.NumTransplantTrees, maxShared)},
	}
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func whole(key string, value, low, high int64) check {
	return check{key, strconv.FormatInt(value, 10), low <= value && value <= high, fmt.Sprintf("a whole number from %d to %d", low, high)}
}

// real is a rule on a number between low and high. withLow and withHigh include the bounds. NaN is never in range.
func real(key string, value, low, high float64, withLow, withHigh bool) check {
	ok := (value > low || withLow && value == low) && (value < high || withHigh && value == high)
	allowed := fmt.Sprintf("a number from %s to %s", number(low), number(high))
	switch {
	case !withLow:
		allowed = fmt.Sprintf("a number above %s, at most %s", number(low), number(high))
	case !withHigh:
		allowed = fmt.Sprintf("a number from %s to below %s", number(low), number(high))
	}
	return check{key, number(value), ok, allowed}
}

func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func oneOf(key, value string, allowed []string) check {
	named := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
	return check{key, value, slices.Contains(allowed, value), strings.Join(named, ", ")}
}
