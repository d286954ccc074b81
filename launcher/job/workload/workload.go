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

// near is the relative deviation of a GPU's memory from a published row's: drivers report 40536 to 40960 MiB for a 40
// GB card.
const near = 0.03

// maxGPUs is the maximum number of GPUs that train together.
const maxGPUs = 1024

// Request is the input of Recommend.
type Request struct {
	GPUMemory            int64 // bytes
	GPUName              string
	TargetEffectiveBatch int                       // 0: the profile's
	SafetyMargin         float64                   // 0: the profile's
	Fitted               *Line                     // measured or estimated; replaces the profile's formulas
	FittedFrom           string                    // source of Fitted; "": SourceMeasured
	Devices              int                       // GPUs that train together, data-parallel; 0: the files' number, else 1
	Fixed                map[string]float64        // user's values, by name
	Read                 []configs.WorkloadReading // values of the training's files; precedence: Fixed, Read, the profile's defaults
}

// Recommendation contains the values for a training.
type Recommendation struct {
	Values         []Value     `json:"values"`
	Batch          int         `json:"batch_size"`
	Devices        int         `json:"-"`          // GPUs that train together
	Accumulate     int         `json:"accumulate"` // 1 if the profile has no accumulation
	EffectiveBatch int         `json:"effective_batch"`
	ExpectedBytes  int64       `json:"expected_bytes"` // of one GPU, in the stage that needs most; 0: unknown
	Utilisation    float64     `json:"utilisation"`    // part of the GPU's memory; 0: unknown
	SafetyMargin   float64     `json:"safety_margin"`
	Components     []Component `json:"components"` // of the stage that needs most
	Stages         []Stage     `json:"stages"`
	Published      bool        `json:"published"`     // a row of the profile's source, not computed
	PublishedFor   string      `json:"published_for"` // name of that row
	Fits           bool        `json:"fits"`          // false if the smallest batch exceeds the memory, or nothing is known
	Warnings       []string    `json:"warnings"`
}

// Value is one value of the training.
type Value struct {
	Name    string   `json:"name"`
	Value   string   `json:"value"`
	Decided bool     `json:"decided"` // recommended here; else it is the file's or the profile's value, which need not be written
	Places  []string `json:"places"`
	Origin
}

// Component is a part of the expected memory.
type Component struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Note  string `json:"note"`
}

// Stage contains the values and the memory of one stage.
type Stage struct {
	Name          string  `json:"name"`
	Values        []Value `json:"values"`
	ExpectedBytes int64   `json:"expected_bytes"` // 0: unknown
}

// ErrRequest reports an invalid Request.
var ErrRequest = errors.New("bad request")

// Recommend returns the values for a training. A request with the profile's own values gets the published row for a
// GPU of that size, if there is one. Otherwise it gets the largest batch with an expected memory within the margin,
// and the accumulation for the largest effective batch up to the target. A GPU that is too small for the smallest
// batch is not an error: Fits is false.
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
	w          configs.Workload // with the files' values
	own        configs.Workload // as its author wrote it
	r          Request
	batch      configs.WorkloadValue
	accumulate configs.WorkloadValue // Name is "" if there is none
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

// isDefault reports whether the request has the profile's own settings, so that the published rows apply.
func (q question) isDefault() bool {
	return q.r.Fitted == nil && q.asPublished() && q.devices == 1 && q.target == q.w.TargetEffectiveBatch && q.margin == q.w.SafetyMargin
}

// row returns the published row nearest in memory: the largest row that the GPU covers, else the smallest row.
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

// size formats bytes in the profile's unit.
func (q question) size(bytes int64) string { return units.BytesIn(bytes, q.w.Unit) }
