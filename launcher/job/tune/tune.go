// Package tune recommends the batch size, accumulation and other values for a training on a GPU (swarm tune). It uses
// the formulas of the training's workload profile (launcher/job/workload), launcher/fit for our own nodes, or
// measured runs of the training at a few batch sizes. It writes the values into the training's files and restores the
// files (launcher/job/settings). The package accepts Options and a Session, and imports neither cmd nor the packages
// that run nodes.
package tune

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

// Sources of a recommendation's memory.
const (
	EstimatePublished = "published" // a row of the profile's source
	EstimateFormula   = "formula"   // by the profile
	EstimateFit       = "swarm"     // by launcher/fit, for our own models
	EstimateMeasured  = "measured"  // --profile
	EstimateNone      = "none"
)

// sourceFit is the source of values derived from launcher/fit's estimate.
const sourceFit = "swarm's estimate"

// ownWorkload is the profile of our own nodes.
const ownWorkload = "sapo"

// Answer is a recommendation.
type Answer struct {
	o        *Options
	s        *Session
	w        configs.Workload
	how      string   // why this profile was chosen; empty if it was named
	card     *gpu.GPU // set by --auto
	onHost   bool     // --auto --profile without a GPU: use host memory instead
	meter    *gpu.GPU // device of --profile; nil: CPU, host memory
	request  workload.Request
	result   workload.Recommendation
	estimate string
	profile  *Profile
	edits    *Edits
	warnings []string
}

// Recommend returns the values for a GPU. On request it measures first, and writes the values into the training's
// files. The caller has checked the options.
func Recommend(ctx context.Context, o Options, s Session) (*Answer, error) {
	if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
		return nil, &configs.Error{Key: "dir", Value: o.Dir, Allowed: "a folder"}
	}
	w, how, err := o.load()
	if err != nil {
		return nil, err
	}
	fixed, err := o.fixed(w)
	if err != nil {
		return nil, err
	}
	t := &Answer{o: &o, s: &s, w: w, how: how, request: workload.Request{
		TargetEffectiveBatch: o.Target, SafetyMargin: o.Margin, Fixed: fixed, Read: settings.ReadWorkload(o.Dir, w),
	}}
	if o.Given["devices"] {
		t.request.Devices = o.Devices
	}
	if err := t.findGPU(ctx); err != nil {
		return nil, err
	}
	if err := t.recommend(ctx); err != nil {
		return nil, err
	}
	if o.Apply || o.DryRun {
		if err := t.edit(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// load finds the profile. how is the reason for its choice if the user did not name it.
func (o *Options) load() (w configs.Workload, how string, err error) {
	name := o.Workload
	if name == "" {
		if name, how = settings.GuessWorkload(o.Dir); name == "" {
			name, how = ownWorkload, "the folder has no profile's files; choose another with --workload (swarm tune --list)"
		}
	}
	w, err = settings.LoadWorkload(name)
	return w, how, err
}

// Err returns an error if the recommendation is not expected to fit, else nil.
func (t *Answer) Err() error {
	if r := t.result; !r.Fits && r.ExpectedBytes > 0 {
		return fit.NoRoom(fmt.Errorf("%s is expected to take %s with a batch of %d, but only %.0f %% of %s may be used. Try: %s", t.w.Name,
			t.size(r.ExpectedBytes), r.Batch, 100*r.SafetyMargin, t.size(t.request.GPUMemory), t.smaller()))
	}
	return nil
}

func (t *Answer) size(bytes int64) string { return units.BytesIn(bytes, t.w.Unit) }

// findGPU sets the available memory.
func (t *Answer) findGPU(ctx context.Context) (err error) {
	if t.o.Given["gpu-memory"] {
		t.request.GPUName = "a GPU of that size"
		if t.request.GPUMemory, err = gpuMemory(t.o.GPUMemory, t.w); err != nil || !t.o.Profile {
			return err
		}
	}
	host, err := gpu.Detect(ctx)
	if err != nil {
		return err
	}
	if t.o.Given["gpu-memory"] {
		if host.Device == gpu.CUDA {
			t.meter, err = t.choose(host.GPUs)
		}
		return err
	}
	if host.Device == gpu.CPU {
		if t.o.Profile {
			t.onHost, t.request.GPUMemory, t.request.GPUName = true, host.MemoryAvailable, "cpu"
			return nil
		}
		reason, _ := fail.SplitRemedy(host.Reason)
		return fit.NoRoom(fmt.Errorf("--auto finds no GPU: %s. Try: --gpu-memory 24, or the size of the GPU that you will train on; swarm doctor shows details",
			reason))
	}
	t.card, err = t.choose(host.GPUs)
	if err != nil {
		return err
	}
	t.meter, t.request.GPUMemory, t.request.GPUName = t.card, t.card.MemoryTotal, t.card.Name
	return nil
}

// gpuMemory parses a size of GPU memory. GB have the meaning of the profile's author.
func gpuMemory(text string, w configs.Workload) (int64, error) {
	gb := float64(units.GB)
	if w.Unit == "GiB" {
		gb = units.GiB
	}
	size, err := units.ParseSize(text, gb)
	if err != nil {
		return 0, &configs.Error{Key: "gpu-memory", Value: text, Allowed: units.SizeForms}
	}
	return size, nil
}

// choose returns the GPU of --gpu, else the one with the largest total memory; the first on a tie.
func (t *Answer) choose(list []gpu.GPU) (*gpu.GPU, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(g gpu.GPU) bool { return g.MIG })
	if t.o.Given["gpu"] {
		at := slices.IndexFunc(list, func(g gpu.GPU) bool { return g.Index == t.o.GPU })
		if at < 0 {
			return nil, fail.Usage(fmt.Errorf("there is no GPU %d among the %d found", t.o.GPU, len(list)), "swarm gpu --once")
		}
		return &list[at], nil
	}
	best := 0
	for i := range list {
		if list[i].MemoryTotal > list[best].MemoryTotal {
			best = i
		}
	}
	return &list[best], nil
}

// recommend computes the result, after a measurement if requested.
func (t *Answer) recommend(ctx context.Context) (err error) {
	if t.w.Name == ownWorkload && (t.o.Workload == "" || t.o.Workload == ownWorkload) {
		if err := t.estimateSAPO(); err != nil {
			return err
		}
	}
	if t.o.Profile {
		if err := t.measure(ctx); err != nil {
			return err
		}
	}
	if t.result, err = workload.Recommend(t.w, t.request); err != nil {
		return fail.Usage(err, "swarm tune --help")
	}
	switch {
	case t.profile != nil:
		t.estimate = EstimateMeasured
	case t.request.Fitted != nil:
		t.estimate = EstimateFit
	case t.result.Published:
		t.estimate = EstimatePublished
	case t.result.ExpectedBytes == 0:
		t.estimate = EstimateNone
	default:
		t.estimate = EstimateFormula
	}
	if t.card == nil || t.result.ExpectedBytes == 0 {
		return nil
	}
	if used := t.card.MemoryTotal - t.card.MemoryFree; t.result.ExpectedBytes > t.card.MemoryFree {
		t.warnings = append(t.warnings, fmt.Sprintf("GPU %d already has %s in use: the free memory, %s, is less than needed. Try: swarm gpu --once",
			t.card.Index, t.size(used), t.size(t.card.MemoryFree)))
	}
	return nil
}

// devices returns the number of GPUs that train together.
func (t *Answer) devices() int { return workload.Devices(t.w, t.request) }

// smaller returns the remedy if the smallest batch doesn't fit.
func (t *Answer) smaller() string {
	if len(t.w.Ladder) > 0 {
		return "the steps above in order, or a larger GPU"
	}
	return "a larger GPU, or a smaller model"
}

// estimateSAPO takes the memory of our own models from launcher/fit, as a line over the micro-batch. It uses the
// settings of the folder's swarm.yaml if there is one. Phases run one after another, and the micro-batch determines a
// node's update.
func (t *Answer) estimateSAPO() error {
	var flags resolve.Flags
	if path := filepath.Join(t.o.Dir, "swarm.yaml"); fileExists(path) {
		flags.Config = []string{path}
	}
	c, m, warnings, err := t.s.Sources.Config(&flags)
	if err != nil {
		return err
	}
	t.warnings = append(t.warnings, warnings...)
	if note := flags.EnvironmentNote(t.s.Environ); note != "" {
		t.warnings = append(t.warnings, note)
	}
	need := func(rows int) int64 {
		f := fit.Sum(fit.Estimate(m, fit.DeviceCUDA, t.s.FitSettings(c), configs.AtOnce{Generate: 1, Update: rows}))
		return f.Resident + f.Update
	}
	most := (c.NumTrainSamples + c.NumTransplantTrees) * c.NumGenerations
	line, err := workload.FitLine([]workload.Point{{Batch: 1, Bytes: need(1)}, {Batch: max(2, most), Bytes: need(max(2, most))}})
	if err != nil {
		return fmt.Errorf("the estimate for %s: %w", m.Name, err)
	}
	t.request.Fitted, t.request.FittedFrom = &line, sourceFit
	if t.request.TargetEffectiveBatch == 0 {
		t.request.TargetEffectiveBatch = most
	}
	t.how = strings.TrimPrefix(t.how+"; one node of "+m.Name+" alone on the GPU: swarm plan says how many fit", "; ")
	return nil
}

func fileExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
