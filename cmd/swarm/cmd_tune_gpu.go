package main

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
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

// Where a recommendation's memory comes from.
const (
	estimatePublished = "published" // a row that the profile's source states
	estimateFormula   = "formula"   // the profile's
	estimateFit       = "swarm"     // launcher/fit's, for our own models
	estimateMeasured  = "measured"  // --profile
	estimateNone      = "none"
)

// sourceFit is the source of values that follow from launcher/fit's estimate.
const sourceFit = "swarm's estimate"

// ownWorkload is the profile of our own nodes.
const ownWorkload = "sapo"

// tuning is one answer of swarm tune on its way.
type tuning struct {
	o        *tuneOptions
	w        configs.Workload
	how      string   // why it is this profile; empty where it was named
	card     *gpu.GPU // --auto's
	onHost   bool     // --auto --profile without a GPU: the host's memory takes its place
	meter    *gpu.GPU // where --profile measures; nil: on the CPU, memory of the host
	request  workload.Request
	result   workload.Recommendation
	estimate string
	profile  *tuneProfile
	edits    *tuneEdits
	warnings []string
}

func (t *tuning) size(bytes int64) string { return units.BytesIn(bytes, t.w.Unit) }

// findGPU fills in the memory there is.
func (t *tuning) findGPU(ctx context.Context) (err error) {
	if t.o.gpuMemory.given {
		t.request.GPUName = "a GPU of that size"
		if t.request.GPUMemory, err = t.o.gpuMemory.bytesOf("gpu-memory", gbOf(t.w)); err != nil || !t.o.profile {
			return err
		}
	}
	host, err := gpu.Detect(ctx)
	if err != nil {
		return err
	}
	if t.o.gpuMemory.given {
		if host.Device == gpu.CUDA {
			t.meter, err = t.choose(host.GPUs)
		}
		return err
	}
	if host.Device == gpu.CPU {
		if t.o.profile {
			t.onHost, t.request.GPUMemory, t.request.GPUName = true, host.MemoryAvailable, cpuName
			return nil
		}
		reason, _ := fail.SplitRemedy(host.Reason)
		return fit.NoRoom(fmt.Errorf("--auto finds no GPU: %s. Try: --gpu-memory 24, or whatever the one you will train on has; swarm doctor tells more",
			reason))
	}
	t.card, err = t.choose(host.GPUs)
	if err != nil {
		return err
	}
	t.meter, t.request.GPUMemory, t.request.GPUName = t.card, t.card.MemoryTotal, t.card.Name
	return nil
}

// gbOf is how many bytes a GB of the profile's author has.
func gbOf(w configs.Workload) float64 {
	if w.Unit == "GiB" {
		return units.GiB
	}
	return units.GB
}

// choose is --gpu's, else the one with most memory in all; of equals the first.
func (t *tuning) choose(list []gpu.GPU) (*gpu.GPU, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(g gpu.GPU) bool { return g.MIG })
	if t.o.given["gpu"] {
		at := slices.IndexFunc(list, func(g gpu.GPU) bool { return g.Index == t.o.gpu })
		if at < 0 {
			return nil, fail.Usage(fmt.Errorf("there is no GPU %d among the %d found", t.o.gpu, len(list)), "swarm gpu --once")
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

// recommend answers, by measuring first where that was asked for.
func (t *tuning) recommend(ctx context.Context, g *globals) (err error) {
	if t.w.Name == ownWorkload && (t.o.workload == "" || t.o.workload == ownWorkload) {
		if err := t.estimateSAPO(); err != nil {
			return err
		}
	}
	if t.o.profile {
		if err := t.measure(ctx, g); err != nil {
			return err
		}
	}
	if t.result, err = workload.Recommend(t.w, t.request); err != nil {
		return fail.Usage(err, "swarm tune --help")
	}
	switch {
	case t.profile != nil:
		t.estimate = estimateMeasured
	case t.request.Fitted != nil:
		t.estimate = estimateFit
	case t.result.Published:
		t.estimate = estimatePublished
	case t.result.ExpectedBytes == 0:
		t.estimate = estimateNone
	default:
		t.estimate = estimateFormula
	}
	if t.card == nil || t.result.ExpectedBytes == 0 {
		return nil
	}
	if used := t.card.MemoryTotal - t.card.MemoryFree; t.result.ExpectedBytes > t.card.MemoryFree {
		t.warnings = append(t.warnings, fmt.Sprintf("GPU %d has %s in use already: what is free now, %s, is less than this takes. Try: swarm gpu --once",
			t.card.Index, t.size(used), t.size(t.card.MemoryFree)))
	}
	return nil
}

// devices is the number of GPUs that train together.
func (t *tuning) devices() int { return workload.Devices(t.w, t.request) }

// smaller is the remedy where the least batch doesn't fit.
func (t *tuning) smaller() string {
	if len(t.w.Ladder) > 0 {
		return "the steps above, in their order, or a larger GPU"
	}
	return "a larger GPU, or a smaller model"
}

// estimateSAPO takes the memory of our own models from launcher/fit, with the settings of the folder's swarm.yaml where it has one, as a line
// over the micro-batch. Phases come one after the other; a node's update is what the micro-batch decides.
func (t *tuning) estimateSAPO() error {
	var flags resolve.Flags
	if path := filepath.Join(t.o.dir, "swarm.yaml"); fileExists(path) {
		flags.Config = []string{path}
	}
	c, m, warnings, err := configSources(os.Environ(), true).Config(&flags)
	if err != nil {
		return err
	}
	t.warnings = append(t.warnings, warnings...)
	if note := flags.EnvironmentNote(os.Environ()); note != "" {
		t.warnings = append(t.warnings, note)
	}
	need := func(rows int) int64 {
		f := fit.Sum(fit.Estimate(m, fit.DeviceCUDA, fitSettings(c), fit.Sizes{Generate: 1, Update: rows}))
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
