// Package retry chooses the values that a training command is started with: the first time, and again after a memory
// shortage. It knows only the numbers that it is given, and neither commands nor GPUs. It is pure: no I/O, no clock, no
// goroutine. It imports launcher/job/shortage only.
package retry

import (
	"errors"

	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// Setting is what one attempt is started with.
type Setting struct {
	BatchSize             int    `json:"batch_size"` // 0: the command has no place for it
	Accumulate            int    `json:"accumulate"` // batches to an optimizer step; 0 is 1
	GradientCheckpointing bool   `json:"gradient_checkpointing"`
	Offload               bool   `json:"offload"`
	OnCPU                 bool   `json:"on_cpu"`
	GPU                   string `json:"gpu,omitempty"` // UUID; empty on the CPU
}

// Effective is the number of samples to an optimizer step; 0 without a batch size.
func (s Setting) Effective() int { return s.BatchSize * max(1, s.Accumulate) }

// Within tells whether s takes no more of a device's memory than other would.
func (s Setting) Within(other Setting) bool {
	return s.BatchSize <= other.BatchSize && (s.GradientCheckpointing || !other.GradientCheckpointing) && (s.Offload || !other.Offload)
}

// Outcome is an attempt that ran out of memory.
type Outcome struct {
	Setting  Setting
	Shortage shortage.Report
	Free     int64 // bytes, of its GPU just before it began; 0: unknown
}

// GPU is one that an attempt may be moved to.
type GPU struct {
	UUID string
	Name string // what the user calls it, "GPU 1"; empty: by its UUID
	Free int64  // bytes, now
}

func (g GPU) name() string {
	if g.Name == "" {
		return "GPU " + g.UUID
	}
	return g.Name
}

// Policy is what may be tried. The Can fields say that the command has a place for the value.
type Policy struct {
	MinBatchSize int // at least 1
	MaxRetries   int // over all steps

	CanBatch, CanAccumulate, CanCheckpoint, CanOffload bool

	OtherGPU bool // another GPU may be taken
	CPU      bool // the CPU may be, in the end
}

// ErrNoMore is returned by Next when nothing is left to try.
var ErrNoMore = errors.New("nothing is left to try")
