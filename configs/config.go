// Package configs defines an experiment: the configuration's types, defaults and checks, and the embedded presets
// (experiments, models, task sets, GPUs). It imports only internal packages and reads no file, flag or environment
// variable. configs/resolve does that, through viper.
package configs

import (
	"encoding/json"
	"path/filepath"
	"slices"
)

// Config is one resolved experiment. Keys are the usual names of TRL's GRPO. The same keys serve YAML files, SWARM_…
// environment variables and flags. Every run is stored with its Config.
type Config struct {
	Experiment string `mapstructure:"experiment" yaml:"experiment" json:"experiment"` // name; default: the preset's
	Preset     string `mapstructure:"preset" yaml:"preset" json:"preset"`             // experiment preset it started from
	Seed       int64  `mapstructure:"seed" yaml:"seed" json:"seed"`
	Rounds     int    `mapstructure:"rounds" yaml:"rounds" json:"rounds"`
	SwarmSize  int    `mapstructure:"swarm_size" yaml:"swarm_size" json:"swarm_size"` // maximum number of nodes

	// The paper's I, J and G.
	NumTrainSamples    int `mapstructure:"num_train_samples" yaml:"num_train_samples" json:"num_train_samples"`
	NumTransplantTrees int `mapstructure:"num_transplant_trees" yaml:"num_transplant_trees" json:"num_transplant_trees"`
	NumGenerations     int `mapstructure:"num_generations" yaml:"num_generations" json:"num_generations"`

	Model     string       `mapstructure:"model" yaml:"model" json:"model"`                        // a model preset's name or a Hugging Face directory
	Models    string       `mapstructure:"models" yaml:"models,omitempty" json:"models,omitempty"` // different models for the nodes, such as nano=4,micro=4; empty: all nodes use model
	Members   []Member     `mapstructure:"-" yaml:"-" json:"members,omitempty"`                    // Models, resolved: not a key
	Device    string       `mapstructure:"device" yaml:"device" json:"device"`                     // auto, cpu, cuda
	Precision string       `mapstructure:"precision" yaml:"precision" json:"precision"`            // auto (tf32 on CUDA, fp16 on Volta and Turing, fp32 on a CPU), fp32, tf32, bf16, fp16
	Tasks     Tasks        `mapstructure:"tasks" yaml:"tasks" json:"tasks"`
	Nodes     NodeSettings `mapstructure:"nodes" yaml:"nodes,omitempty" json:"nodes,omitzero"`

	// Sampling.
	Temperature         float64 `mapstructure:"temperature" yaml:"temperature" json:"temperature"`
	TopK                int     `mapstructure:"top_k" yaml:"top_k" json:"top_k"`
	TopP                float64 `mapstructure:"top_p" yaml:"top_p" json:"top_p"`
	MaxPromptLength     int     `mapstructure:"max_prompt_length" yaml:"max_prompt_length" json:"max_prompt_length"`             // tokens
	MaxCompletionLength int     `mapstructure:"max_completion_length" yaml:"max_completion_length" json:"max_completion_length"` // tokens

	// The update.
	LearningRate          float64 `mapstructure:"learning_rate" yaml:"learning_rate" json:"learning_rate"`
	AdamBeta1             float64 `mapstructure:"adam_beta1" yaml:"adam_beta1" json:"adam_beta1"`
	AdamBeta2             float64 `mapstructure:"adam_beta2" yaml:"adam_beta2" json:"adam_beta2"`
	AdamEpsilon           float64 `mapstructure:"adam_epsilon" yaml:"adam_epsilon" json:"adam_epsilon"`
	WeightDecay           float64 `mapstructure:"weight_decay" yaml:"weight_decay" json:"weight_decay"`
	MaxGradNorm           float64 `mapstructure:"max_grad_norm" yaml:"max_grad_norm" json:"max_grad_norm"`
	Epsilon               float64 `mapstructure:"epsilon" yaml:"epsilon" json:"epsilon"`
	EpsilonHigh           float64 `mapstructure:"epsilon_high" yaml:"epsilon_high" json:"epsilon_high"`
	Beta                  float64 `mapstructure:"beta" yaml:"beta" json:"beta"`
	NumIterations         int     `mapstructure:"num_iterations" yaml:"num_iterations" json:"num_iterations"`
	ScaleRewards          string  `mapstructure:"scale_rewards" yaml:"scale_rewards" json:"scale_rewards"` // group, none
	LossType              string  `mapstructure:"loss_type" yaml:"loss_type" json:"loss_type"`             // bnpo, grpo, dr_grpo
	MicroBatch            int     `mapstructure:"micro_batch" yaml:"micro_batch" json:"micro_batch"`       // sequences per forward pass; 0: the whole batch
	GradientCheckpointing bool    `mapstructure:"gradient_checkpointing" yaml:"gradient_checkpointing" json:"gradient_checkpointing"`

	// Memory (guides 0 and 1). These keys change memory use, not what is learned.
	GradientAccumulationSteps int  `mapstructure:"gradient_accumulation_steps" yaml:"gradient_accumulation_steps" json:"gradient_accumulation_steps"` // minimum micro-batches per update
	AutoBatchSize             bool `mapstructure:"auto_batch_size" yaml:"auto_batch_size" json:"auto_batch_size"`                                     // micro_batch is a limit; a node uses fewer sequences if its memory budget requires it
	OptimizerOffload          bool `mapstructure:"optimizer_offload" yaml:"optimizer_offload" json:"optimizer_offload"`                               // keep Adam's moments on the host between steps
	ParamOffload              bool `mapstructure:"param_offload" yaml:"param_offload" json:"param_offload"`                                           // keep weights on the host, too, while the node has no lease
	ClearCacheEveryNRounds    int  `mapstructure:"clear_cache_every_n_rounds" yaml:"clear_cache_every_n_rounds" json:"clear_cache_every_n_rounds"`    // 0: never
	CUDAGraphs                bool `mapstructure:"cuda_graphs" yaml:"cuda_graphs" json:"cuda_graphs"`                                                 // decode in CUDA graphs, on CUDA

	// The swarm.
	Sync             string  `mapstructure:"sync" yaml:"sync" json:"sync"`                                        // SyncBarrier or SyncAsync
	BarrierDeadline  float64 `mapstructure:"barrier_deadline" yaml:"barrier_deadline" json:"barrier_deadline"`    // maximum seconds to wait for peers' rollouts
	BarrierQuorum    float64 `mapstructure:"barrier_quorum" yaml:"barrier_quorum" json:"barrier_quorum"`          // share of nodes (0-1] that must have shared for a round to be complete at the deadline
	MaxStaleness     int     `mapstructure:"max_staleness" yaml:"max_staleness" json:"max_staleness"`             // with async: use rollouts that arrived within this many of the node's rounds
	MaxPeers         int     `mapstructure:"max_peers" yaml:"max_peers" json:"max_peers"`                         // peers a node gathers from in a round, drawn each round; 0: all
	ExternalSampling string  `mapstructure:"external_sampling" yaml:"external_sampling" json:"external_sampling"` // one of Sampling*

	// What the paper leaves open. Each key is an ablation or an alternative policy.
	ZeroAdvantageFilter     bool    `mapstructure:"zero_advantage_filter" yaml:"zero_advantage_filter" json:"zero_advantage_filter"`             // before the draw, drop externals whose rewards are all equal
	ExternalAdvantage       string  `mapstructure:"external_advantage" yaml:"external_advantage" json:"external_advantage"`                      // one of Advantage*: which of others' completions to learn from
	ExternalCorrection      string  `mapstructure:"external_correction" yaml:"external_correction" json:"external_correction"`                   // one of Correction*: how to correct for completions sampled by another policy
	ExternalDivergence      float64 `mapstructure:"external_divergence" yaml:"external_divergence" json:"external_divergence"`                   // for CorrectionFTIS: drop a negative completion above this many nats per token
	ExternalFilter          string  `mapstructure:"external_filter" yaml:"external_filter" json:"external_filter"`                               // one of Filter*: which of others' rollouts to refuse after the draw
	ExternalFilterThreshold float64 `mapstructure:"external_filter_threshold" yaml:"external_filter_threshold" json:"external_filter_threshold"` // for FilterLikelihood: nats per token, mean of four in a row
	ExternalLag             int     `mapstructure:"external_lag" yaml:"external_lag" json:"external_lag"`                                        // with barrier: age in rounds of others' rollouts when drawn
	Split                   string  `mapstructure:"split" yaml:"split" json:"split"`                                                             // one of Split*: the rule for a round's I and J; their sum stays I+J above
	SplitAlpha              float64 `mapstructure:"split_alpha" yaml:"split_alpha" json:"split_alpha"`                                           // for SplitRewardEMA: what a reward of 1 above the average adds to J
	SplitEMA                float64 `mapstructure:"split_ema" yaml:"split_ema" json:"split_ema"`                                                 // for SplitRewardEMA: decay of the average per round
	SplitEvery              int     `mapstructure:"split_every" yaml:"split_every" json:"split_every"`                                           // for SplitBandit: rounds that a node keeps a split before it judges the split

	EvalEvery       int `mapstructure:"eval_every" yaml:"eval_every" json:"eval_every"`                   // rounds between held-out evaluations; 0: only at the end
	EvalQuestions   int `mapstructure:"eval_questions" yaml:"eval_questions" json:"eval_questions"`       // held-out questions; 0: no evaluation
	EvalGenerations int `mapstructure:"eval_generations" yaml:"eval_generations" json:"eval_generations"` // completions per question

	EvalDraws string `mapstructure:"eval_draws" yaml:"eval_draws" json:"eval_draws"` // one of Draws*: the random numbers of evaluations

	CheckpointEvery int `mapstructure:"checkpoint_every" yaml:"checkpoint_every" json:"checkpoint_every"` // rounds

	// Held-out questions beside the evaluation's, by which a node's best weights are chosen and kept; 0: none are kept.
	ValidationQuestions int `mapstructure:"validation_questions" yaml:"validation_questions" json:"validation_questions"`

	// The host.
	Share       string `mapstructure:"share" yaml:"share" json:"share"`                         // auto, static, lease, mps: how nodes share a GPU
	GPUsPerNode int    `mapstructure:"gpus_per_node" yaml:"gpus_per_node" json:"gpus_per_node"` // data-parallel ranks of one node
	CPUFallback bool   `mapstructure:"cpu_fallback" yaml:"cpu_fallback" json:"cpu_fallback"`    // let a node that fits no GPU train on the CPU
	MaxRestarts int    `mapstructure:"max_restarts" yaml:"max_restarts" json:"max_restarts"`    // restarts of one node before the run gives it up
	OnAlarm     string `mapstructure:"on_alarm" yaml:"on_alarm" json:"on_alarm"`                // one of Alarm*: what follows when gradients grow as before a collapse
}

// Values of Config.EvalDraws. With both, a node samples every evaluation with the same random numbers, in every round
// and run, so that its evaluations differ by its weights.
const (
	DrawsAuto   = "auto"   // node for a new run. Planning resolves it: no run is stored with it
	DrawsNode   = "node"   // each node has its own, so that completions of several nodes are independent
	DrawsShared = "shared" // all nodes have the same: nodes with equal weights give equal completions
)

// Values of Config.OnAlarm.
const (
	AlarmWarn  = "warn"       // the run continues
	AlarmStop  = "stop"       // the run stops cleanly
	AlarmLower = "lower-rate" // the learning rate becomes lower from a later round on: a part of the algorithm
)

// Alarms lists them.
func Alarms() []string { return []string{AlarmWarn, AlarmStop, AlarmLower} }

// AlarmLower divides the learning rate by AlarmLowerBy, beginning AlarmLead rounds after the alarm's round. By then
// every node knows of the alarm.
const (
	AlarmLowerBy = 3
	AlarmLead    = 20
)

// Values of Config.Sync.
const (
	SyncBarrier = "barrier" // every node waits at the end of a round for the others' rollouts
	SyncAsync   = "async"   // no node waits
)

// Values of Config.ExternalSampling.
const (
	SamplingAuto    = "auto"    // uniform at the barrier, as in the paper; fair when async
	SamplingUniform = "uniform" // all rollouts are equally likely
	SamplingFair    = "fair"    // all peers are equally likely, however much each shares
	SamplingReward  = "reward"  // proportional to a rollout's mean reward, as the receiver scores it
	SamplingTop     = "top"     // the rollouts with the highest total reward; none without any reward
)

// Values of Config.ExternalAdvantage.
const (
	AdvantageAll      = "all"      // raise completions better than their group's mean, lower the worse ones, as in the paper
	AdvantagePositive = "positive" // raise completions better than their group's mean, ignore the others
)

// Values of Config.ExternalCorrection.
const (
	CorrectionAuto       = "auto"       // importance if a new run takes others' rollouts, else none. Planning resolves it: no run is stored with it
	CorrectionNone       = "none"       // treat others' completions like the node's own, as in the paper
	CorrectionImportance = "importance" // weight by the ratio of this policy's likelihood to the sampling policy's
	CorrectionTapered    = "tapered"    // TOPR: raised completions count in full, lowered ones by their likelihood under this policy
	CorrectionFTIS       = "ftis"       // F-TIS: truncated ratios; drop completions to be lowered that are far from this policy
)

// Corrections lists the values of Config.ExternalCorrection.
func Corrections() []string {
	return []string{CorrectionAuto, CorrectionNone, CorrectionImportance, CorrectionTapered, CorrectionFTIS}
}

// Corrects tells whether others' completions are weighted by likelihood. Nodes then share their log-probabilities.
func (c Config) Corrects() bool {
	return slices.Contains([]string{CorrectionImportance, CorrectionTapered, CorrectionFTIS}, c.ExternalCorrection)
}

// Values of Config.ExternalFilter.
const (
	FilterAuto       = "auto"       // likelihood if other hosts may join a new run with the same model, else none. Planning resolves it
	FilterNone       = "none"       // no filter, as in the paper
	FilterLikelihood = "likelihood" // refuse rollouts with consecutive tokens that this node's policy finds almost impossible
)

// Filters lists the values of Config.ExternalFilter.
func Filters() []string { return []string{FilterAuto, FilterNone, FilterLikelihood} }

// KeepsLogprobs tells whether a round needs the log-probabilities of its own samples.
func (c Config) KeepsLogprobs() bool { return c.NumIterations > 1 || c.Corrects() }

// Values of Config.Split.
const (
	SplitFixed     = "fixed"      // the configured I and J in every round
	SplitRewardEMA = "reward-ema" // the predecessor's rule: J follows the round's reward relative to its average
	SplitBandit    = "bandit"     // choose J by the held-out reward that a split gained for its cost
)

// Adaptive tells whether I and J change from round to round.
func (c Config) Adaptive() bool { return c.Split == SplitRewardEMA || c.Split == SplitBandit }

// Budget returns the maximum number of groups that a round trains on: I+J, whatever the split.
func (c Config) Budget() int { return c.NumTrainSamples + c.NumTransplantTrees }

// MostOwn returns the maximum number of own questions in a round: I, or I+J if the split is adaptive.
func (c Config) MostOwn() int {
	if c.Adaptive() {
		return c.Budget()
	}
	return c.NumTrainSamples
}

// MostExternal returns the maximum number of rollouts that a round takes from others: J, or I+J-1 if the split is
// adaptive.
func (c Config) MostExternal() int {
	if c.Adaptive() {
		return c.Budget() - 1
	}
	return c.NumTransplantTrees
}

// UnmarshalJSON reads the configuration that a run was stored with. A key that the older program did not have gets
// the value that program behaved by: for keys whose default is auto today none or shared, else the default.
func (c *Config) UnmarshalJSON(data []byte) error {
	type plain Config
	stored, d := plain(*c), Default()
	stored.ZeroAdvantageFilter, stored.ExternalAdvantage, stored.ExternalLag = d.ZeroAdvantageFilter, d.ExternalAdvantage, d.ExternalLag
	stored.ExternalCorrection, stored.ExternalFilter, stored.Split = CorrectionNone, FilterNone, d.Split
	stored.ExternalDivergence, stored.ExternalFilterThreshold = d.ExternalDivergence, d.ExternalFilterThreshold
	stored.SplitAlpha, stored.SplitEMA, stored.SplitEvery = d.SplitAlpha, d.SplitEMA, d.SplitEvery
	stored.OnAlarm, stored.EvalDraws = d.OnAlarm, DrawsShared
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*c = Config(stored)
	return nil
}

// Async tells whether nodes train without waiting for each other.
func (c Config) Async() bool { return c.Sync == SyncAsync }

// Fair tells whether others' rollouts are drawn by peer.
func (c Config) Fair() bool {
	return c.ExternalSampling == SamplingFair || c.ExternalSampling == SamplingAuto && c.Async()
}

// ResolvedPrecision returns the precision that Precision stands for on a CUDA device, or on a CPU. If the GPUs have
// no TF32, planning has already replaced auto.
func (c Config) ResolvedPrecision(cuda bool) string {
	switch {
	case c.Precision != "auto":
		return c.Precision
	case cuda:
		return "tf32"
	}
	return "fp32"
}

// Tasks is the source of questions: a built-in task set, or a file of items.
type Tasks struct {
	Set          string     `mapstructure:"set" yaml:"set" json:"set"`                                    // paper, nano
	File         string     `mapstructure:"file" yaml:"file,omitempty" json:"file,omitempty"`             // JSON lines of question, answer, metadata; replaces set
	Words        string     `mapstructure:"words" yaml:"words,omitempty" json:"words,omitempty"`          // a word list for bf, one word a line
	SystemPrompt string     `mapstructure:"system_prompt" yaml:"system_prompt" json:"system_prompt"`      // one of default, simple, direct, ..., none
	Examples     int        `mapstructure:"examples" yaml:"examples,omitempty" json:"examples,omitempty"` // solved questions of the same task before each question
	Mixture      []TaskSpec `mapstructure:"mixture" yaml:"mixture,omitempty" json:"mixture,omitempty"`    // the set's tasks, filled in when resolved; or the user's own
}

// TaskSpec is one task of a mixture. Params has the library's parameter names.
type TaskSpec struct {
	Name   string         `mapstructure:"name" yaml:"name" json:"name"`
	Weight float64        `mapstructure:"weight" yaml:"weight" json:"weight"`
	Params map[string]any `mapstructure:"params" yaml:"params" json:"params"`
}

// Model is a model preset: its weights, tokenizer, shape, and the defaults of experiments that use it.
type Model struct {
	Name          string         `yaml:"name" json:"name"`
	Weights       string         `yaml:"weights" json:"weights"`                         // "embedded", a Hugging Face id such as openai-community/gpt2, or a folder's absolute path
	DownloadBytes int64          `yaml:"download_bytes" json:"download_bytes,omitempty"` // approximate size of the weights on the hub; 0: unknown
	License       string         `yaml:"license" json:"license,omitempty"`               // license of the weights, an SPDX name if one exists
	Tokenizer     string         `yaml:"tokenizer" json:"tokenizer"`                     // bytes, gpt2, or huggingface: the tokenizer.json beside the weights
	Shape         Shape          `yaml:"shape" json:"shape"`
	GuideMemory   GuideMemory    `yaml:"guide_memory" json:"guide_memory"`
	Defaults      map[string]any `yaml:"defaults" json:"defaults"`           // Config keys
	Pretrain      *Recipe        `yaml:"pretrain" json:"pretrain,omitempty"` // how swarm pretrain makes its weights; nil: no recipe
}

// Folder tells whether the weights are in a user's folder rather than a preset's.
func (m Model) Folder() bool { return filepath.IsAbs(m.Weights) }

// Shape is the size of a decoder-only transformer. Zero means "as GPT-2" in the fields that GPT-2 does not need. The
// methods KeyValueHeads, InnerWidth, HeadWidth and Tied resolve these zeros.
type Shape struct {
	Architecture string `yaml:"architecture" json:"architecture,omitempty"` // model_type of its config.json, one of Architectures; "": gpt2
	Layers       int    `yaml:"layers" json:"layers"`
	Heads        int    `yaml:"heads" json:"heads"`
	KVHeads      int    `yaml:"kv_heads" json:"kv_heads,omitempty"` // key and value heads of grouped-query attention; 0: Heads
	Width        int    `yaml:"width" json:"width"`
	Inner        int    `yaml:"inner" json:"inner,omitempty"`         // width of the feed-forward layer; 0: 4 times Width
	HeadSize     int    `yaml:"head_size" json:"head_size,omitempty"` // 0: Width / Heads
	Context      int    `yaml:"context" json:"context"`
	Vocabulary   int    `yaml:"vocabulary" json:"vocabulary"`
	Untied       bool   `yaml:"untied" json:"untied,omitempty"` // the output head is a separate tensor, not the token embedding
	Parameters   int64  `yaml:"parameters" json:"parameters"`   // tied weights counted once
}

// GuideMemory is guide 4's breakdown of a node's GPU memory, in bytes. A zero means that the guide has no figure.
type GuideMemory struct {
	Weights               int64 `yaml:"weights" json:"weights"`
	Forward               int64 `yaml:"forward" json:"forward"`
	GradientsAndOptimizer int64 `yaml:"gradients_and_optimizer" json:"gradients_and_optimizer"`
	Working               int64 `yaml:"working" json:"working"`
}

// Total returns a node's memory by the guide, in bytes.
func (g GuideMemory) Total() int64 {
	return g.Weights + g.Forward + g.GradientsAndOptimizer + g.Working
}

// GPU is one row of guide 4's table (docs/GUIDES.md): the number of nodes of each model on a card.
type GPU struct {
	Name        string         `yaml:"name" json:"name"`
	Match       []string       `yaml:"match" json:"match"`               // substrings of NVML's product name
	MemoryBytes int64          `yaml:"memory_bytes" json:"memory_bytes"` // minimum memory of the cards in this row
	Nodes       map[string]int `yaml:"nodes" json:"nodes"`               // model preset -> nodes
}

// Key returns the model's name in a configuration: a preset, or a folder.
func (m Model) Key() string {
	if m.Folder() {
		return m.Weights
	}
	return m.Name
}
