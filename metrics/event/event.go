// Package event defines what a node reports and what a run records: one JSON object a line on the wire from a node to
// its launcher, and from there into the database. node/protocol is the other direction. It is a leaf and imports
// nothing of this module. Bytes are bytes, durations are seconds, times are Unix seconds, ratios lie in 0..1.
package event

// Type names what an Event carries.
type Type string

// Types of events. A node sends state, round, memory, lease, release, checkpoint, eval, warning and failure; the
// launcher adds spawn, exit, restart, giveup, device and the run's own.
const (
	TypeState      Type = "state"       // State set: what the node is doing now
	TypeEngine     Type = "engine"      // PID set: the node has an engine; for its launcher alone
	TypeLoaded     Type = "loaded"      // Loaded set: the model is in memory; the next node may start loading
	TypeRound      Type = "round"       // Round set: a round is done
	TypeMemory     Type = "memory"      // Memory set
	TypeLease      Type = "lease"       // Lease set: the node asks to compute
	TypeRelease    Type = "release"     // Lease set: the node has computed
	TypeCheckpoint Type = "checkpoint"  // Checkpoint set
	TypeEval       Type = "eval"        // Eval set: held-out questions were answered
	TypeMemoryStep Type = "memory_step" // MemoryStep set: memory ran out, and what was done about it
	TypeDevice     Type = "device"      // Device set: a GPU as its driver sees it
	TypeWarning    Type = "warning"     // Message set
	TypeFailure    Type = "failure"     // Cause and Message set: the node is about to exit
	TypeSpawn      Type = "spawn"       // PID set: a node's process was started
	TypeExit       Type = "exit"        // Cause, Message, ExitCode set: a node's process ended
	TypeRestart    Type = "restart"     // Message, Seconds set: it will be started again after Seconds
	TypeGiveUp     Type = "giveup"      // Cause, Message set: it will not
	TypeJoin       Type = "join"        // Worker, RoundIndex set: a worker's node takes part from that round on; Message: model and device, or empty: it was away and is back
	TypeLeave      Type = "leave"       // Worker, Message set: a worker's node is no longer waited for; Cause empty: it may come back
	TypeWorker     Type = "worker"      // Worker, State, Message set: a worker connected, fell silent, came back, left, was revoked or banned
	TypeRunStarted Type = "run_started"
	TypeRunEnded   Type = "run_ended" // State and Message: the run's final state
	TypeSummary    Type = "summary"   // last event of `up -o json`
)

// State is a node's state as people see it.
type State string

// States of a node, in the order of a life.
const (
	StateQueued     State = "queued"    // waits for its turn to load
	StateStarting   State = "starting"  // process started
	StateLoading    State = "loading"   // the engine loads the model
	StateReplaying  State = "replaying" // logged updates are applied again; RoundIndex: the one being applied
	StateWaiting    State = "waiting"   // for a lease
	StateGenerating State = "generating"
	StateScoring    State = "scoring"
	StateSharing    State = "sharing"
	StateBarrier    State = "barrier" // waits for its peers' rollouts
	StateUpdating   State = "updating"
	StateEvaluating State = "evaluating" // answers held-out questions
	StateCheckpoint State = "checkpoint"
	StateDone       State = "done"    // all rounds
	StateStopped    State = "stopped" // orderly, before the last round
	StateFailed     State = "failed"  // died; may come back
	StateGivenUp    State = "given_up"
	StateAway       State = "away" // of a worker's node: nothing was heard of it for a while; not waited for, may come back
)

// States of a worker, in events of TypeWorker.
const (
	WorkerConnected State = "connected"
	WorkerAway      State = "away" // silent for longer than its heartbeat allows
	WorkerLeft      State = "left" // in order
	WorkerRevoked   State = "revoked"
	WorkerBanned    State = "banned"
)

// Causes of a node's end.
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
	CauseDevice          = "device"     // its GPU, or what shares it, failed: not the node's fault
	CauseStalled         = "stalled"
	CauseStopped         = "stopped" // by request
	CauseUnknown         = "unknown"
)

// Event is one line. Exactly the fields its Type names are set.
type Event struct {
	Type Type    `json:"type"`
	Time float64 `json:"time"`          // Unix seconds
	Run  string  `json:"run,omitempty"` // filled in by the coordinator
	Node string  `json:"node,omitempty"`

	Worker string `json:"worker,omitempty"` // whose node it is; empty: of the coordinator's own host

	// Replayed: a node tells again, from its journal, of a round that it had told of; Time is when it did. It counts
	// only where it is missing.
	Replayed bool `json:"replayed,omitempty"`

	State      State       `json:"state,omitempty"`
	RoundIndex int         `json:"round_index,omitempty"` // with state: the round being worked on, from 0
	Loaded     *Loaded     `json:"loaded,omitempty"`
	Round      *Round      `json:"round,omitempty"`
	Memory     *Memory     `json:"memory,omitempty"`
	Lease      *Lease      `json:"lease,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	Eval       *Eval       `json:"eval,omitempty"`
	MemoryStep *MemoryStep `json:"memory_step,omitempty"`
	Device     *Device     `json:"device,omitempty"`

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
	SelfTestMaxAbsDiff float64 `json:"self_test_max_abs_diff"` // log-probabilities while generating against the update path
	EnginePID          int     `json:"engine_pid"`
	StartRound         int     `json:"start_round"`     // rounds that its weights hold: of the checkpoint it restored, and of the journal
	ReplayedRounds     int     `json:"replayed_rounds"` // of these, applied again from the journal
	ReplaySeconds      float64 `json:"replay_seconds"`  // that took, without waiting for leases
}

// Round is one node's round (DESIGN §5), keyed by (run, node, round): sending it again changes nothing.
type Round struct {
	Round int `json:"round"` // from 0

	Reward            float64 `json:"reward"`                    // mean over the node's own I·G completions; what cumulative reward sums
	RewardStd         float64 `json:"reward_std"`                // mean over own groups of the group's standard deviation (ddof 1)
	TrainingReward    float64 `json:"training_reward"`           // mean over the I+J groups trained on; inflated by selection
	FracRewardZeroStd float64 `json:"frac_reward_zero_std"`      // share of own groups whose rewards are all equal
	FormatRate        float64 `json:"format_rate"`               // share of own completions with an <answer> pair
	Completions       int     `json:"completions"`               // I·G
	MeanLength        float64 `json:"completions_mean_length"`   // tokens
	ClippedRatio      float64 `json:"completions_clipped_ratio"` // share that hit the length limit

	// Tokens, of the own completions that ended with an EOS. nil: none did, or an earlier program's round.
	MeanTerminatedLength *float64 `json:"completions_mean_terminated_length,omitempty"`

	Loss     float64 `json:"loss"`
	KL       float64 `json:"kl"`
	GradNorm float64 `json:"grad_norm"`
	Entropy  float64 `json:"entropy"`
	ClipLow  float64 `json:"clip_ratio_low"`
	ClipHigh float64 `json:"clip_ratio_high"`
	Steps    int     `json:"steps"` // optimizer steps; 0: every advantage was zero

	// |log-probability before the update - the one it was sampled with|, nats, over the tokens of own completions that
	// the update computed. nil: it computed none, or what they were sampled with isn't known.
	SamplingLogpDifferenceMax  *float64 `json:"sampling_logp_difference_max,omitempty"`
	SamplingLogpDifferenceMean *float64 `json:"sampling_logp_difference_mean,omitempty"`

	// Of the tokens of others' completions that the update computed, where external_correction weighs them. nil: none,
	// or an earlier program's.
	ExternalClipRatio *float64 `json:"external_clip_ratio,omitempty"` // share whose weight was clipped
	ExternalDropped   *float64 `json:"external_dropped,omitempty"`    // completions that were dropped for their divergence
	ExternalESS       *float64 `json:"external_ess,omitempty"`        // effective sample size of the weights / tokens

	TrainedOwn      int `json:"trained_own"`      // own groups in the training set
	TrainedExternal int `json:"trained_external"` // others' groups in the training set

	// The round's I and J where they are decided round by round; both 0 where they are the configured ones.
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
	GenerateOnly bool    `json:"generate_only,omitempty"` // the node shares and never trains

	// NonFinite names the fields, by JSON name, whose value was no number ("NaN", "+Inf", "-Inf"); they are 0 here, for
	// JSON has no such values.
	NonFinite map[string]string `json:"non_finite,omitempty"`

	Tasks []TaskReward `json:"tasks,omitempty"` // own questions, by task
	Peers []Peer       `json:"peers,omitempty"` // what each peer offered
}

// TaskReward is the part of one task in a node's round.
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
	Reason    string `json:"reason,omitempty"` // why something was rejected: the newest
}

// Memory is a node's memory now: its Go process and its engine together for the host, the engine for the device.
type Memory struct {
	RSSBytes        int64 `json:"rss_bytes"`      // node process + engine, pages that others share counted in full
	PeakRSSBytes    int64 `json:"peak_rss_bytes"` // highest seen by the engine since its start, plus the node process
	PSSBytes        int64 `json:"pss_bytes"`      // of rss_bytes the proportional share: a page shared by n processes counts as 1/n; 0: not known
	PeakPSSBytes    int64 `json:"peak_pss_bytes"` // highest, by the same deduction from peak_rss_bytes; 0: not known
	DeviceBytes     int64 `json:"device_bytes"`   // allocator's reserved bytes
	DevicePeakBytes int64 `json:"device_peak_bytes"`

	// On a GPU of its allocator, on a CPU of the engine's process without the interpreter. Zero until measured.
	ResidentBytes int64 `json:"resident_bytes"` // between phases
	GenerateBytes int64 `json:"generate_bytes"` // highest of a generate phase, beyond resident
	UpdateBytes   int64 `json:"update_bytes"`   // highest of an update phase, beyond resident
	MicroBatch    int   `json:"micro_batch"`    // sequences of a forward pass in that update
	BudgetBytes   int64 `json:"budget_bytes"`   // what the node may take; 0: no budget
}

// MemoryStep is one step of the ladder on which a node climbs down when memory runs out (DESIGN §7).
type MemoryStep struct {
	Round      int    `json:"round"`
	Phase      string `json:"phase"`                 // load, generate, update
	Cause      string `json:"cause"`                 // one of Memory*
	Action     string `json:"action"`                // one of Action*
	MicroBatch int    `json:"micro_batch,omitempty"` // after the action

	RequestedBytes int64 `json:"requested_bytes"` // what could not be had; 0: unknown
	UsedBytes      int64 `json:"used_bytes"`      // by this node
	CapBytes       int64 `json:"cap_bytes"`       // this node's, 0: none
	FreeBytes      int64 `json:"free_bytes"`      // of the device or the host
	TotalBytes     int64 `json:"total_bytes"`
}

// Causes of a MemoryStep.
const (
	MemoryOwnCap    = "own_cap"     // the node reached its own budget; the device has room
	MemoryGPU       = "gpu_memory"  // the device is full of this swarm's nodes
	MemoryNeighbour = "neighbour"   // somebody took more of the device than was planned for
	MemoryHost      = "host_memory" // host memory or a limit on it
)

// Actions of a MemoryStep, in the order they are tried.
const (
	ActionClearCache       = "clear_cache"       // free cached blocks and try again
	ActionHalveMicroBatch  = "halve_micro_batch" // half the sequences at a time, twice the passes: the same update
	ActionCheckpointing    = "gradient_checkpointing"
	ActionOptimizerOffload = "optimizer_offload"
	ActionParamOffload     = "param_offload"
	ActionRestartEngine    = "restart_engine"
	ActionShed             = "shed" // the node leaves the swarm; the others share its budget
	ActionCPU              = "cpu"  // the node goes on, on the CPU
)

// Device is a GPU now. What a driver doesn't tell is -1.
type Device struct {
	Index              int     `json:"index"`
	UUID               string  `json:"uuid"`
	Name               string  `json:"name"`
	MemoryTotalBytes   int64   `json:"memory_total_bytes"`
	MemoryUsedBytes    int64   `json:"memory_used_bytes"`
	UnattributedBytes  int64   `json:"unattributed_bytes"` // used, by none of the run's nodes
	Utilization        float64 `json:"utilization"`        // ratio
	PowerWatts         float64 `json:"power_watts"`
	PowerLimitWatts    float64 `json:"power_limit_watts"`
	TemperatureCelsius float64 `json:"temperature_celsius"`
}

// Lease is a request to compute, its grant or its end.
type Lease struct {
	ID      int64   `json:"id"`                // chosen by the node, unique in its process
	Phase   string  `json:"phase"`             // load, generate, update
	Bytes   int64   `json:"bytes,omitempty"`   // transient device memory it may take
	Seconds float64 `json:"seconds,omitempty"` // with release: how long it was held
}

// Checkpoint says that a node can restart from Round.
type Checkpoint struct {
	Round      int     `json:"round"` // rounds done
	Path       string  `json:"path"`
	Bytes      int64   `json:"bytes"`
	WeightHash string  `json:"weight_hash"`
	Seconds    float64 `json:"seconds"`
	Pause      float64 `json:"pause"` // of Seconds, those in which the node could not train
}
