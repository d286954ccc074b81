// Package event defines the events that nodes report and runs record. A node sends its launcher one JSON object per
// line, and the launcher records it in the database. node/protocol defines the opposite direction. The package is a
// leaf and imports nothing of this module. Units: bytes, seconds, Unix seconds for times, and 0..1 for ratios.
package event

// Type identifies the payload of an Event.
type Type string

// Types of events. A node sends state, round, memory, lease, release, checkpoint, eval, warning and failure. The
// launcher adds spawn, exit, restart, giveup, device and the events of the run itself.
const (
	TypeState      Type = "state"       // State set: the node's current state
	TypeEngine     Type = "engine"      // PID set: the node started an engine; only the launcher uses this event
	TypeLoaded     Type = "loaded"      // Loaded set: the model is in memory; the next node may start loading
	TypeRound      Type = "round"       // Round set: the node finished a round
	TypeMemory     Type = "memory"      // Memory set
	TypeLease      Type = "lease"       // Lease set: the node requests a lease to compute
	TypeRelease    Type = "release"     // Lease set: the node finished computing
	TypeCheckpoint Type = "checkpoint"  // Checkpoint set
	TypeEval       Type = "eval"        // Eval set: the node answered held-out questions
	TypeMemoryStep Type = "memory_step" // MemoryStep set: memory ran out, and the action taken
	TypeDevice     Type = "device"      // Device set: a GPU as reported by its driver
	TypeWarning    Type = "warning"     // Message set
	TypeFailure    Type = "failure"     // Cause and Message set: the node is about to exit
	TypeSpawn      Type = "spawn"       // PID set: the launcher started a node's process
	TypeExit       Type = "exit"        // Cause, Message, ExitCode set: a node's process ended
	TypeRestart    Type = "restart"     // Message, Seconds set: the launcher restarts the node after Seconds
	TypeGiveUp     Type = "giveup"      // Cause, Message set: the launcher does not restart the node
	TypeJoin       Type = "join"        // Worker, RoundIndex set: a worker's node participates from that round on; Message: model and device; empty: the node returned after an absence
	TypeLeave      Type = "leave"       // Worker, Message set: the swarm stops waiting for a worker's node; Cause empty: the node may return
	TypeWorker     Type = "worker"      // Worker, State, Message set: a worker connected, went silent, returned, left, was revoked or was banned
	TypeAlarm      Type = "alarm"       // Alarm and Message set: the run's gradients have grown
	TypeRunStarted Type = "run_started"
	TypeRunEnded   Type = "run_ended" // State and Message: the run's final state
	TypeSummary    Type = "summary"   // last event of `up -o json`
)

// State is the state of a node or worker, as shown to users.
type State string

// States of a node, in the order of its life cycle.
const (
	StateQueued     State = "queued"    // waits for its turn to load the model
	StateStarting   State = "starting"  // process started
	StateLoading    State = "loading"   // the engine loads the model
	StateReplaying  State = "replaying" // reapplies logged updates; RoundIndex: the round being reapplied
	StateWaiting    State = "waiting"   // for a lease
	StateGenerating State = "generating"
	StateScoring    State = "scoring"
	StateSharing    State = "sharing"
	StateBarrier    State = "barrier" // waits for its peers' rollouts
	StateUpdating   State = "updating"
	StateEvaluating State = "evaluating" // answers held-out questions
	StateCheckpoint State = "checkpoint"
	StateDone       State = "done"    // all rounds
	StateStopped    State = "stopped" // shut down gracefully before the last round
	StateFailed     State = "failed"  // the process died; it may be restarted
	StateGivenUp    State = "given_up"
	StateAway       State = "away" // only a worker's node: silent for a while; the swarm does not wait for it, and it may return
)

// States of a worker, in events of TypeWorker.
const (
	WorkerConnected State = "connected"
	WorkerAway      State = "away" // silent for longer than its heartbeat allows
	WorkerLeft      State = "left" // left gracefully
	WorkerRevoked   State = "revoked"
	WorkerBanned    State = "banned"
)

// Causes of a node's exit.
const (
	CauseOutOfMemory     = "out_of_memory"      // device memory
	CauseHostOutOfMemory = "host_out_of_memory" // host memory, or the kernel's OOM killer
	CauseModel           = "model"              // weights missing, corrupt or of an unknown architecture
	CausePython          = "python"             // no usable Python or torch
	CauseConfig          = "config"
	CauseDisk            = "disk_full"
	CauseCheckpoint      = "checkpoint" // none of the node's checkpoints can be read
	CauseEngine          = "engine"     // the engine died or misbehaved
	CauseExchange        = "exchange"   // the swarm's message bus is gone
	CauseDevice          = "device"     // its GPU, or a service that shares the GPU, failed; the node is not at fault
	CauseStalled         = "stalled"
	CauseStopped         = "stopped" // by request
	CauseUnknown         = "unknown"
)

// Event is one line of the protocol. Only the fields named by its Type are set.
type Event struct {
	Type Type    `json:"type"`
	Time float64 `json:"time"`          // Unix seconds
	Run  string  `json:"run,omitempty"` // filled in by the coordinator
	Node string  `json:"node,omitempty"`

	Worker string `json:"worker,omitempty"` // owner of the node; empty: the coordinator's host

	// Replayed marks an event that the node repeats from its journal. Time is the time of the first report. The
	// database records the event only if its round or evaluation is missing.
	Replayed bool `json:"replayed,omitempty"`

	State      State       `json:"state,omitempty"`
	RoundIndex int         `json:"round_index,omitempty"` // with state: the current round, from 0
	Loaded     *Loaded     `json:"loaded,omitempty"`
	Round      *Round      `json:"round,omitempty"`
	Memory     *Memory     `json:"memory,omitempty"`
	Lease      *Lease      `json:"lease,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	Eval       *Eval       `json:"eval,omitempty"`
	MemoryStep *MemoryStep `json:"memory_step,omitempty"`
	Device     *Device     `json:"device,omitempty"`
	Alarm      *Alarm      `json:"alarm,omitempty"`

	Message  string  `json:"message,omitempty"`
	Cause    string  `json:"cause,omitempty"`
	PID      int     `json:"pid,omitempty"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
}

// Loaded describes a node's model and engine.
type Loaded struct {
	Model              string  `json:"model"`
	Parameters         int64   `json:"parameters"`
	ContextLength      int     `json:"context_length"`
	Torch              string  `json:"torch"`
	Device             string  `json:"device"`
	Seconds            float64 `json:"seconds"`
	SelfTestMaxAbsDiff float64 `json:"self_test_max_abs_diff"` // largest difference between log-probabilities from generation and from the update path
	EnginePID          int     `json:"engine_pid"`
	StartRound         int     `json:"start_round"`     // rounds that its weights were trained for: the restored checkpoint plus the replayed journal
	ReplayedRounds     int     `json:"replayed_rounds"` // of StartRound, the rounds reapplied from the journal
	ReplaySeconds      float64 `json:"replay_seconds"`  // duration of the replay, without waiting for leases
}

// Round is one round of one node, keyed by (run, node, round): sending it again changes nothing.
type Round struct {
	Round int `json:"round"` // from 0

	Reward            float64 `json:"reward"`                    // mean over the node's own I·G completions; the summand of cumulative reward
	RewardStd         float64 `json:"reward_std"`                // mean over own groups of the group's standard deviation (ddof 1)
	TrainingReward    float64 `json:"training_reward"`           // mean over the I+J groups trained on; inflated by selection
	FracRewardZeroStd float64 `json:"frac_reward_zero_std"`      // share of own groups whose rewards are all equal
	FormatRate        float64 `json:"format_rate"`               // share of own completions with an <answer> pair
	Completions       int     `json:"completions"`               // I·G
	MeanLength        float64 `json:"completions_mean_length"`   // tokens
	ClippedRatio      float64 `json:"completions_clipped_ratio"` // share that hit the length limit

	// Mean length in tokens of own completions that ended with an EOS. nil: none did, or an older program recorded the
	// round.
	MeanTerminatedLength *float64 `json:"completions_mean_terminated_length,omitempty"`

	Loss     float64 `json:"loss"`
	KL       float64 `json:"kl"`
	GradNorm float64 `json:"grad_norm"`
	Entropy  float64 `json:"entropy"`
	ClipLow  float64 `json:"clip_ratio_low"`
	ClipHigh float64 `json:"clip_ratio_high"`
	Steps    int     `json:"steps"` // optimizer steps; 0: every advantage was zero

	// The difference |log-probability before the update - log-probability at sampling|, in nats, over the tokens of own
	// completions that the update computed. nil: the update computed none, or the log-probabilities at sampling are
	// unknown.
	SamplingLogpDifferenceMax  *float64 `json:"sampling_logp_difference_max,omitempty"`
	SamplingLogpDifferenceMean *float64 `json:"sampling_logp_difference_mean,omitempty"`

	// Figures of the tokens of others' completions that the update computed, if external_correction weights them. nil:
	// there are none, or an older program recorded the round.
	ExternalClipRatio *float64 `json:"external_clip_ratio,omitempty"` // share whose weight was clipped
	ExternalDropped   *float64 `json:"external_dropped,omitempty"`    // completions dropped because they diverged from the current policy
	ExternalESS       *float64 `json:"external_ess,omitempty"`        // effective sample size of the weights / tokens

	TrainedOwn      int `json:"trained_own"`      // own groups in the training set
	TrainedExternal int `json:"trained_external"` // others' groups in the training set

	// I and J of this round, if a rule chooses them for each round. Both are 0 if I and J are the configured ones.
	SplitOwn      int `json:"split_own,omitempty"`
	SplitExternal int `json:"split_external,omitempty"`

	StepTime     float64 `json:"step_time"`     // whole round, wall seconds
	GenerateTime float64 `json:"generate_time"` // inside the engine's generate call
	UpdateTime   float64 `json:"update_time"`   // inside the engine's update call
	ScoreTime    float64 `json:"score_time"`
	LeaseTime    float64 `json:"lease_time"`   // waiting for leases
	BarrierTime  float64 `json:"barrier_time"` // waiting for peers' rollouts
	JournalTime  float64 `json:"journal_time"` // writing the journal
	Late         bool    `json:"late"`         // the barrier's deadline passed before every peer had shared

	Staleness    float64 `json:"staleness"`               // mean age of the external groups trained on, in this node's rounds since they arrived; 0 at a barrier
	GenerateOnly bool    `json:"generate_only,omitempty"` // the node shares rollouts and never trains

	// NonFinite maps the JSON names of fields with a non-finite value to that value ("NaN", "+Inf", "-Inf"). The fields
	// themselves are 0, because JSON cannot represent such values.
	NonFinite map[string]string `json:"non_finite,omitempty"`

	Tasks []TaskReward `json:"tasks,omitempty"` // own questions, by task
	Peers []Peer       `json:"peers,omitempty"` // rollouts that each peer offered
}

// TaskReward is one task's share of a node's round.
type TaskReward struct {
	Task        string  `json:"task"`
	Completions int     `json:"completions"`
	RewardSum   float64 `json:"reward_sum"`
}

// Peer counts one peer's rollouts in a node's round.
type Peer struct {
	Node      string `json:"node"`
	Available int    `json:"available"` // rollouts received in time
	Rejected  int    `json:"rejected"`  // malformed, oversized or held-out
	Filtered  int    `json:"filtered"`  // dropped for zero advantage
	Used      int    `json:"used"`
	Late      bool   `json:"late"`             // nothing arrived before the deadline
	Reason    string `json:"reason,omitempty"` // why the newest rejected rollout was rejected
}

// Memory is a node's current memory: host memory of its Go process plus its engine, and device memory of the engine.
type Memory struct {
	RSSBytes        int64 `json:"rss_bytes"`      // node process + engine; shared pages are counted in full
	PeakRSSBytes    int64 `json:"peak_rss_bytes"` // highest that the engine measured since its start, plus the node process
	PSSBytes        int64 `json:"pss_bytes"`      // proportional share of rss_bytes: a page shared by n processes counts as 1/n; 0: unknown
	PeakPSSBytes    int64 `json:"peak_pss_bytes"` // peak_rss_bytes less the same deduction; 0: unknown
	DeviceBytes     int64 `json:"device_bytes"`   // bytes reserved by the allocator
	DevicePeakBytes int64 `json:"device_peak_bytes"`

	// On a GPU, memory of the allocator. On a CPU, memory of the engine's process without the interpreter. 0 until
	// measured.
	ResidentBytes int64 `json:"resident_bytes"` // between phases
	GenerateBytes int64 `json:"generate_bytes"` // peak of a generate phase, beyond resident
	UpdateBytes   int64 `json:"update_bytes"`   // peak of an update phase, beyond resident
	MicroBatch    int   `json:"micro_batch"`    // sequences per forward pass in that update
	BudgetBytes   int64 `json:"budget_bytes"`   // the node's memory limit; 0: no budget
}

// MemoryStep is one step of the ladder that a node descends when memory runs out (docs/MEMORY.md).
type MemoryStep struct {
	Round      int    `json:"round"`
	Phase      string `json:"phase"`                 // load, generate, update
	Cause      string `json:"cause"`                 // one of Memory*
	Action     string `json:"action"`                // one of Action*
	MicroBatch int    `json:"micro_batch,omitempty"` // after the action

	RequestedBytes int64 `json:"requested_bytes"` // size of the failed allocation; 0: unknown
	UsedBytes      int64 `json:"used_bytes"`      // by this node
	CapBytes       int64 `json:"cap_bytes"`       // this node's limit; 0: none
	FreeBytes      int64 `json:"free_bytes"`      // of the device or the host
	TotalBytes     int64 `json:"total_bytes"`
}

// Causes of a MemoryStep.
const (
	MemoryOwnCap    = "own_cap"     // the node reached its own budget; the device has free memory
	MemoryGPU       = "gpu_memory"  // the device is full of this swarm's nodes
	MemoryNeighbour = "neighbour"   // another process uses more of the device than planned
	MemoryHost      = "host_memory" // host memory or a limit on it
)

// Actions of a MemoryStep, in the order in which the node tries them.
const (
	ActionClearCache       = "clear_cache"       // free cached blocks and retry
	ActionHalveMicroBatch  = "halve_micro_batch" // half the sequences at a time, twice the passes: the same update
	ActionCheckpointing    = "gradient_checkpointing"
	ActionOptimizerOffload = "optimizer_offload"
	ActionParamOffload     = "param_offload"
	ActionRestartEngine    = "restart_engine"
	ActionEnd              = "end"  // nothing is left to try: the node's process ends
	ActionShed             = "shed" // the node leaves the swarm; the others share its budget
	ActionCPU              = "cpu"  // the node continues on the CPU
)

// Device is the current state of a GPU. A figure that the driver does not report is -1.
type Device struct {
	Index              int     `json:"index"`
	UUID               string  `json:"uuid"`
	Name               string  `json:"name"`
	MemoryTotalBytes   int64   `json:"memory_total_bytes"`
	MemoryUsedBytes    int64   `json:"memory_used_bytes"`
	UnattributedBytes  int64   `json:"unattributed_bytes"` // used, but not by a node of the run
	Utilization        float64 `json:"utilization"`        // ratio
	PowerWatts         float64 `json:"power_watts"`
	PowerLimitWatts    float64 `json:"power_limit_watts"`
	TemperatureCelsius float64 `json:"temperature_celsius"`
}

// Lease is a request to compute, a grant or a release.
type Lease struct {
	ID      int64   `json:"id"`                // chosen by the node, unique in its process
	Phase   string  `json:"phase"`             // load, generate, update
	Bytes   int64   `json:"bytes,omitempty"`   // transient device memory that the phase may use
	Seconds float64 `json:"seconds,omitempty"` // with release: how long it was held
}

// Checkpoint reports that a node can restart from Round.
type Checkpoint struct {
	Round      int     `json:"round"` // rounds done
	Path       string  `json:"path"`
	Bytes      int64   `json:"bytes"`
	WeightHash string  `json:"weight_hash"`
	Seconds    float64 `json:"seconds"`
	Pause      float64 `json:"pause"` // of Seconds, the time during which the node could not train
}
