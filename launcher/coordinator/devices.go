package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/launch"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// A run samples its GPUs often enough to distinguish a node's failure from its GPU's. It records the samples as
// often as nodes report their memory.
const (
	deviceInterval  = 2 * time.Second
	deviceRecording = 10.0                                        // seconds
	deviceAnswer    = 2 * time.Second                             // most time for a sample. Its XIDs are then known without the rest
	deviceFault     = deviceInterval + deviceAnswer + time.Second // after this time a fault is known
	deviceReopening = time.Minute                                 // between two tries to open the GPUs
)

// deviceWatch watches the GPUs of a run: the memory in use and its owners, and whether the GPUs still respond.
type deviceWatch struct {
	answer, reopening time.Duration

	recorded float64          // time of the last recorded sample
	on       map[string][]int // GPUs by node
	emit     func(event.Event)
	faults   chan launch.Fault
	logger   *slog.Logger

	mu     sync.Mutex
	claims map[string]gpu.Claim
}

func newDeviceWatch(plan fit.Plan, emit func(event.Event), logger *slog.Logger) *deviceWatch {
	w := &deviceWatch{
		answer: deviceAnswer, reopening: deviceReopening,
		on: map[string][]int{}, emit: emit, faults: make(chan launch.Fault), logger: logger, claims: map[string]gpu.Claim{},
	}
	for _, at := range plan.Placement {
		w.on[at.Node] = at.Cards()
	}
	return w
}

// see records the memory that nodes report.
func (w *deviceWatch) see(e event.Event) {
	if e.Node == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	claim := w.claims[e.Node]
	claim.Node = e.Node
	switch {
	case e.Loaded != nil:
		claim.PID = e.Loaded.EnginePID
	case e.Memory != nil:
		claim.Held, claim.Peak = e.Memory.DeviceBytes, max(claim.Peak, e.Memory.DevicePeakBytes)
	case e.Type == event.TypeExit:
		delete(w.claims, e.Node)
		return
	default:
		return
	}
	w.claims[e.Node] = claim
}

// serve samples the GPUs until ctx ends.
func (w *deviceWatch) serve(ctx context.Context) {
	sampler := w.open(ctx)
	if sampler == nil {
		return
	}
	defer sampler.Close()
	ticker := time.NewTicker(deviceInterval)
	defer ticker.Stop()
	var before gpu.Sample
	for silent := false; ; {
		bounded, cancel := context.WithTimeoutCause(ctx, w.answer, fmt.Errorf("the driver did not answer for %s", w.answer))
		now, err := sampler.Sample(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		w.report(ctx, before, now)
		switch {
		case err == nil:
			before = now
		case !silent:
			w.logger.Warn("the GPUs cannot be read", "reason", err)
		}
		silent = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// open opens the GPUs, again and again until the driver answers. It returns nil when ctx ends.
func (w *deviceWatch) open(ctx context.Context) *gpu.Sampler {
	for failed := false; ; failed = true {
		sampler, err := gpu.OpenSampler(ctx)
		switch {
		case err == nil:
			return sampler
		case ctx.Err() == nil && !failed:
			w.logger.Warn("the GPUs are not monitored yet", "reason", err, "next_try", w.reopening)
		}
		select {
		case <-time.After(w.reopening):
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *deviceWatch) report(ctx context.Context, before, now gpu.Sample) {
	if now.Time-w.recorded >= deviceRecording {
		w.recorded = now.Time
		w.record(now)
	}
	for _, x := range now.XIDs {
		w.emit(event.Event{Type: event.TypeWarning, Time: event.Now(), Message: x.String()})
	}
	for _, f := range gpu.Faults(before, now) {
		// The text goes into sentences that already name the GPU. swarm gpu prints the remedy.
		what, _ := fail.SplitRemedy(strings.TrimPrefix(f.Message, fmt.Sprintf("read GPU %d: ", f.GPU)))
		what = strings.TrimPrefix(what, fmt.Sprintf("GPU %d: ", f.GPU))
		select {
		case w.faults <- launch.Fault{GPU: f.GPU, Message: what, Fatal: true}:
		case <-ctx.Done():
			return
		}
	}
}

// record records the use of the run's GPUs, including memory held by unknown processes.
func (w *deviceWatch) record(now gpu.Sample) {
	for _, d := range now.Devices {
		if claims, used := w.claimsOn(d.Index); used && d.Problem == "" {
			share := gpu.Attribute(d.MemoryUsed, d.Processes, claims)
			w.emit(event.Event{Type: event.TypeDevice, Time: now.Time, Device: d.Event(share.Unattributed)})
		}
	}
}

// claimsOn returns the claims of the nodes on a GPU. used reports whether the run has nodes there.
func (w *deviceWatch) claimsOn(index int) (claims []gpu.Claim, used bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for node, gpus := range w.on {
		if !slices.Contains(gpus, index) {
			continue
		}
		used = true
		if claim, ok := w.claims[node]; ok {
			claims = append(claims, claim)
		}
	}
	return claims, used
}
