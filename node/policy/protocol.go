package policy

import "encoding/json"

// The protocol between a node and its engine: one JSON object a line, requests on the engine's stdin, answers in
// the same order on its stdout. stderr is the engine's log. The engine exits when its stdin closes. Token ids,
// seeds and sizes are integers below 2^53. Sizes are in bytes and times in seconds.

// ProtocolVersion is the version that both sides must state in hello.
const ProtocolVersion = 6

// MaxLine bounds one message in bytes. An update of 64 sequences of 1024 tokens has about 0.5 MB.
const MaxLine = 64 << 20

// Request is the envelope of every call. Params is one of the *Params types below.
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

// Error kinds of an engine.
const (
	KindBadRequest  = "bad_request"   // the call's arguments are wrong; nothing changed
	KindModel       = "model"         // the model directory is missing or invalid, or has an unknown architecture
	KindDevice      = "device"        // CUDA does not show the device, perhaps only for now
	KindSelfTest    = "self_test"     // sampling and training disagree beyond rounding: torch computes wrong numbers here
	KindOutOfMemory = "out_of_memory" // device or host memory; weights and optimizer are as before the call
	KindCheckpoint  = "checkpoint"    // cannot write a checkpoint, or it is damaged or missing
	KindUnreadable  = "unreadable"    // reading a checkpoint or the model directory failed; the files may be intact
	KindNotFinite   = "not_finite"    // the gradient is NaN or infinite; no step was taken
	KindInternal    = "internal"      // a fault in the engine
)

// Error is the engine's answer to a failed call.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// Shortage is set with KindOutOfMemory.
	Shortage *Shortage `json:"shortage,omitempty"`
}

// Shortage describes a shortage of memory, in bytes. Unknown figures are 0.
type Shortage struct {
	Where          string `json:"where"`           // "device" or "host"
	RequestedBytes int64  `json:"requested_bytes"` // the allocation that failed
	UsedBytes      int64  `json:"used_bytes"`      // device: reserved by this engine's allocator; host: resident memory
	CapBytes       int64  `json:"cap_bytes"`       // device: MemoryCapBytes; host: the tightest of RLIMIT_AS and the cgroup's limit; 0 none
	FreeBytes      int64  `json:"free_bytes"`      // free memory of the device, as the driver reports it, or of the host
	TotalBytes     int64  `json:"total_bytes"`
}

func (e *Error) Error() string { return "engine: " + e.Message }

// HelloParams is the first call of a connection.
type HelloParams struct {
	Protocol int `json:"protocol"`
}

// HelloResult describes the engine's environment.
type HelloResult struct {
	Protocol int      `json:"protocol"`
	Torch    string   `json:"torch"`
	Python   string   `json:"python"`
	BLAS     string   `json:"blas"`      // such as "openblas" or "mkl", as far as torch reports it
	CUDA     bool     `json:"cuda"`      // torch can use a CUDA device
	Devices  []string `json:"devices"`   // names of CUDA devices; may be empty
	RSSBytes int64    `json:"rss_bytes"` // of the interpreter with torch imported, before a model is loaded

	AnonymousBytes int64 `json:"anonymous_bytes"` // part of RSSBytes, as in Memory
	PID            int   `json:"pid"`
}

// Interpreter returns the interpreter's part of the engine's current resident memory: its anonymous memory at the
// start, and all pages of files. A fork begins without its host's library pages, and gets them as it touches them.
func (h HelloResult) Interpreter(now Memory) int64 {
	return h.AnonymousBytes + now.RSSBytes - now.AnonymousBytes
}

// LoadParams loads a model with a fresh Adam optimizer.
type LoadParams struct {
	ModelDir              string  `json:"model_dir"`   // folder with config.json, and *.safetensors unless RandomInit
	RandomInit            bool    `json:"random_init"` // initialize from Seed like GPT-2 (normal 0.02, residual projections scaled)
	Seed                  int64   `json:"seed"`
	Device                string  `json:"device"`    // "cpu", "cuda", "cuda:N"
	Precision             string  `json:"precision"` // fp32 tf32 bf16 fp16 (cpu: fp32), float64 for tests
	Threads               int     `json:"threads"`   // intra-op CPU threads; 0: torch's default
	GradientCheckpointing bool    `json:"gradient_checkpointing"`
	AdamBeta1             float64 `json:"adam_beta1"`
	AdamBeta2             float64 `json:"adam_beta2"`
	AdamEpsilon           float64 `json:"adam_epsilon"`
	WeightDecay           float64 `json:"weight_decay"`      // decoupled (AdamW); 0 is Adam
	MemoryCapBytes        int64   `json:"memory_cap_bytes"`  // CUDA allocator cap, 0 none
	SelfTest              bool    `json:"self_test"`         // compare log-probabilities of the generate and the update path
	OptimizerOffload      bool    `json:"optimizer_offload"` // keep Adam's moments on the host; steps move them through the device in pieces
	ParamOffload          bool    `json:"param_offload"`     // trim moves the weights to the host, the next call that needs them back
	CUDAGraphs            bool    `json:"cuda_graphs"`       // decode in CUDA graphs; CUDA only
	// Ranks > 1 is the number of data-parallel processes of this engine, on cuda:0 … cuda:Ranks-1 (nccl) or all on
	// the CPU (gloo). They share the work of generate and update. Results equal those of one rank.
	Ranks int `json:"ranks,omitempty"`
}

// LoadResult describes the loaded model.
type LoadResult struct {
	Architecture       string  `json:"architecture"` // "gpt2"
	Parameters         int64   `json:"parameters"`   // counts tied weights once
	VocabSize          int     `json:"vocab_size"`
	ContextLength      int     `json:"context_length"` // maximum tokens of prompt plus completion
	EOSTokenID         int     `json:"eos_token_id"`   // from config.json, -1 if it names none
	Seconds            float64 `json:"seconds"`
	SelfTestMaxAbsDiff float64 `json:"self_test_max_abs_diff"` // largest |difference| of log-probabilities, in nats
	SelfTestLimit      float64 `json:"self_test_limit"`        // largest difference that rounding explains; in full precision a load above it fails
	Memory             Memory  `json:"memory"`
}

// GenerateParams samples NumGenerations completions of each prompt, all in one batch.
type GenerateParams struct {
	Prompts        [][]int `json:"prompts"`                  // P prompts of 1 or more token ids; lengths may differ
	NumGenerations int     `json:"num_generations"`          // G
	MaxNewTokens   int     `json:"max_new_tokens"`           // prompt plus completion is also limited by the context length
	Temperature    float64 `json:"temperature"`              // > 0; 0 is greedy
	TopK           int     `json:"top_k"`                    // 0: off
	TopP           float64 `json:"top_p"`                    // 1: off
	EOSTokenID     int     `json:"eos_token_id"`             // -1: none
	StopTokenIDs   []int   `json:"stop_token_ids,omitempty"` // further ids that end a completion
	Seed           int64   `json:"seed"`                     // the completions are a function of weights, prompts, options and Seed
	MicroBatch     int     `json:"micro_batch"`              // most completions decoded at a time, 0: all; does not change the samples
}

// GenerateResult holds P·G completions, generation g of prompt p at index p·G+g.
type GenerateResult struct {
	Completions   [][]int     `json:"completions"` // includes the first EOS or stop token, and nothing after it
	Logprobs      [][]float64 `json:"logprobs"`    // of each sampled token at the sampling temperature, before top-k/top-p
	Terminated    []bool      `json:"terminated"`  // ended with EOS or a stop token, not at the limit
	Entropy       float64     `json:"entropy"`     // mean over sampled tokens, nats
	Seconds       float64     `json:"seconds"`
	PrefillTokens int64       `json:"prefill_tokens"`
	NewTokens     int64       `json:"new_tokens"`
	Memory        Memory      `json:"memory"`
}

// Sequence is one completion of Prompts[Prompt] to train on or to score.
type Sequence struct {
	Prompt     int     `json:"prompt"`     // index into the call's prompts
	Completion []int   `json:"completion"` // 1 or more token ids, with the end token if it was generated
	Advantage  float64 `json:"advantage,omitempty"`
	// OldLogprobs has the behavior policy's log-probabilities, one per token of Completion. Without them the
	// sequence counts as on-policy: the ratio is 1 in the first iteration, and later ones compare with the
	// log-probabilities of the first.
	OldLogprobs []float64 `json:"old_logprobs,omitempty"`
	// SamplingLogprobs has the log-probabilities with which this engine sampled the tokens of Completion, in
	// float32 as most engines compute them. The update compares them with its own before its first step. They do
	// not change the update.
	SamplingLogprobs []float32 `json:"sampling_logprobs,omitempty"`
	// External marks a sequence of another policy, which OldLogprobs belong to.
	External bool `json:"external,omitempty"`
}

// UpdateParams is one GRPO step (NumIterations steps) on a batch of B sequences.
type UpdateParams struct {
	Prompts       [][]int    `json:"prompts"`
	Sequences     []Sequence `json:"sequences"`
	LearningRate  float64    `json:"learning_rate"`
	Temperature   float64    `json:"temperature"`  // divides the logits, as in sampling
	Epsilon       float64    `json:"epsilon"`      // lower clip range
	EpsilonHigh   float64    `json:"epsilon_high"` // upper clip range
	Delta         float64    `json:"delta"`        // bound of the ratio where the advantage is negative, above 1 + EpsilonHigh; 0: none
	Beta          float64    `json:"beta"`         // weight of the KL to the weights as loaded (k3 estimator); 0: none
	NumIterations int        `json:"num_iterations"`
	// LossType is TRL's: "bnpo" (mean over all completion tokens of the batch), "grpo" (mean over sequences of
	// their token means) or "dr_grpo" (sum over tokens / (B · MaxCompletionLength)).
	LossType            string  `json:"loss_type"`
	MaxCompletionLength int     `json:"max_completion_length"` // for dr_grpo
	MaxGradNorm         float64 `json:"max_grad_norm"`         // 0: no clipping
	// MicroBatch is the maximum number of sequences in one forward pass on a device. It changes memory, never the
	// update. On a CPU it changes nothing, not even rounding: passes there are always as small as possible without
	// taking longer.
	MicroBatch int `json:"micro_batch"`
	// Correction selects the weights of External sequences with OldLogprobs. "" clips their ratios like all others.
	// CorrectionTapered and CorrectionFTIS weight them by the policy at the start of the update.
	Correction string `json:"correction,omitempty"`
	// Divergence is for CorrectionFTIS. It drops a sequence with a negative advantage whose mean of log mu - log pi
	// exceeds this number of nats a token.
	Divergence float64 `json:"divergence,omitempty"`
}

// Values of UpdateParams.Correction.
const (
	CorrectionTapered = "tapered" // TOPR: weight 1 if the advantage is positive, else clip(pi/mu, 0, 1) of the whole sequence
	CorrectionFTIS    = "ftis"    // F-TIS: each token's ratio, at most 2; drops distant sequences with negative advantages
)

// UpdateResult reports the step. Means are over the same tokens as the loss, over all micro-batches.
type UpdateResult struct {
	Loss        float64 `json:"loss"`
	KL          float64 `json:"kl"`
	GradNorm    float64 `json:"grad_norm"`    // before clipping
	Entropy     float64 `json:"entropy"`      // mean over computed completion tokens, nats
	MeanLogprob float64 `json:"mean_logprob"` // mean log-probability of the computed completion tokens before the step
	// |log-probability before the first step - log-probability when sampled|, in nats, over the SamplingTokens
	// computed tokens with SamplingLogprobs. Both are 0 if there are none.
	SamplingLogpDifferenceMax  float64 `json:"sampling_logp_difference_max"`
	SamplingLogpDifferenceMean float64 `json:"sampling_logp_difference_mean"`
	SamplingTokens             int64   `json:"sampling_tokens"`

	ClipLow  float64 `json:"clip_ratio_low"`
	ClipHigh float64 `json:"clip_ratio_high"`

	// These fields are about the first iteration, and the tokens that it computes of External sequences with
	// OldLogprobs. ExternalTokens is the number of these tokens. ExternalClipRatio is the share with a clipped weight.
	// ExternalESS is the effective sample size of the weights, as a share of the tokens. Both are 0 without such
	// tokens.
	ExternalClipRatio float64 `json:"external_clip_ratio"`
	ExternalESS       float64 `json:"external_ess"`
	ExternalDropped   int     `json:"external_dropped"` // sequences that CorrectionFTIS dropped
	ExternalTokens    int64   `json:"external_tokens"`

	Steps             int     `json:"steps"`              // optimizer steps taken; 0 if every advantage is zero
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

// LogprobsResult has one list per sequence, with one number per completion token.
type LogprobsResult struct {
	Logprobs [][]float64 `json:"logprobs"`
}

// Float32 is the type of the weights in training.
const Float32 = "float32"

// DTypes lists the types in which the engine saves weights, Float32 first.
func DTypes() []string { return []string{Float32, "bfloat16", "float16"} }

// SaveParams writes the state to Path, each file atomically (temporary name, fsync, rename).
type SaveParams struct {
	Path string `json:"path"`
	// Format is "checkpoint", one safetensors file with weights, Adam moments and step, or "huggingface", a
	// directory with config.json and model.safetensors (weights only). Other files in the directory stay.
	Format string `json:"format"`
	DType  string `json:"dtype"` // huggingface only: one of DTypes
	// Metadata is stored in the checkpoint, and restore returns it.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Background applies to a "checkpoint". The engine answers with Pending as soon as it has copied the state, and
	// writes the file while it serves other calls. The call "saved" returns the result. If host memory has no space
	// for the copy, the engine writes the file before it answers, without Pending. A second save, a restore and a
	// load wait for the file. Exit and the end of stdin do not.
	Background bool `json:"background,omitempty"`
}

// SavedParams requests the result of the background save. The answer is a SaveResult, with Pending if the file is
// still being written and Wait is not set. If the save failed, the answer is its error. The call is a bad request
// if there is no background save, or if its result has already been returned.
type SavedParams struct {
	Wait bool `json:"wait"`
}

// SaveResult describes the written file.
type SaveResult struct {
	Pending    bool    `json:"pending,omitempty"` // only Pause is set besides
	Pause      float64 `json:"pause"`             // seconds without service for other calls
	Bytes      int64   `json:"bytes"`
	SHA256     string  `json:"sha256"`      // of the file
	WeightHash string  `json:"weight_hash"` // sha256 over the weights' bytes in name order: equal weights give equal hashes
	Seconds    float64 `json:"seconds"`
}

// RestoreParams reads a "checkpoint" of the same architecture. A SHA256 must match the file's.
type RestoreParams struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
}

// RestoreResult has the metadata of SaveParams.
type RestoreResult struct {
	Metadata   map[string]string `json:"metadata"`
	WeightHash string            `json:"weight_hash"`
	Step       int64             `json:"step"` // of Adam
}

// ConfigureParams changes memory settings of a loaded model. nil means no change. It does not change results.
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
	PeakRSSBytes         int64 `json:"peak_rss_bytes"`  // since the start
	AnonymousBytes       int64 `json:"anonymous_bytes"` // resident memory without file-backed pages, such as libraries
	DeviceAllocatedBytes int64 `json:"device_allocated_bytes"`
	DeviceReservedBytes  int64 `json:"device_reserved_bytes"`
	DevicePeakBytes      int64 `json:"device_peak_bytes"` // peak of reserved memory since load
	DeviceFreeBytes      int64 `json:"device_free_bytes"` // of the whole device, as its driver reports it
	DeviceTotalBytes     int64 `json:"device_total_bytes"`

	// Memory of the load, generate or update that this answers, 0 in other answers: allocated on a device, resident
	// on a CPU.
	CallBeginBytes int64 `json:"call_begin_bytes"`
	CallPeakBytes  int64 `json:"call_peak_bytes"`
	// The same for the allocator's reserved memory, which is what the device has less free. CallBeginReservedBytes
	// includes memory that earlier calls left cached.
	CallBeginReservedBytes int64 `json:"call_begin_reserved_bytes"`
	CallPeakReservedBytes  int64 `json:"call_peak_reserved_bytes"`
}

// CallTook is the call's peak beyond loaded, the bytes that it keeps (weights and optimizer). On a device it counts
// the growth of the call's reserved memory if that exceeds its tensors, because blocks are larger than their
// tensors. Memory that was cached at the beginning does not count.
func (m Memory) CallTook(loaded int64) int64 {
	return max(0, m.CallPeakBytes-loaded, m.CallPeakReservedBytes-max(m.CallBeginReservedBytes, loaded))
}
