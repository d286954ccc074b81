package configs

import "slices"

// Roles of a Workload's values. A workload has one RoleBatch and at most one RoleAccumulate.
const (
	RoleBatch      = "batch"      // samples that one step takes at a time on one GPU
	RoleAccumulate = "accumulate" // such steps before the optimizer's
)

// Names that a Workload's formulas know besides those of its values.
const (
	NameGPUMemory = "gpu_memory" // bytes of the GPU
	NameGPUs      = "gpus"       // GPUs that train together, data-parallel
)

// Workload is a profile of somebody's training: its values and where they stand in the user's files, what memory it
// takes, and what to do where that is too much (docs/TUNE.md).
type Workload struct {
	Name                 string
	About                string
	Source               string // where its figures come from
	Unit                 string // "GB" or "GiB": what its author's GB are, and how its sizes are shown
	Values               []WorkloadValue
	Memory               []MemoryItem // empty: nothing is known but what Known has
	SafetyMargin         float64      // part of the GPU's memory that may be used, above 0, at most 1
	TargetEffectiveBatch int          // 0: none
	Stages               []Stage
	Known                []KnownRow
	Ladder               []LadderStep
	Advice               []string
	Next                 []string // commands to go on with
}

// WorkloadValue is one value of a training. Values are text, as they stand in the file.
type WorkloadValue struct {
	Name        string
	Role        string // RoleBatch, RoleAccumulate or ""
	About       string
	Start       string   // what it is where nobody says otherwise; "" where that isn't known
	Recommended string   // what it should be whatever the GPU; "" where nothing is recommended
	Min         float64  // of numbers
	Max         float64  // of numbers; 0: no limit
	Rule        Formula  // computes it from the batch size and others' starts, rounded down; empty where it has none
	Places      []string // "conf/config.yaml:data_loader.batch_size"; none: on the command line only
}

// MemoryItem is one component of the memory that training takes on a GPU.
type MemoryItem struct {
	Name  string
	Bytes Formula
	Note  string
}

// Stage is a part of the training with values of its own.
type Stage struct {
	Name   string
	Values []StageValue
}

// StageValue is a value in one stage.
type StageValue struct {
	Name   string
	Value  string
	Places []string // none: the value's own
}

// KnownRow is a published row: what somebody trains with on a GPU of that size.
type KnownRow struct {
	Name      string
	GPUMemory int64 // bytes
	Values    []LadderEdit
	Expected  int64 // bytes; 0: what the formulas give
	Note      string
}

// LadderStep is one remedy for memory that ran out.
type LadderStep struct {
	Title    string
	Why      string
	TradeOff string
	Expected string // what it should bring
	Stage    string // the stage whose values it changes; "": the values'
	Edits    []LadderEdit
	Repeat   int // how often it may be taken, one after the other; at least 1
}

// LadderEdit changes a value. In a ladder To may also be relative: "/2", "x2", "<=512" (no more than), ">=8" (no less
// than).
type LadderEdit struct {
	Value string
	To    string
}

// Value is the value of that name.
func (w Workload) Value(name string) (WorkloadValue, bool) {
	at := slices.IndexFunc(w.Values, func(v WorkloadValue) bool { return v.Name == name })
	if at < 0 {
		return WorkloadValue{}, false
	}
	return w.Values[at], true
}

// ByRole is the value with that role.
func (w Workload) ByRole(role string) (WorkloadValue, bool) {
	at := slices.IndexFunc(w.Values, func(v WorkloadValue) bool { return v.Role == role })
	if at < 0 {
		return WorkloadValue{}, false
	}
	return w.Values[at], true
}

// Stage is the stage of that name.
func (w Workload) Stage(name string) (Stage, bool) {
	at := slices.IndexFunc(w.Stages, func(s Stage) bool { return s.Name == name })
	if at < 0 {
		return Stage{}, false
	}
	return w.Stages[at], true
}

// Value is a stage's value of that name.
func (s Stage) Value(name string) (StageValue, bool) {
	at := slices.IndexFunc(s.Values, func(v StageValue) bool { return v.Name == name })
	if at < 0 {
		return StageValue{}, false
	}
	return s.Values[at], true
}
