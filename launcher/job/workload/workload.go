// Package workload computes the batch size and other values that fit a training (configs.Workload) on a GPU, and the
// steps after a memory shortage. It is pure: no I/O, no clocks, no goroutines.
package workload

import (
	"errors"
	"fmt"
	"math"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

// near is how far a GPU's memory may lie from a published row's, as part of it: drivers report 40536 to 40960 MiB of a
// 40 GB card.
const near = 0.03

// maxGPUs is the most GPUs that train together.
const maxGPUs = 1024

// Request is what a recommendation is for.
type Request struct {
	GPUMemory            int64 // bytes
	GPUName              string
	TargetEffectiveBatch int                       // 0: the profile's
	SafetyMargin         float64                   // 0: the profile's
	Fitted               *Line                     // measured, or estimated elsewhere; replaces the profile's formulas
	FittedFrom           string                    // what Fitted is, a Source; "": SourceMeasured
	Devices              int                       // GPUs that train together, data-parallel; 0: what the files have, else 1
	Fixed                map[string]float64        // values that the user set, by name
	Read                 []configs.WorkloadReading // what the training's files have; Fixed comes before it, the profile's defaults after it
}

// Recommendation is what to train with.
type Recommendation struct {
	Values         []Value     `json:"values"`
	Batch          int         `json:"batch_size"`
	Devices        int         `json:"-"`          // GPUs that train together
	Accumulate     int         `json:"accumulate"` // 1 where the profile has no accumulation
	EffectiveBatch int         `json:"effective_batch"`
	ExpectedBytes  int64       `json:"expected_bytes"` // of one GPU, in the stage that takes most; 0: not known
	Utilisation    float64     `json:"utilisation"`    // part of the GPU's memory; 0: not known
	SafetyMargin   float64     `json:"safety_margin"`
	Components     []Component `json:"components"` // of the stage that takes most
	Stages         []Stage     `json:"stages"`
	Published      bool        `json:"published"`     // a row that the profile's source states, not computed
	PublishedFor   string      `json:"published_for"` // that row's name
	Fits           bool        `json:"fits"`          // false where the smallest batch takes more than there is, or nothing is known
	Warnings       []string    `json:"warnings"`
}

// Value is one value of the training.
type Value struct {
	Name    string   `json:"name"`
	Value   string   `json:"value"`
	Decided bool     `json:"decided"` // recommended here; otherwise what the file or the profile has, which nobody needs to write
	Places  []string `json:"places"`
	Origin
}

// Component is a part of the expected memory.
type Component struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Note  string `json:"note"`
}

// Stage is one stage's values and memory.
type Stage struct {
	Name          string  `json:"name"`
	Values        []Value `json:"values"`
	ExpectedBytes int64   `json:"expected_bytes"` // 0: not known
}

// ErrRequest marks a Request that can't be answered as it was put.
var ErrRequest = errors.New("bad request")

// Recommend says what to train with: the published row of a GPU of that size where nothing else was asked for, else the
// greatest batch whose expected memory stays within the margin, and the accumulation that comes nearest to the
// effective batch from below. A GPU that is too small even for the least batch is no error: Fits is false.
func Recommend(w configs.Workload, r Request) (Recommendation, error) {
	q, err := newQuestion(w, r)
	if err != nil {
		return Recommendation{}, err
	}
	row, found := q.row()
	switch {
	case q.isDefault() && found && q.rowMatches(row):
		return q.published(row)
	case r.Fitted == nil && len(w.Memory) == 0:
		return q.unknown(row, found)
	}
	return q.computed()
}

// question is a checked Request.
type question struct {
	w          configs.Workload // with what the files have
	own        configs.Workload // as its author wrote it
	r          Request
	batch      configs.WorkloadValue
	accumulate configs.WorkloadValue // Name is "" where there is none
	margin     float64
	target     int // 0: none
	devices    int
}

func newQuestion(w configs.Workload, r Request) (question, error) {
	q := question{w: Current(w, r.Read), own: w, r: r, margin: r.SafetyMargin, target: r.TargetEffectiveBatch, devices: Devices(w, r)}
	if q.margin == 0 {
		q.margin = w.SafetyMargin
	}
	if q.target == 0 {
		q.target = w.TargetEffectiveBatch
	}
	q.batch, _ = w.ByRole(configs.RoleBatch)
	q.accumulate, _ = w.ByRole(configs.RoleAccumulate)
	switch {
	case r.GPUMemory <= 0:
		return q, fmt.Errorf("%w: memory of %d bytes", ErrRequest, r.GPUMemory)
	case !(q.margin > 0 && q.margin <= 1):
		return q, fmt.Errorf("%w: safety margin %g, allowed: above 0, at most 1", ErrRequest, q.margin)
	case q.target < 0 || r.Devices < 0:
		return q, fmt.Errorf("%w: a negative number", ErrRequest)
	case q.batch.Name == "":
		return q, fmt.Errorf("%w: profile %s has no value with role batch", ErrRequest, w.Name)
	case r.TargetEffectiveBatch > 0 && q.accumulate.Name == "":
		return q, fmt.Errorf("%w: profile %s has no value with role accumulate, so no effective batch can be computed", ErrRequest, w.Name)
	}
	for name, value := range r.Fixed {
		v, found := w.Value(name)
		if !found {
			return q, fmt.Errorf("%w: profile %s has no value %q", ErrRequest, w.Name, name)
		}
		if v.Role != "" && !(value >= 1 && value == math.Trunc(value) && value <= 1<<22) {
			return q, fmt.Errorf("%w: %s %g, allowed: a whole number from 1", ErrRequest, name, value)
		}
	}
	return q, nil
}

// isDefault tells whether the profile's own question is asked, which its rows answer.
func (q question) isDefault() bool {
	return q.r.Fitted == nil && q.asPublished() && q.devices == 1 && q.target == q.w.TargetEffectiveBatch && q.margin == q.w.SafetyMargin
}

// row is the published row nearest in memory: the largest that the GPU reaches, else the smallest there is.
func (q question) row() (best configs.KnownRow, found bool) {
	reached := func(k configs.KnownRow) bool { return float64(q.r.GPUMemory) >= float64(k.GPUMemory)*(1-near) }
	for _, k := range q.w.Known {
		if !found || reached(k) && (!reached(best) || k.GPUMemory > best.GPUMemory) || !reached(best) && k.GPUMemory < best.GPUMemory {
			best, found = k, true
		}
	}
	return best, found
}

func (q question) rowMatches(k configs.KnownRow) bool {
	return math.Abs(float64(q.r.GPUMemory)-float64(k.GPUMemory)) <= near*float64(k.GPUMemory)
}

// size writes bytes in the profile's unit.
func (q question) size(bytes int64) string { return units.BytesIn(bytes, q.w.Unit) }
