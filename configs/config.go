// Package configs defines an experiment: the configuration's types, defaults and checks, and the presets (experiments,
// models, task sets, GPUs) that are part of the program. It is a leaf: it imports nothing of this module and reads no
// file, flag or environment variable itself (cmd/swarm does, through viper).
package configs

import (
	"encoding/json"
	"path/filepath"
	"slices"
)

// Config is one experiment, resolved. Keys are the field's standard (TRL's GRPO) names; the same keys serve YAML files,
// SWARM_… environment variables and flags. It is stored with every run.
type Config struct {
	Experiment string `mapstructure:"experiment" yaml:"experiment" json:"experiment"` // name; the preset's when not given
	Preset     string `mapstructure:"preset" yaml:"preset" json:"preset"`             // experiment preset it started from
	Seed       int64  `mapstructure:"seed" yaml:"seed" json:"seed"`
	Rounds     int    `mapstructure:"rounds" yaml:"rounds" json:"rounds"`
	SwarmSize  int    `mapstructure:"swarm_size" yaml:"swarm_size" json:"swarm_size"` // most nodes the experiment has

	// The paper's I, J and G.
	NumTrainSamples    int `mapstructure:"num_train_samples" yaml:"num_train_samples" json:"num_train_samples"`
	NumTransplantTrees int `mapstructure:"num_transplant_trees" yaml:"num_transplant_trees" json:"num_transplant_trees"`
	NumGenerations     int `mapstructure:"num_generations" yaml:"num_generations" json:"num_generations"`

	Model     string   `mapstructure:"model" yaml:"model" json:"model"`                        // a model preset's name or a Hugging Face directory
	Models    string   `mapstructure:"models" yaml:"models,omitempty" json:"models,omitempty"` // a swarm of different models, nano=4,micro=4; empty: all nodes have model
	Members   []Member `mapstructure:"-" yaml:"-" json:"members,omitempty"`                    // Models, resolved: not a key
	Device    string   `mapstructure:"device" yaml:"device" json:"device"`                     // auto, cpu, cuda
	Precision string   `mapstructure:"precision" yaml:"precision" json:"precision"`            // auto (tf32 on CUDA, fp16 on Volta and Turing, fp32 on a CPU), fp32, tf32, bf16, fp16
	Tasks     Tasks    `mapstructure:"tasks" yaml:"tasks" json:"tasks"`

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
	MicroBatch            int     `mapstructure:"micro_batch" yaml:"micro_batch" json:"micro_batch"`       // sequences a forward pass; 0: the whole batch
	GradientCheckpointing bool    `mapstructure:"gradient_checkpointing" yaml:"gradient_checkpointing" json:"gradient_checkpointing"`

	// Memory (guides 0 and 1). None of these changes what is learnt, only what it takes.
	GradientAccumulationSteps int  `mapstructure:"gradient_accumulation_steps" yaml:"gradient_accumulation_steps" json:"gradient_accumulation_steps"` // least micro-batches an update
	AutoBatchSize             bool `mapstructure:"auto_batch_size" yaml:"auto_batch_size" json:"auto_batch_size"`                                     // micro_batch is a limit; a node takes less where its memory budget asks for it
	OptimizerOffload          bool `mapstructure:"optimizer_offload" yaml:"optimizer_offload" json:"optimizer_offload"`                               // Adam's moments wait on the host
	ParamOffload              bool `mapstructure:"param_offload" yaml:"param_offload" json:"param_offload"`                                           // weights, too, while the node has no lease
	ClearCacheEveryNRounds    int  `mapstructure:"clear_cache_every_n_rounds" yaml:"clear_cache_every_n_rounds" json:"clear_cache_every_n_rounds"`    // 0: never
	CUDAGraphs                bool `mapstructure:"cuda_graphs" yaml:"cuda_graphs" json:"cuda_graphs"`                                                 // decode in CUDA graphs, on CUDA

	// The swarm.
	Sync             string  `mapstructure:"sync" yaml:"sync" json:"sync"`                                        // SyncBarrier or SyncAsync
	BarrierDeadline  float64 `mapstructure:"barrier_deadline" yaml:"barrier_deadline" json:"barrier_deadline"`    // seconds a node waits for its peers' rollouts
	BarrierQuorum    float64 `mapstructure:"barrier_quorum" yaml:"barrier_quorum" json:"barrier_quorum"`          // share of nodes (0-1] that must have shared for a round to count as whole at the deadline
	MaxStaleness     int     `mapstructure:"max_staleness" yaml:"max_staleness" json:"max_staleness"`             // with async: rollouts that arrived in so many of the node's rounds before this one count
	MaxPeers         int     `mapstructure:"max_peers" yaml:"max_peers" json:"max_peers"`                         // peers a node gathers from in a round; of more it draws so many. 0: all
	ExternalSampling string  `mapstructure:"external_sampling" yaml:"external_sampling" json:"external_sampling"` // one of Sampling*

	// What the paper leaves open, each an ablation or a policy of its own.
	ZeroAdvantageFilter     bool    `mapstructure:"zero_advantage_filter" yaml:"zero_advantage_filter" json:"zero_advantage_filter"`             // externals whose rewards are all equal are dropped before the draw
	ExternalAdvantage       string  `mapstructure:"external_advantage" yaml:"external_advantage" json:"external_advantage"`                      // one of Advantage*: which of others' completions teach
	ExternalCorrection      string  `mapstructure:"external_correction" yaml:"external_correction" json:"external_correction"`                   // one of Correction*: what makes up for that others' completions are not this policy's
	ExternalDivergence      float64 `mapstructure:"external_divergence" yaml:"external_divergence" json:"external_divergence"`                   // of CorrectionFTIS: nats a token above which a negative completion is dropped
	ExternalFilter          string  `mapstructure:"external_filter" yaml:"external_filter" json:"external_filter"`                               // one of Filter*: which of others' rollouts are refused after they were drawn
	ExternalFilterThreshold float64 `mapstructure:"external_filter_threshold" yaml:"external_filter_threshold" json:"external_filter_threshold"` // of FilterLikelihood: nats a token, mean of four in a row
	ExternalLag             int     `mapstructure:"external_lag" yaml:"external_lag" json:"external_lag"`                                        // at the barrier: rounds that the others' rollouts are old
	Split                   string  `mapstructure:"split" yaml:"split" json:"split"`                                                             // one of Split*: who decides a round's I and J; their sum is I+J above
	SplitAlpha              float64 `mapstructure:"split_alpha" yaml:"split_alpha" json:"split_alpha"`                                           // of SplitRewardEMA: what a reward of 1 above the average adds to J
	SplitEMA                float64 `mapstructure:"split_ema" yaml:"split_ema" json:"split_ema"`                                                 // of SplitRewardEMA: decay of the average, a round
	SplitEvery              int     `mapstructure:"split_every" yaml:"split_every" json:"split_every"`                                           // of SplitBandit: rounds a node keeps a split before it judges it

	EvalEvery       int `mapstructure:"eval_every" yaml:"eval_every" json:"eval_every"`                   // rounds between held-out evaluations; 0: only at the end
	EvalQuestions   int `mapstructure:"eval_questions" yaml:"eval_questions" json:"eval_questions"`       // held-out questions; 0: no evaluation
	EvalGenerations int `mapstructure:"eval_generations" yaml:"eval_generations" json:"eval_generations"` // completions a question
	CheckpointEvery int `mapstructure:"checkpoint_every" yaml:"checkpoint_every" json:"checkpoint_every"` // rounds

	// The host.
	Share       string `mapstructure:"share" yaml:"share" json:"share"`                         // auto, static, lease, mps: how nodes share a GPU
	GPUsPerNode int    `mapstructure:"gpus_per_node" yaml:"gpus_per_node" json:"gpus_per_node"` // data-parallel ranks of one node
	CPUFallback bool   `mapstructure:"cpu_fallback" yaml:"cpu_fallback" json:"cpu_fallback"`    // a node that no GPU can hold may train on the CPU
	MaxRestarts int    `mapstructure:"max_restarts" yaml:"max_restarts" json:"max_restarts"`    // of one node before it is given up
}

// Values of Config.Sync.
const (
	SyncBarrier = "barrier" // every node waits at the end of a round for the others' rollouts
	SyncAsync   = "async"   // nobody waits
)

// Values of Config.ExternalSampling.
const (
	SamplingAuto    = "auto"    // uniform at the barrier, as in the paper; fair when async
	SamplingUniform = "uniform" // every rollout is as likely
	SamplingFair    = "fair"    // every peer is as likely, however much it shares
	SamplingReward  = "reward"  // a rollout is as likely as its mean reward is high, as the receiver scores it
	SamplingTop     = "top"     // those with the highest total reward; none without any reward
)

// Values of Config.ExternalAdvantage.
const (
	AdvantageAll      = "all"      // the better ones are raised, the worse ones lowered, as in the paper
	AdvantagePositive = "positive" // those better than their group's mean are raised, the others teach nothing
)

// Values of Config.ExternalCorrection.
const (
	CorrectionAuto       = "auto"       // of a new run: importance where rounds take others' rollouts, else none. Planning decides it: no run is stored with it
	CorrectionNone       = "none"       // others' completions count as one's own, as in the paper
	CorrectionImportance = "importance" // they are weighted by how likely they are here over how likely they were there
	CorrectionTapered    = "tapered"    // TOPR: what is raised counts in full, what is lowered as much as it is likely here
	CorrectionFTIS       = "ftis"       // F-TIS: truncated ratios, and what is to be lowered is dropped where it is far from this policy
)

// Corrections lists them.
func Corrections() []string {
	return []string{CorrectionAuto, CorrectionNone, CorrectionImportance, CorrectionTapered, CorrectionFTIS}
}

// Corrects tells whether others' completions are weighted by their likelihood, so that nodes tell theirs.
func (c Config) Corrects() bool {
	return slices.Contains([]string{CorrectionImportance, CorrectionTapered, CorrectionFTIS}, c.ExternalCorrection)
}

// Values of Config.ExternalFilter.
const (
	FilterAuto       = "auto"       // of a new run: likelihood where other hosts may join with the same model, else none. Planning decides it
	FilterNone       = "none"       // as in the paper
	FilterLikelihood = "likelihood" // refused are those with tokens in a row that this node's policy finds all but impossible
)

// Filters lists them.
func Filters() []string { return []string{FilterAuto, FilterNone, FilterLikelihood} }

// KeepsLogprobs tells whether a round needs the log-probabilities of what it sampled.
func (c Config) KeepsLogprobs() bool { return c.NumIterations > 1 || c.Corrects() }

// Values of Config.Split.
const (
	SplitFixed     = "fixed"      // every round's I and J are the configured ones
	SplitRewardEMA = "reward-ema" // the predecessor's rule: J follows the round's reward against its average
	SplitBandit    = "bandit"     // J by what held-out reward a split gained for its cost
)

// Adaptive tells whether a round's I and J are decided round by round.
func (c Config) Adaptive() bool { return c.Split == SplitRewardEMA || c.Split == SplitBandit }

// Budget is how many groups a round trains on at most: I+J, whatever the split.
func (c Config) Budget() int { return c.NumTrainSamples + c.NumTransplantTrees }

// MostOwn is the most own questions that a round may have: I, or all of I+J where the split is decided round by round.
func (c Config) MostOwn() int {
	if c.Adaptive() {
		return c.Budget()
	}
	return c.NumTrainSamples
}

// MostExternal is the most rollouts that a round may take from others: J, or all of I+J but one.
func (c Config) MostExternal() int {
	if c.Adaptive() {
		return c.Budget() - 1
	}
	return c.NumTransplantTrees
}

// UnmarshalJSON reads a configuration that a run was stored with. Keys that its program did not have yet are what they
// were in effect then: none for what is auto today, else as by default.
func (c *Config) UnmarshalJSON(data []byte) error {
	type plain Config
	stored, d := plain(*c), Default()
	stored.ZeroAdvantageFilter, stored.ExternalAdvantage, stored.ExternalLag = d.ZeroAdvantageFilter, d.ExternalAdvantage, d.ExternalLag
	stored.ExternalCorrection, stored.ExternalFilter, stored.Split = CorrectionNone, FilterNone, d.Split
	stored.ExternalDivergence, stored.ExternalFilterThreshold = d.ExternalDivergence, d.ExternalFilterThreshold
	stored.SplitAlpha, stored.SplitEMA, stored.SplitEvery = d.SplitAlpha, d.SplitEMA, d.SplitEvery
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*c = Config(stored)
	return nil
}

// Async tells whether nobody waits for anybody.
func (c Config) Async() bool { return c.Sync == SyncAsync }

// Fair tells whether others' rollouts are drawn by peer.
func (c Config) Fair() bool {
	return c.ExternalSampling == SamplingFair || c.ExternalSampling == SamplingAuto && c.Async()
}

// ResolvedPrecision is what Precision means on a CUDA device, or on a CPU. Where the GPUs have no TF32, planning has
// replaced auto.
func (c Config) ResolvedPrecision(cuda bool) string {
	switch {
	case c.Precision != "auto":
		return c.Precision
	case cuda:
		return "tf32"
	}
	return "fp32"
}

// Tasks says where questions come from: a task set of the program's, or a file of items.
type Tasks struct {
	Set          string     `mapstructure:"set" yaml:"set" json:"set"`                                 // paper, nano
	File         string     `mapstructure:"file" yaml:"file,omitempty" json:"file,omitempty"`          // JSON lines of question, answer, metadata; replaces set
	Words        string     `mapstructure:"words" yaml:"words,omitempty" json:"words,omitempty"`       // a word list for bf, one a line
	SystemPrompt string     `mapstructure:"system_prompt" yaml:"system_prompt" json:"system_prompt"`   // a name: default, simple, direct, ..., none
	Mixture      []TaskSpec `mapstructure:"mixture" yaml:"mixture,omitempty" json:"mixture,omitempty"` // the set's tasks, filled in when resolved; or the user's own
}

// TaskSpec is one task of a mixture with the library's parameter names.
type TaskSpec struct {
	Name   string         `mapstructure:"name" yaml:"name" json:"name"`
	Weight float64        `mapstructure:"weight" yaml:"weight" json:"weight"`
	Params map[string]any `mapstructure:"params" yaml:"params" json:"params"`
}

// Model is a model preset: where its weights are, how text becomes tokens, its shape, and what an experiment that
// uses it should default to.
type Model struct {
	Name          string         `yaml:"name" json:"name"`
	Weights       string         `yaml:"weights" json:"weights"`                         // "embedded", a Hugging Face id such as openai-community/gpt2, or a folder's absolute path
	DownloadBytes int64          `yaml:"download_bytes" json:"download_bytes,omitempty"` // of the weights on the hub, about; 0: not known
	License       string         `yaml:"license" json:"license,omitempty"`               // of the weights, an SPDX name where there is one
	Tokenizer     string         `yaml:"tokenizer" json:"tokenizer"`                     // bytes, gpt2, or huggingface: the tokenizer.json beside the weights
	Shape         Shape          `yaml:"shape" json:"shape"`
	GuideMemory   GuideMemory    `yaml:"guide_memory" json:"guide_memory"`
	Defaults      map[string]any `yaml:"defaults" json:"defaults"`           // Config keys
	Pretrain      *Recipe        `yaml:"pretrain" json:"pretrain,omitempty"` // how swarm pretrain makes its weights; nil: it doesn't say
}

// Folder tells whether the weights are in a folder of the user's rather than a preset's.
func (m Model) Folder() bool { return filepath.IsAbs(m.Weights) }

// Shape is a decoder-only transformer's size. In the fields that GPT-2 has no need of, zero means "as GPT-2"; the
// methods of the same meaning (KeyValueHeads, InnerWidth, HeadWidth, Tied) resolve it.
type Shape struct {
	Architecture string `yaml:"architecture" json:"architecture,omitempty"` // model_type of its config.json, one of Architectures; "": gpt2
	Layers       int    `yaml:"layers" json:"layers"`
	Heads        int    `yaml:"heads" json:"heads"`
	KVHeads      int    `yaml:"kv_heads" json:"kv_heads,omitempty"` // key and value heads, of grouped-query attention; 0: as many as Heads
	Width        int    `yaml:"width" json:"width"`
	Inner        int    `yaml:"inner" json:"inner,omitempty"`         // width of the feed-forward layer; 0: 4 times Width
	HeadSize     int    `yaml:"head_size" json:"head_size,omitempty"` // 0: Width / Heads
	Context      int    `yaml:"context" json:"context"`
	Vocabulary   int    `yaml:"vocabulary" json:"vocabulary"`
	Untied       bool   `yaml:"untied" json:"untied,omitempty"` // the output head is a tensor of its own, not the token embedding
	Parameters   int64  `yaml:"parameters" json:"parameters"`   // tied weights counted once
}

// GuideMemory is guide 4's breakdown of a node's GPU memory, in bytes. Zero where the guide has none.
type GuideMemory struct {
	Weights               int64 `yaml:"weights" json:"weights"`
	Forward               int64 `yaml:"forward" json:"forward"`
	GradientsAndOptimizer int64 `yaml:"gradients_and_optimizer" json:"gradients_and_optimizer"`
	Working               int64 `yaml:"working" json:"working"`
}

// Total is what a node takes by the guide, in bytes.
func (g GuideMemory) Total() int64 {
	return g.Weights + g.Forward + g.GradientsAndOptimizer + g.Working
}

// GPU is one row of the table of guide 4 (docs/GUIDES.md): the number of nodes of a model on a card.
type GPU struct {
	Name        string         `yaml:"name" json:"name"`
	Match       []string       `yaml:"match" json:"match"`               // substrings of NVML's product name
	MemoryBytes int64          `yaml:"memory_bytes" json:"memory_bytes"` // least memory the row stands for
	Nodes       map[string]int `yaml:"nodes" json:"nodes"`               // model preset -> nodes
}

// Key is the model as a configuration names it: a preset, or a folder.
func (m Model) Key() string {
	if m.Folder() {
		return m.Weights
	}
	return m.Name
}
