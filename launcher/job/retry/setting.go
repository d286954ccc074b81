// Package retry chooses the values for a training command: for its first start, and after a memory shortage. It
// computes only from the given numbers and does not depend on commands or GPUs. It is pure: no I/O, no clock, no
// goroutine. It imports launcher/job/shortage only.
package retry

import (
	"errors"

	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// Setting holds the values of one attempt.
type Setting struct {
	BatchSize             int    `json:"batch_size"` // 0: the command has no place for it
	Accumulate            int    `json:"accumulate"` // batches per optimizer step; 0 means 1
	GradientCheckpointing bool   `json:"gradient_checkpointing"`
	Offload               bool   `json:"offload"`
	OnCPU                 bool   `json:"on_cpu"`
	GPU                   string `json:"gpu,omitempty"` // UUID; empty on the CPU
}

// Effective returns the samples per optimizer step; 0 without a batch size.
func (s Setting) Effective() int { return s.BatchSize * max(1, s.Accumulate) }

// Within reports whether s needs no more device memory than other.
func (s Setting) Within(other Setting) bool {
	return s.BatchSize <= other.BatchSize && (s.GradientCheckpointing || !other.GradientCheckpointing) && (s.Offload || !other.Offload)
}

// Outcome is an attempt that ran out of memory.
type Outcome struct {
	Setting  Setting
	Shortage shortage.Report
	Free     int64 // free bytes of its GPU just before it began; 0: unknown
}

// GPU is a GPU that an attempt may move to.
type GPU struct {
	UUID string
	Name string // for the user, such as "GPU 1"; empty: use the UUID
	Free int64  // current free bytes
}

func (g GPU) name() string {
	if g.Name == "" {
		return "GPU " + g.UUID
	}
	return g.Name
}

// Policy lists the allowed steps. The Can fields report that the command has a place for the value.
type Policy struct {
	MinBatchSize int // at least 1
	MaxRetries   int // over all steps

	CanBatch, CanAccumulate, CanCheckpoint, CanOffload bool

	OtherGPU bool // another GPU is allowed
	CPU      bool // the CPU is allowed as the last step
}

// ErrNoMore is returned by Next when nothing is left to try.
var ErrNoMore = errors.New("nothing is left to try")
