package policy

import "encoding/json"

// The protocol between a node and its engine: one JSON object a line, requests on the engine's stdin, answers in
// the same order on its stdout; stderr is the engine's log. The engine exits when its stdin closes. Token
// ids, seeds and sizes are integers below 2^53; bytes are bytes, times are seconds.

// ProtocolVersion is the version both sides must name in hello.
const ProtocolVersion = 5

// MaxLine bounds one message in bytes (an update of 64 sequences of 1024 tokens takes about 0.5 MB).
const MaxLine = 64 << 20

// Request is the envelope of every call; Params is one of the *Params types below.
type Request struct {
	ID     int64  `json:"id"`
	Call   string `json:"call"` // hello load generate update logprobs save saved restore configure memory trim exit
	Params any    `json:"params,omitempty"`
}

// Response is the envelope of every answer: a result, one of the *Result types below, or an error.
type Response struct {
	ID     int64           `json:"id"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}

// Error kinds an engine reports.
const (
	KindBadRequest  = "bad_request"   // the call's arguments are wrong; nothing changed
	KindModel       = "model"         // the model directory can't be read or is of an unknown architecture
	KindDevice      = "device"        // the device isn't there
	KindSelfTest    = "self_test"     // sampling and training disagree beyond rounding: this torch computes wrong numbers here
	KindOutOfMemory = "out_of_memory" // device or host memory; weights and optimizer are as before the call
	KindCheckpoint  = "checkpoint"    // a checkpoint can't be written or read
	KindNotFinite   = "not_finite"    // the gradient is NaN or infinite; no step was taken
	KindInternal    = "internal"      // a fault in the engine
)

// Error is what an engine answers instead of a result.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// Shortage is set with KindOutOfMemory.
	Shortage *Shortage `json:"shortage,omitempty"`
}

// Shortage says how memory ran out, in bytes; what isn't known is 0.
type Shortage struct {
	Where          string `json:"where"`           // "device", "host"
	RequestedBytes int64  `json:"requested_bytes"` // the allocation that failed
	UsedBytes      int64  `json:"used_bytes"`      // device: reserved by this engine's allocator; host: resident
	CapBytes       int64  `json:"cap_bytes"`       // device: MemoryCapBytes; host: the tightest of RLIMIT_AS and the cgroup's limit; 0 none
	FreeBytes      int64  `json:"free_bytes"`      // of the device as the driver says; of the host
	TotalBytes     int64  `json:"total_bytes"`
}

func (e *Error) Error() string { return "engine: " + e.Message }

// HelloParams opens the conversation.
type HelloParams struct {
	Protocol int `json:"protocol"`
}

// HelloResult tells what the engine runs on.
type HelloResult struct {
	Protocol int      `json:"protocol"`
	Torch    string   `json:"torch"`
	Python   string   `json:"python"`
	BLAS     string   `json:"blas"`      // e.g. "openblas", "mkl", as far as torch tells
	CUDA     bool     `json:"cuda"`      // torch can use a CUDA device
	Devices  []string `json:"devices"`   // names of CUDA devices, may be empty
	RSSBytes int64    `json:"rss_bytes"` // of the interpreter with torch imported, before a model is loaded

	AnonymousBytes int64 `json:"anonymous_bytes"` // of these, as in Memory
	PID            int   `json:"pid"`
}

// Interpreter is what of the engine's resident memory is the interpreter's, as of its memory now: what it began with,
// and pages of files. A fork begins without its host's pages of libraries, and gets them back as it touches them.
func (h HelloResult) Interpreter(now Memory) int64 {
	return h.AnonymousBytes + now.RSSBytes - now.AnonymousBytes
}

// LoadParams loads a model and makes a fresh Adam for it.
type LoadParams struct {
	ModelDir              string  `json:"model_dir"`   // holds config.json and *.safetensors; or config.json alone with RandomInit
	RandomInit            bool    `json:"random_init"` // initialise as GPT-2 does (normal 0.02, residual projections scaled) from Seed
	Seed                  int64   `json:"seed"`
	Device                string  `json:"device"`    // "cpu", "cuda", "cuda:N"
	Precision             string  `json:"precision"` // fp32 tf32 bf16 fp16 (cpu: fp32), float64 for tests
	Threads               int     `json:"threads"`   // intra-op CPU threads; 0 leaves torch's default
	GradientCheckpointing bool    `json:"gradient_checkpointing"`
	AdamBeta1             float64 `json:"adam_beta1"`
	AdamBeta2             float64 `json:"adam_beta2"`
	AdamEpsilon           float64 `json:"adam_epsilon"`
	WeightDecay           float64 `json:"weight_decay"`      // decoupled (AdamW); 0 is Adam
	MemoryCapBytes        int64   `json:"memory_cap_bytes"`  // CUDA allocator cap, 0 none
	SelfTest              bool    `json:"self_test"`         // compare log-probabilities of the generate and the update path
	OptimizerOffload      bool    `json:"optimizer_offload"` // Adam's moments live on the host, in pieces on the device during the step
	ParamOffload          bool    `json:"param_offload"`     // trim moves the weights to the host; the next call that needs them brings them back
	CUDAGraphs            bool    `json:"cuda_graphs"`       // decode in CUDA graphs, on CUDA
	// Ranks > 1 are data-parallel processes of this engine, on cuda:0 … cuda:Ranks-1 (nccl) or all on the CPU (gloo).
	// They share the work of generate and update; results are those of one rank.
	Ranks int `json:"ranks,omitempty"`
}

// LoadResult describes the loaded model.
type LoadResult struct {
	Architecture       string  `json:"architecture"` // "gpt2"
	Parameters         int64   `json:"parameters"`   // tied weights counted once
	VocabSize          int     `json:"vocab_size"`
	ContextLength      int     `json:"context_length"` // most tokens in prompt plus completion
	EOSTokenID         int     `json:"eos_token_id"`   // from config.json, -1 if it names none
	Seconds            float64 `json:"seconds"`
	SelfTestMaxAbsDiff float64 `json:"self_test_max_abs_diff"` // largest |difference| of log-probabilities, in nats
	SelfTestLimit      float64 `json:"self_test_limit"`        // what rounding explains; above it a load in full precision fails
	Memory             Memory  `json:"memory"`
}

// GenerateParams asks for NumGenerations completions of each prompt, all in one batch.
type GenerateParams struct {
	Prompts        [][]int `json:"prompts"`         // P prompts of 1 or more token ids, unequal lengths allowed
	NumGenerations int     `json:"num_generations"` // G
	MaxNewTokens   int     `json:"max_new_tokens"`  // prompt+new is cut at the context length
	Temperature    float64 `json:"temperature"`     // > 0; 0 is greedy
	TopK           int     `json:"top_k"`           // 0 off
	TopP           float64 `json:"top_p"`           // 1 off
	EOSTokenID     int     `json:"eos_token_id"`    // -1: none
	Seed           int64   `json:"seed"`            // the completions are a function of weights, prompts, options and Seed
	MicroBatch     int     `json:"micro_batch"`     // most completions decoded at a time, 0: all; changes memory, not what is drawn
}

// GenerateResult holds P·G completions, generation g of prompt p at index p·G+g.
type GenerateResult struct {
	Completions   [][]int     `json:"completions"` // the first EOS is included, nothing follows it
	Logprobs      [][]float64 `json:"logprobs"`    // of each sampled token at the sampling temperature, before top-k/top-p
	Terminated    []bool      `json:"terminated"`  // ended with EOS rather than at the limit
	Entropy       float64     `json:"entropy"`     // mean over sampled tokens, nats
	Seconds       float64     `json:"seconds"`
	PrefillTokens int64       `json:"prefill_tokens"`
	NewTokens     int64       `json:"new_tokens"`
	Memory        Memory      `json:"memory"`
}

// Sequence is one completion of Prompts[Prompt] to learn from or to score.
type Sequence struct {
	Prompt     int     `json:"prompt"`     // index into the call's prompts
	Completion []int   `json:"completion"` // 1 or more token ids, EOS included where it was generated
	Advantage  float64 `json:"advantage,omitempty"`
	// OldLogprobs, when given (length of Completion), are the behavior policy's; when absent the sequence is treated as
	// on-policy: the ratio is 1 on the first iteration, and on later ones is taken against the log-probabilities of the
	// first.
	OldLogprobs []float64 `json:"old_logprobs,omitempty"`
	// SamplingLogprobs, when given (length of Completion), are those that this engine sampled the tokens with, in
	// float32 as most engines compute them. They are compared with what the update computes before its first step, and
	// change nothing.
	SamplingLogprobs []float32 `json:"sampling_logprobs,omitempty"`
	// External tells that another policy sampled it, whose log-probabilities OldLogprobs are.
	External bool `json:"external,omitempty"`
}

// UpdateParams is one GRPO step (NumIterations steps) on a batch of B sequences.
type UpdateParams struct {
	Prompts       [][]int    `json:"prompts"`
	Sequences     []Sequence `json:"sequences"`
	LearningRate  float64    `json:"learning_rate"`
	Temperature   float64    `json:"temperature"`  // logits are divided by it, as when sampling
	Epsilon       float64    `json:"epsilon"`      // clip range below
	EpsilonHigh   float64    `json:"epsilon_high"` // clip range above
	Delta         float64    `json:"delta"`        // bound of the ratio where the advantage is negative, above 1 + EpsilonHigh; 0: none
	Beta          float64    `json:"beta"`         // weight of the KL to the weights as first loaded (k3 estimator); 0: none, no reference kept
	NumIterations int        `json:"num_iterations"`
	// LossType is TRL's: "bnpo" (mean over all completion tokens of the batch), "grpo" (mean over sequences of
	// their token means) or "dr_grpo" (sum over tokens / (B · MaxCompletionLength)).
	LossType            string  `json:"loss_type"`
	MaxCompletionLength int     `json:"max_completion_length"` // for dr_grpo
	MaxGradNorm         float64 `json:"max_grad_norm"`         // 0: no clipping
	// MicroBatch is the most sequences in one forward pass on a device; it changes memory, never the update. On a CPU
	// passes are as small as they can be without taking longer whatever it is, so that it changes nothing, not even
	// rounding.
	MicroBatch int `json:"micro_batch"`
	// Correction says how External sequences with OldLogprobs are weighed: "" clips their ratios as any,
	// CorrectionTapered and CorrectionFTIS weigh them by the policy as the update begins.
	Correction string `json:"correction,omitempty"`
	// Divergence is for CorrectionFTIS: above so many nats a token, mean of log mu - log pi, a sequence with a negative
	// advantage is dropped.
	Divergence float64 `json:"divergence,omitempty"`
}

// Values of UpdateParams.Correction.
const (
	CorrectionTapered = "tapered" // TOPR: weight 1 where the advantage is positive, else clip(pi/mu, 0, 1) of the whole sequence
	CorrectionFTIS    = "ftis"    // F-TIS: each token's ratio, at most 2; negative ones far off are dropped
)

// UpdateResult reports the step. Means are over the same tokens as the loss, over all micro-batches.
type UpdateResult struct {
	Loss        float64 `json:"loss"`
	KL          float64 `json:"kl"`
	GradNorm    float64 `json:"grad_norm"`    // before clipping
	Entropy     float64 `json:"entropy"`      // mean over computed completion tokens, nats
	MeanLogprob float64 `json:"mean_logprob"` // mean log-probability of the computed completion tokens before the step
	// Of the computed tokens with SamplingLogprobs, of which there are SamplingTokens: |log-probability before the
	// first step - the one it was sampled with|, in nats. Both are 0 where there are none.
	SamplingLogpDifferenceMax  float64 `json:"sampling_logp_difference_max"`
	SamplingLogpDifferenceMean float64 `json:"sampling_logp_difference_mean"`
	SamplingTokens             int64   `json:"sampling_tokens"`

	ClipLow  float64 `json:"clip_ratio_low"`
	ClipHigh float64 `json:"clip_ratio_high"`

	// Of the computed tokens of External sequences with OldLogprobs, of which there are ExternalTokens, in the first
	// iteration: the share whose weight was clipped, and the effective sample size of the weights as a share of the
	// tokens. 0 where there are none.
	ExternalClipRatio float64 `json:"external_clip_ratio"`
	ExternalESS       float64 `json:"external_ess"`
	ExternalDropped   int     `json:"external_dropped"` // sequences, by CorrectionFTIS
	ExternalTokens    int64   `json:"external_tokens"`

	Steps             int     `json:"steps"`              // optimizer steps taken: 0 when every advantage is zero
	ComputedSequences int     `json:"computed_sequences"` // rows with a non-zero advantage
	Tokens            int64   `json:"tokens"`             // positions in the forward passes of one iteration, padding excluded
	Seconds           float64 `json:"seconds"`
	Memory            Memory  `json:"memory"`
}

// LogprobsParams scores sequences under the current weights.
type LogprobsParams struct {
	Prompts     [][]int    `json:"prompts"`
	Sequences   []Sequence `json:"sequences"`
	Temperature float64    `json:"temperature"`
	MicroBatch  int        `json:"micro_batch"`
}

// LogprobsResult has one list a sequence, one number a completion token.
type LogprobsResult struct {
	Logprobs [][]float64 `json:"logprobs"`
}

// SaveParams writes the state under Path, atomically (temporary name, fsync, rename).
type SaveParams struct {
	Path string `json:"path"`
	// Format "checkpoint" is one safetensors file with weights, Adam moments and step; "huggingface"
	// is a directory with config.json and model.safetensors (weights alone).
	Format string `json:"format"`
	DType  string `json:"dtype"` // huggingface only: float32 or float16
	// Metadata is kept in the checkpoint and given back by restore.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Background, for a "checkpoint": the answer comes as soon as the state has been copied, with Pending set, and the
	// file is written while other calls are served; "saved" gives the result. Where the host's memory has no room for
	// the copy it is written before the answer, without Pending. A second save, a restore and a load wait for it; exit
	// and the end of stdin do not.
	Background bool `json:"background,omitempty"`
}

// SavedParams asks for the result of the background save. Its answer is a SaveResult, Pending while it is still being
// written and Wait is not set; its error is that of the save. A bad request where there is none, or its result has been
// given.
type SavedParams struct {
	Wait bool `json:"wait"`
}

// SaveResult tells what was written.
type SaveResult struct {
	Pending    bool    `json:"pending,omitempty"` // nothing else is set but Pause
	Pause      float64 `json:"pause"`             // seconds in which no other call could be served
	Bytes      int64   `json:"bytes"`
	SHA256     string  `json:"sha256"`      // of the file
	WeightHash string  `json:"weight_hash"` // sha256 over the weights' bytes in name order: equal weights, equal hash
	Seconds    float64 `json:"seconds"`
}

// RestoreParams reads a "checkpoint" written for the same architecture; SHA256, when given, must match.
type RestoreParams struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
}

// RestoreResult gives the metadata back.
type RestoreResult struct {
	Metadata   map[string]string `json:"metadata"`
	WeightHash string            `json:"weight_hash"`
	Step       int64             `json:"step"` // Adam's
}

// ConfigureParams changes memory settings of a loaded model; what is nil stays. It changes no result.
type ConfigureParams struct {
	GradientCheckpointing *bool  `json:"gradient_checkpointing,omitempty"`
	OptimizerOffload      *bool  `json:"optimizer_offload,omitempty"`
	ParamOffload          *bool  `json:"param_offload,omitempty"`
	CUDAGraphs            *bool  `json:"cuda_graphs,omitempty"`
	MemoryCapBytes        *int64 `json:"memory_cap_bytes,omitempty"`
}

// Memory is the memory of the engine's process. Device fields are zero on CPU.
type Memory struct {
	RSSBytes             int64 `json:"rss_bytes"`
	PeakRSSBytes         int64 `json:"peak_rss_bytes"`  // since start
	AnonymousBytes       int64 `json:"anonymous_bytes"` // of the resident ones those that are no pages of files, such as libraries
	DeviceAllocatedBytes int64 `json:"device_allocated_bytes"`
	DeviceReservedBytes  int64 `json:"device_reserved_bytes"`
	DevicePeakBytes      int64 `json:"device_peak_bytes"` // peak of reserved since load
	DeviceFreeBytes      int64 `json:"device_free_bytes"` // of the whole device, as its driver says
	DeviceTotalBytes     int64 `json:"device_total_bytes"`

	// Of the load, generate or update that this answers (0 in other answers): allocated on a device, resident on a CPU.
	CallBeginBytes int64 `json:"call_begin_bytes"`
	CallPeakBytes  int64 `json:"call_peak_bytes"`
	// The same of what the allocator has reserved: the bytes that the device has fewer free. At the begin that includes
	// what earlier calls left cached.
	CallBeginReservedBytes int64 `json:"call_begin_reserved_bytes"`
	CallPeakReservedBytes  int64 `json:"call_peak_reserved_bytes"`
}

// CallTook is the most that the call took beyond loaded, the bytes that it keeps, weights and optimizer. Of a device it
// counts what the call's reserved memory grew by, where that is more than its tensors: blocks are larger than what lies
// in them. What was cached at the begin is not the call's.
func (m Memory) CallTook(loaded int64) int64 {
	return max(0, m.CallPeakBytes-loaded, m.CallPeakReservedBytes-max(m.CallBeginReservedBytes, loaded))
}
