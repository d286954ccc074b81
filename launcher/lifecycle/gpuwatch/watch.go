// Package gpuwatch observes this host's GPUs and the running runs of a home (swarm gpu). It attributes GPU memory
// to nodes, and reports problems and possible improvements. Devices come from launcher/gpu, runs from the database.
// It keeps samples for trends. It changes nothing, and must not import packages that start nodes.
package gpuwatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// Age limits of the recorded samples that the first look adopts, in seconds: memory for its trend, and utilization.
const (
	recordedTrend = 24 * 3600
	recordedBusy  = 600
)

// Watch samples GPUs and running runs, and remembers the samples. It is safe for concurrent use.
type Watch struct {
	mu      sync.Mutex // a closed live view may still be sampling
	home    layout.Home
	remedy  func(error) string
	host    gpu.Host
	sampler *gpu.Sampler  // nil: no GPU
	reader  *store.Reader // nil: nothing has run yet
	began   bool          // recorded samples have been adopted
	xids    []gpu.XID
	memory  map[string]*gpu.History // by UUID; "" is the host
	busy    map[string]*mean        // utilization by UUID
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

// value returns the mean, or -1 if there are no values.
func (m *mean) value() float64 {
	if m == nil || m.n == 0 {
		return -1
	}
	return m.sum / float64(m.n)
}

// Open starts watching this host's GPUs and the runs of a home. remedy returns the remedy for a database error. The
// caller closes the watch.
func Open(ctx context.Context, home layout.Home, remedy func(error) string) (*Watch, error) {
	w := &Watch{home: home, remedy: remedy, memory: map[string]*gpu.History{}, busy: map[string]*mean{}}
	var err error
	if w.host, err = gpu.Detect(ctx); err != nil {
		return nil, err
	}
	if len(w.host.GPUs) == 0 {
		return w, nil
	}
	if w.sampler, err = gpu.OpenSampler(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		w.host.Reason = err.Error()
	}
	return w, nil
}

// Close ends the sessions with the driver and the database. It waits for a look in progress.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sampler != nil {
		w.sampler.Close()
	}
	if w.reader != nil {
		w.reader.Close()
	}
}

// View is Look, formatted for people.
func (w *Watch) View(ctx context.Context) (terminal.GPUStatus, error) {
	document, err := w.Look(ctx)
	if err != nil {
		return terminal.GPUStatus{}, err
	}
	return w.Status(document), nil
}

// Look samples the devices and reads the runs.
func (w *Watch) Look(ctx context.Context) (Document, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return Document{}, err
	}
	sample := gpu.Sample{Time: event.Now()}
	var err error
	if w.sampler != nil {
		sample, err = w.sampler.Sample(ctx)
		w.xids = append(w.xids, sample.XIDs...) // an unanswered sample has them, too
		if err != nil {
			return Document{}, err
		}
	}
	if w.host.MemoryTotal, w.host.MemoryAvailable, err = gpu.Memory(ctx); err != nil {
		return Document{}, err
	}
	runs, runsErr := w.running(ctx)
	if !w.began && runsErr == nil {
		w.began, runsErr = true, w.takeOver(ctx, runs, sample.Time)
	}
	w.remember(sample)
	document := newDocument(w, sample, runs)
	if runsErr != nil && !errors.Is(runsErr, store.ErrNoDatabase) {
		what, try := fail.SplitRemedy(fail.OneLine("runs cannot be read: " + runsErr.Error()))
		document.Warnings = append(document.Warnings, gpu.Note{Code: "database", Text: what, Try: cmp.Or(try, fail.OneLine(w.remedy(runsErr)))})
	}
	return document, nil
}

func (w *Watch) remember(sample gpu.Sample) {
	w.history("").Add(sample.Time, w.host.MemoryTotal-w.host.MemoryAvailable)
	for _, d := range sample.Devices {
		if d.MemoryUsed >= 0 {
			w.history(d.UUID).Add(sample.Time, d.MemoryUsed)
		}
		if d.Utilization >= 0 {
			w.load(d.UUID).add(d.Utilization)
		}
	}
}

func (w *Watch) history(uuid string) *gpu.History {
	if w.memory[uuid] == nil {
		w.memory[uuid] = &gpu.History{}
	}
	return w.memory[uuid]
}

func (w *Watch) load(uuid string) *mean {
	if w.busy[uuid] == nil {
		w.busy[uuid] = &mean{}
	}
	return w.busy[uuid]
}

// runningRun is a run whose coordinator is running on this host.
type runningRun struct {
	stats.Status
	plan fit.Plan
}

// running returns the runs that are running on this host. The error is store.ErrNoDatabase if nothing has ever run.
func (w *Watch) running(ctx context.Context) ([]runningRun, error) {
	if w.reader == nil {
		reader, err := store.OpenReader(ctx, w.home.Database())
		if err != nil {
			return nil, err
		}
		w.reader = reader
	}
	own, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	totals, err := w.reader.Runs(ctx, store.Filter{States: []string{store.RunRunning}})
	if err != nil {
		return nil, err
	}
	var runs []runningRun
	for _, t := range totals {
		if t.Host != own {
			continue
		}
		status, err := lifecycle.Status(ctx, w.reader, t.Run.Run)
		if err != nil {
			return nil, err
		}
		if status.State != store.RunRunning {
			continue // the coordinator is gone
		}
		run := runningRun{Status: status}
		// Without a readable plan, the nodes' GPUs are unknown.
		_ = json.Unmarshal(t.Plan, &run.plan)
		runs = append(runs, run)
	}
	return runs, nil
}

// takeOver adopts the device samples that running runs have recorded, so that the first look already shows a trend.
func (w *Watch) takeOver(ctx context.Context, runs []runningRun, now float64) error {
	var recorded []store.DeviceSample
	for _, run := range runs {
		samples, err := w.reader.Devices(ctx, run.Run, now-recordedTrend)
		if err != nil {
			return err
		}
		recorded = append(recorded, samples...)
	}
	slices.SortStableFunc(recorded, func(a, b store.DeviceSample) int { return cmp.Compare(a.Time, b.Time) })
	for _, s := range recorded {
		if s.MemoryUsedBytes >= 0 {
			w.history(s.UUID).Add(s.Time, s.MemoryUsedBytes)
		}
		if s.Utilization >= 0 && s.Time > now-recordedBusy {
			w.load(s.UUID).add(s.Utilization)
		}
	}
	return nil
}
