package configs

import "slices"

// Roles of a Workload's values. A workload has one RoleBatch and at most one RoleAccumulate.
const (
	RoleBatch      = "batch"      // samples per step on one GPU
	RoleAccumulate = "accumulate" // steps before each optimizer step
)

// Names that a Workload's formulas may use besides its values.
const (
	NameGPUMemory = "gpu_memory" // bytes of the GPU
	NameGPUs      = "gpus"       // GPUs that train together, data-parallel
)

// Workload is the profile of a user's training: its values and their places in the user's files, its memory use, and
// the remedies if memory runs out (docs/TUNE.md).
type Workload struct {
	Name                 string
	About                string
	Source               string // source of its figures
	Unit                 string // "GB" or "GiB": the author's unit, and the unit of displayed sizes
	Values               []WorkloadValue
	Memory               []MemoryItem // empty: only Known has figures
	SafetyMargin         float64      // usable part of the GPU's memory, above 0, at most 1
	TargetEffectiveBatch int          // 0: none
	Stages               []Stage
	Known                []KnownRow
	Ladder               []LadderStep
	Advice               []string
	Next                 []string // commands to continue with
}

// WorkloadValue is one value of a training. Values are text, as in the user's file.
type WorkloadValue struct {
	Name        string
	Role        string // RoleBatch, RoleAccumulate or ""
	About       string
	Start       string   // default value; "": unknown
	Recommended string   // recommended value for any GPU; "": none
	Min         float64  // for numbers
	Max         float64  // for numbers; 0: no limit
	Rule        Formula  // computes it from the batch size and other values' starts, rounded down; may be empty
	Places      []string // "conf/config.yaml:data_loader.batch_size"; none: only on the command line
}

// MemoryItem is one component of the GPU memory that training uses.
type MemoryItem struct {
	Name  string
	Bytes Formula
	Note  string
}

// Stage is a part of the training with its own values.
type Stage struct {
	Name   string
	Values []StageValue
}

// StageValue is a value in one stage.
type StageValue struct {
	Name   string
	Value  string
	Places []string // none: the places of the Workload's value
}

// KnownRow is a published configuration for a GPU of that size.
type KnownRow struct {
	Name      string
	GPUMemory int64 // bytes
	Values    []LadderEdit
	Expected  int64 // bytes; 0: use the formulas
	Note      string
}

// LadderStep is one remedy for running out of memory.
type LadderStep struct {
	Title    string
	Why      string
	TradeOff string
	Expected string // the expected effect
	Stage    string // the stage whose values it changes; "": the Workload's
	Edits    []LadderEdit
	Repeat   int // maximum number of times in a row; at least 1
}

// LadderEdit changes a value. In a ladder, To may be relative: "/2", "x2", "<=512" (at most), ">=8" (at least).
type LadderEdit struct {
	Value string
	To    string
}

// Value returns the value with that name.
func (w Workload) Value(name string) (WorkloadValue, bool) {
	at := slices.IndexFunc(w.Values, func(v WorkloadValue) bool { return v.Name == name })
	if at < 0 {
		return WorkloadValue{}, false
	}
	return w.Values[at], true
}

// ByRole returns the value with that role.
func (w Workload) ByRole(role string) (WorkloadValue, bool) {
	at := slices.IndexFunc(w.Values, func(v WorkloadValue) bool { return v.Role == role })
	if at < 0 {
		return WorkloadValue{}, false
	}
	return w.Values[at], true
}

// Stage returns the stage with that name.
func (w Workload) Stage(name string) (Stage, bool) {
	at := slices.IndexFunc(w.Stages, func(s Stage) bool { return s.Name == name })
	if at < 0 {
		return Stage{}, false
	}
	return w.Stages[at], true
}

// Value returns the stage's value with that name.
func (s Stage) Value(name string) (StageValue, bool) {
	at := slices.IndexFunc(s.Values, func(v StageValue) bool { return v.Name == name })
	if at < 0 {
		return StageValue{}, false
	}
	return s.Values[at], true
}
