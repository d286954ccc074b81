package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

const (
	profileRuns     = 8    // most runs, including those that don't fit
	profileGrowth   = 0.01 // part of a peak; smaller growth is ignored
	profileInterval = 200 * time.Millisecond
	measuredMargin  = 0.85 // part of the GPU for measured memory, if a profile's formula includes its margin
)

// Profile is the result of --profile.
type Profile struct {
	Where  string        `json:"where"` // gpu, or host: memory of the process tree
	Points []Point       `json:"points"`
	Line   workload.Line `json:"line"`
	// LargestDifference is the maximum of |measured - estimate| / measured; null if the profile has no estimate.
	LargestDifference *float64 `json:"largest_difference"`
}

// Point is the peak of one batch size.
type Point struct {
	Batch    int     `json:"batch_size"`
	Bytes    int64   `json:"bytes"` // 0 if it doesn't fit
	Fits     bool    `json:"fits"`
	Seconds  float64 `json:"seconds"`
	Estimate int64   `json:"estimate_bytes"` // by the profile; 0: none
}

// measure runs the training with increasing batch sizes, and replaces the estimate by the line through the peaks.
func (t *Answer) measure(ctx context.Context) error {
	template, err := attempt.Parse(t.o.Command)
	if err != nil {
		return fail.Usage(err, "")
	}
	if !template.Has(attempt.BatchSize) {
		return fail.Usage(errors.New("the command does not use {batch_size}"), "write {batch_size} in the argument that sets the batch size")
	}
	sizes, err := t.sizes()
	if err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, t.s.Stderr, "Stopping. Nothing is stored.")
	defer interrupts.Close()
	m := &measuring{t: t, template: template}
	if t.meter != nil {
		m.devices, err = job.OpenDevices(ctx, t.meter.UUID)
		if err != nil {
			return interrupt.Exit(ctx, err)
		}
		defer m.devices.Close()
		release, err := m.claim(ctx)
		if err != nil {
			return interrupt.Exit(ctx, err)
		}
		defer release()
	}
	t.profile = &Profile{Where: "host", Points: []Point{}}
	if m.devices != nil {
		t.profile.Where = "gpu"
	}
	if err := m.walk(ctx, sizes); err != nil {
		return interrupt.Exit(ctx, err)
	}
	return t.conclude()
}

// sizes returns three batch sizes up to the recommended one, or up to the profile's start value if there is no
// estimate.
func (t *Answer) sizes() ([]int, error) {
	r, err := workload.Recommend(t.w, t.request)
	if err != nil {
		return nil, fail.Usage(err, "swarm tune --help")
	}
	batch, _ := t.w.ByRole(configs.RoleBatch)
	least := max(1, int(batch.Min))
	sizes := []int{max(least, r.Batch/4), max(least, r.Batch/2), max(least, r.Batch)}
	if sizes = slices.Compact(sizes); len(sizes) < 2 {
		sizes = append(sizes, 2*sizes[0])
	}
	return sizes, nil
}

// expected returns the profile's own estimate for a batch, or 0 if it has none.
func (t *Answer) expected(batch int) int64 {
	v, _ := t.w.ByRole(configs.RoleBatch)
	request := t.request
	request.Fixed = map[string]float64{}
	for name, n := range t.request.Fixed {
		request.Fixed[name] = n
	}
	request.Fixed[v.Name] = float64(batch)
	if len(t.w.Memory) == 0 && request.Fitted == nil {
		return 0
	}
	r, err := workload.Recommend(t.w, request)
	if err != nil {
		return 0 // the same request was valid for another batch
	}
	return r.ExpectedBytes
}

// conclude fits the line. The recommendation then uses the line, and excludes sizes that didn't fit.
func (t *Answer) conclude() error {
	var points []workload.Point
	least := math.MaxInt
	for _, p := range t.profile.Points {
		if !p.Fits {
			least = min(least, p.Batch)
			continue
		}
		points = append(points, workload.Point{Batch: p.Batch, Bytes: p.Bytes})
		if p.Estimate > 0 {
			d := math.Abs(float64(p.Bytes-p.Estimate)) / float64(p.Bytes)
			if t.profile.LargestDifference == nil || d > *t.profile.LargestDifference {
				t.profile.LargestDifference = &d
			}
		}
	}
	if len(points) == 0 {
		return fit.NoRoom(fmt.Errorf("not even a batch of %d fits. Try: swarm doctor --oom on its output, or a larger GPU", least))
	}
	line, err := workload.FitLine(points)
	if err != nil {
		return fmt.Errorf("the peaks do not fit a line: %w. Try: a longer --profile-seconds, so that training has begun", err)
	}
	t.profile.Line, t.request.Fitted, t.request.FittedFrom = line, &line, workload.SourceMeasured
	if t.request.SafetyMargin == 0 {
		t.request.SafetyMargin = min(t.w.SafetyMargin, measuredMargin)
	}
	t.w.Values = slices.Clone(t.w.Values)
	for i := range t.w.Values {
		if v := &t.w.Values[i]; v.Role == configs.RoleBatch && least != math.MaxInt {
			v.Max = float64(max(1, least-1))
			v.Min = min(v.Min, v.Max)
		}
	}
	return nil
}
