package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// gpu is a fake device with limited memory, in arbitrary units, on which the test's engines run. It counts what a
// real device would hold. Only the engine is fake, and the ladder is the real one.
type gpu struct {
	room       int64 // memory for this node's engine
	weights    int64 // twice as much with Adam's moments
	base, each int64 // memory of a call, and of each sequence in it; a quarter with checkpointing
	lost       int64 // to fragmentation, until the engine restarts
	cache      int64 // cached blocks, until a trim
	short      policy.Shortage
	refuses    string          // a call that the engine refuses
	dies       string          // a call at which the engine dies
	engines    []*deviceEngine // one per start
	saved      int
	events     []event.Event
	budget     int64
	spike      int64     // held by other processes
	until      time.Time // end of the spike
	stopping   chan struct{}
}

func (g *gpu) Stopping() <-chan struct{} { return g.stopping }

func (g *gpu) Emit(e event.Event) { g.events = append(g.events, e) }
func (g *gpu) Budget() int64      { return g.budget }

func (g *gpu) launch(_ context.Context, p policy.LoadParams) (launched, error) {
	e := &deviceEngine{gpu: g, load: p, checkpointing: p.GradientCheckpointing, offload: p.OptimizerOffload}
	if len(g.engines) > 0 {
		g.lost = 0
		g.engines[len(g.engines)-1].calls = append(g.engines[len(g.engines)-1].calls, "gone")
	}
	g.engines = append(g.engines, e)
	return launched{e, policy.HelloResult{PID: len(g.engines)}, policy.LoadResult{}}, e.take("load", g.weights)
}

// steps lists the actions taken, with the size after each.
func (g *gpu) steps() []string {
	var steps []string
	for _, e := range g.events {
		if s := e.MemoryStep; s != nil {
			steps = append(steps, fmt.Sprintf("%s %s %d", s.Phase, s.Action, s.MicroBatch))
		}
	}
	return steps
}

type deviceEngine struct {
	gpu           *gpu
	load          policy.LoadParams
	checkpointing bool
	offload       bool
	calls         []string
	updates       int // updates of its weights
}

func (e *deviceEngine) take(call string, bytes int64) error {
	e.calls = append(e.calls, call)
	if strings.HasPrefix(call, e.gpu.dies) && e.gpu.dies != "" {
		return fmt.Errorf("engine call: %w", policy.ErrEngineGone)
	}
	if strings.HasPrefix(call, e.gpu.refuses) && e.gpu.refuses != "" {
		return &policy.Error{Kind: policy.KindBadRequest, Message: call + " is refused"}
	}
	if time.Now().Before(e.gpu.until) {
		bytes += e.gpu.spike
	}
	if bytes+e.gpu.lost+e.gpu.cache > e.gpu.room {
		short := e.gpu.short
		return &policy.Error{Kind: policy.KindOutOfMemory, Message: "full", Shortage: &short}
	}
	return nil
}

func (e *deviceEngine) resident() int64 {
	if e.offload {
		return e.gpu.weights
	}
	return 2 * e.gpu.weights
}

func (e *deviceEngine) memory(peak int64) policy.Memory {
	return policy.Memory{CallBeginBytes: e.resident(), CallPeakBytes: peak, DeviceAllocatedBytes: e.resident()}
}

func (e *deviceEngine) Logprobs(_ context.Context, p policy.LogprobsParams) (policy.LogprobsResult, error) {
	peak := e.resident() + e.gpu.base + e.gpu.each*int64(p.MicroBatch)
	return policy.LogprobsResult{Logprobs: make([][]float64, len(p.Sequences))}, e.take(fmt.Sprintf("logprobs %d", p.MicroBatch), peak)
}

func (e *deviceEngine) Generate(_ context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	size := p.MicroBatch
	if size == 0 {
		size = len(p.Prompts) * p.NumGenerations
	}
	peak := e.resident() + e.gpu.base + e.gpu.each*int64(size)
	err := e.take(fmt.Sprintf("generate %d of seed %d", size, p.Seed), peak)
	return policy.GenerateResult{NewTokens: p.Seed, Memory: e.memory(peak)}, err
}

func (e *deviceEngine) Update(_ context.Context, p policy.UpdateParams) (policy.UpdateResult, error) {
	each := e.gpu.each * int64(p.MicroBatch)
	if e.checkpointing {
		each /= 4
	}
	peak := e.resident() + e.gpu.base + each
	err := e.take(fmt.Sprintf("update %d", p.MicroBatch), peak)
	if err == nil {
		e.updates++
	}
	return policy.UpdateResult{Steps: e.updates, Memory: e.memory(peak)}, err
}

func (e *deviceEngine) Configure(_ context.Context, p policy.ConfigureParams) (policy.Memory, error) {
	err := e.take("configure", 0)
	switch {
	case err != nil:
	case p.MemoryCapBytes != nil:
		if e.gpu.room = *p.MemoryCapBytes; e.gpu.room == 0 {
			e.gpu.room = 1 << 40
		}
	case p.GradientCheckpointing != nil:
		e.checkpointing = *p.GradientCheckpointing
	case p.OptimizerOffload != nil:
		e.offload = *p.OptimizerOffload
	}
	return policy.Memory{}, err
}

func (e *deviceEngine) Trim(context.Context) (policy.Memory, error) {
	e.gpu.cache = 0
	return policy.Memory{DeviceAllocatedBytes: e.resident()}, e.take("trim", 0)
}

func (e *deviceEngine) Save(_ context.Context, p policy.SaveParams) (policy.SaveResult, error) {
	e.gpu.saved = e.updates
	return policy.SaveResult{SHA256: "0f"}, e.take("save", 0)
}

func (e *deviceEngine) Restore(_ context.Context, p policy.RestoreParams) (policy.RestoreResult, error) {
	err := e.take("restore", e.resident())
	if err == nil {
		e.updates = e.gpu.saved
	}
	return policy.RestoreResult{}, err
}

func (e *deviceEngine) Close() { e.calls = append(e.calls, "close") }

// govern opens a node's policy on a device.
func govern(t testing.TB, g *gpu, dir string, change func(*governed)) (*governed, error) {
	t.Helper()
	p := &governed{
		start:  protocol.Start{Device: "cuda:0", Dir: dir, BudgetBytes: g.budget, Config: []byte("{}")},
		config: configs.Config{AutoBatchSize: true, Precision: "auto"}, launch: g.launch, host: g, logger: slog.New(slog.DiscardHandler),
		meter: &meter{device: true}, round: 3,
	}
	if change != nil {
		change(p)
	}
	return p, p.open(t.Context())
}

func batch(sequences int) policy.UpdateParams {
	p := policy.UpdateParams{MicroBatch: sequences, Sequences: make([]policy.Sequence, sequences)}
	for i := range p.Sequences {
		p.Sequences[i].Advantage = 1
	}
	return p
}

// inBubble runs a case with a fake clock that jumps to the next timer.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// The free memory decides how far down the ladder an update goes, and the settings with which the next process
// begins.
func TestLadder(t *testing.T) {
	cleared := slices.Repeat([]string{"update clear_cache 16"}, len(patience))
	halved := append(slices.Clone(cleared), "update halve_micro_batch 8", "update halve_micro_batch 4", "update halve_micro_batch 2", "update halve_micro_batch 1")
	checkpointed := append(slices.Clone(halved), "update gradient_checkpointing 1")
	offloaded := append(slices.Clone(checkpointed), "update optimizer_offload 1")
	restarted := append(slices.Clone(offloaded), "update restart_engine 1")
	cases := []struct {
		name                    string
		gpu                     gpu
		steps                   []string
		checkpointing, offloads bool
		next                    string // first update of the next process
	}{
		{"enough", gpu{room: 2000 + 16*100}, nil, false, false, "update 16"},
		{"cached blocks are in the way", gpu{room: 2000 + 16*100, cache: 50}, cleared[:1], false, false, "update 16"},
		{"half at a time", gpu{room: 2000 + 8*100}, halved[:6], false, false, "update 8"},
		{"one at a time", gpu{room: 2000 + 100}, halved, false, false, "update 1"},
		{"with checkpointing", gpu{room: 2000 + 25}, checkpointed, true, false, "update 1"},
		{"without the optimizer", gpu{room: 1000 + 25}, offloaded, true, true, "update 1"},
		{"in a fresh process", gpu{room: 1000 + 25, lost: 10}, restarted, true, true, "update 1"},
	}
	for _, c := range cases {
		inBubble(t, c.name, func(t *testing.T) {
			g := &c.gpu
			g.weights, g.each = 1000, 100
			g.short = policy.Shortage{Where: "device", RequestedBytes: 100, UsedBytes: 2000, FreeBytes: 40, TotalBytes: 2048}
			dir := t.TempDir()
			p, err := govern(t, g, dir, nil)
			require.NoError(t, err)
			result, err := p.Update(t.Context(), batch(16))
			require.NoError(t, err)
			require.Equal(t, 1, result.Steps, "one step, however many tries")
			require.Equal(t, c.steps, g.steps())
			for _, e := range g.events {
				if e.MemoryStep == nil {
					require.Equal(t, event.TypeLoaded, e.Type)
					continue
				}
				want := event.MemoryStep{
					Round: 3, Phase: "update", Cause: event.MemoryGPU, Action: e.MemoryStep.Action, MicroBatch: e.MemoryStep.MicroBatch,
					RequestedBytes: 100, UsedBytes: 2000, FreeBytes: 40, TotalBytes: 2048,
				}
				require.Equal(t, want, *e.MemoryStep)
			}
			calls := g.engines[len(g.engines)-1].calls
			_, err = p.Update(t.Context(), batch(16))
			require.NoError(t, err)
			require.Equal(t, calls[len(calls)-1:], g.engines[len(g.engines)-1].calls[len(calls):], "the next round starts where this one ended")
			p.Close()

			next, err := govern(t, g, dir, nil)
			require.NoError(t, err)
			nodeProcess := g.engines[len(g.engines)-1]
			require.Equal(t, []bool{c.checkpointing, c.offloads}, []bool{nodeProcess.load.GradientCheckpointing, nodeProcess.load.OptimizerOffload})
			_, err = next.Update(t.Context(), batch(16))
			require.NoError(t, err)
			require.Equal(t, []string{"load", c.next}, nodeProcess.calls)
		})
	}
}

// The ladder waits for memory that others hold briefly, because a smaller micro-batch would slow the rest of the
// run.
func TestLadderOutwaitsOthers(t *testing.T) {
	host := policy.Shortage{Where: "host"}
	full := policy.Shortage{Where: "device", RequestedBytes: 100, UsedBytes: 2000, FreeBytes: 40, TotalBytes: 2048}
	neighbour := policy.Shortage{Where: "device", RequestedBytes: 100, UsedBytes: 2e9, FreeBytes: 40, TotalBytes: 80e9}
	own := policy.Shortage{Where: "device", RequestedBytes: 100, UsedBytes: 2000, CapBytes: 2050, FreeBytes: 900, TotalBytes: 80e9}
	cases := []struct {
		name, cause string
		short       policy.Shortage
		lasts       time.Duration
		took        time.Duration
		cleared     int
		size        int
	}{
		{"host", event.MemoryHost, host, 3 * time.Second, 4 * time.Second, 4, 16},
		{"GPU", event.MemoryGPU, full, 3 * time.Second, 4 * time.Second, 4, 16},
		{"neighbour", event.MemoryNeighbour, neighbour, 7 * time.Second, 8 * time.Second, 5, 16},
		{"a moment", event.MemoryGPU, full, time.Millisecond, time.Second, 2, 16},
		{"for too long", event.MemoryGPU, full, time.Hour, 8 * time.Second, 5, 8},
		{"own cap", event.MemoryOwnCap, own, 3 * time.Second, 0, 1, 8},
	}
	for _, c := range cases {
		inBubble(t, c.name, func(t *testing.T) {
			g := &gpu{room: 2000 + 16*100, weights: 1000, each: 100, spike: 8 * 100, short: c.short}
			p, err := govern(t, g, t.TempDir(), nil)
			require.NoError(t, err)
			began := time.Now()
			g.until = began.Add(c.lasts)
			result, err := p.Update(t.Context(), batch(16))
			require.NoError(t, err)
			require.Equal(t, 1, result.Steps)
			require.Equal(t, c.took, time.Since(began))
			cleared := 0
			for _, e := range g.events {
				require.Equal(t, c.cause, e.MemoryStep.Cause)
				if e.MemoryStep.Action == event.ActionClearCache {
					cleared++
				}
			}
			require.Equal(t, c.cleared, cleared)
			require.Equal(t, fmt.Sprintf("update %d", c.size), g.engines[0].calls[len(g.engines[0].calls)-1])
		})
	}
}

// On a CPU the passes of an update do not depend on the micro-batch, so a smaller one is not a step.
func TestLadderOfAnUpdateOnACPU(t *testing.T) { synctest.Test(t, testLadderOfAnUpdateOnACPU) }

func testLadderOfAnUpdateOnACPU(t *testing.T) {
	g := &gpu{room: 2000 + 16*25, weights: 1000, each: 100, short: policy.Shortage{Where: "host", RequestedBytes: 100}}
	p, err := govern(t, g, t.TempDir(), func(p *governed) { p.meter.device = false })
	require.NoError(t, err)
	_, err = p.Update(t.Context(), batch(16))
	require.NoError(t, err)
	require.Equal(t, append(slices.Repeat([]string{"update clear_cache 16"}, len(patience)), "update gradient_checkpointing 16"), g.steps())
}

// Under MPS a node that reaches its own cap does not wait for others.
func TestLadderUnderMPSHalvesAtOnce(t *testing.T) { synctest.Test(t, testLadderUnderMPSHalvesAtOnce) }

func testLadderUnderMPSHalvesAtOnce(t *testing.T) {
	g := &gpu{room: 2000 + 8*100, weights: 1000, each: 100}
	g.short = policy.Shortage{Where: "device", RequestedBytes: 100, UsedBytes: 2000, CapBytes: 2048, FreeBytes: 48, TotalBytes: 80_000}
	p, err := govern(t, g, t.TempDir(), func(p *governed) { p.limited, p.start.OthersBytes = true, 78_000 })
	require.NoError(t, err)
	began := time.Now()
	_, err = p.Update(t.Context(), batch(16))
	require.NoError(t, err)
	require.Equal(t, []string{"update clear_cache 16", "update halve_micro_batch 8"}, g.steps())
	require.Equal(t, event.MemoryOwnCap, g.events[len(g.events)-1].MemoryStep.Cause)
	require.Zero(t, time.Since(began))
}

// A stop, or the end of the context, ends a wait for memory.
func TestLadderStopsWaiting(t *testing.T) {
	gone := errors.New("the launcher has ended")
	for name, want := range map[string]error{"stopped": ErrStopped, "orphaned": gone} {
		inBubble(t, name, func(t *testing.T) {
			g := &gpu{room: 3600, weights: 1000, each: 100, spike: 800, short: policy.Shortage{Where: "host"}, stopping: make(chan struct{})}
			p, err := govern(t, g, t.TempDir(), nil)
			require.NoError(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			began := time.Now()
			g.until = began.Add(time.Hour)
			time.AfterFunc(1500*time.Millisecond, func() {
				if want == gone {
					cancel(gone)
				} else {
					close(g.stopping)
				}
			})
			_, err = p.Update(ctx, batch(16))
			require.ErrorIs(t, err, want)
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, 1500*time.Millisecond, time.Since(began))
			require.Equal(t, []string{"update clear_cache 16", "update clear_cache 16"}, g.steps())
		})
	}
}

// A restarted engine has the weights of the one before, and reports its process id to the launcher.
func TestRestartKeepsTheState(t *testing.T) { synctest.Test(t, testRestartKeepsTheState) }

func testRestartKeepsTheState(t *testing.T) {
	g := &gpu{room: 3000, weights: 1000, each: 100}
	p, err := govern(t, g, t.TempDir(), nil)
	require.NoError(t, err)
	for range 5 {
		_, err = p.Update(t.Context(), batch(1))
		require.NoError(t, err)
	}
	g.lost = 2000
	result, err := p.Update(t.Context(), batch(1))
	require.NoError(t, err)
	require.Equal(t, 6, result.Steps)
	require.Len(t, g.engines, 2)
	require.Equal(t, []string{"save", "close", "gone"}, g.engines[0].calls[len(g.engines[0].calls)-3:])
	require.Equal(t, []string{"load", "restore", "update 1"}, g.engines[1].calls)
	last := slices.IndexFunc(g.events, func(e event.Event) bool { return e.Type == event.TypeLoaded })
	require.Equal(t, 2, g.events[last].Loaded.EnginePID)
	require.Equal(t, 3, g.events[last].Loaded.StartRound)
	require.NoFileExists(t, p.stateFile())
}

// Every try to generate uses the same seed, and gradient checkpointing is not a step.
func TestLadderOfGenerate(t *testing.T) { synctest.Test(t, testLadderOfGenerate) }

func testLadderOfGenerate(t *testing.T) {
	g := &gpu{room: 1000 + 100, weights: 1000, each: 100}
	p, err := govern(t, g, t.TempDir(), nil)
	require.NoError(t, err)
	result, err := p.Generate(t.Context(), policy.GenerateParams{Prompts: make([][]int, 2), NumGenerations: 2, Seed: 77})
	require.NoError(t, err)
	require.EqualValues(t, 77, result.NewTokens)
	require.Equal(t, []string{
		"generate clear_cache 4", "generate clear_cache 4", "generate clear_cache 4", "generate clear_cache 4", "generate clear_cache 4",
		"generate halve_micro_batch 2", "generate halve_micro_batch 1", "generate optimizer_offload 1",
	}, g.steps())
	require.Equal(t, []string{
		"load", "generate 4 of seed 77", "trim", "generate 4 of seed 77", "trim", "generate 4 of seed 77", "trim", "generate 4 of seed 77",
		"trim", "generate 4 of seed 77", "trim", "generate 4 of seed 77", "generate 2 of seed 77", "generate 1 of seed 77",
		"configure", "generate 1 of seed 77",
	}, g.engines[0].calls)
}

// The moments of a checkpoint may not fit the device.
func TestLadderOfRestore(t *testing.T) { synctest.Test(t, testLadderOfRestore) }

func testLadderOfRestore(t *testing.T) {
	g := &gpu{room: 1500, weights: 1000}
	p, err := govern(t, g, t.TempDir(), nil)
	require.NoError(t, err)
	_, err = p.Restore(t.Context(), policy.RestoreParams{})
	require.NoError(t, err)
	require.Equal(t, append(slices.Repeat([]string{"load clear_cache 0"}, len(patience)), "load optimizer_offload 0"), g.steps())
}

// Device settings do not help against a shortage of host memory.
func TestHostShortageOfAGPUNode(t *testing.T) { synctest.Test(t, testHostShortageOfAGPUNode) }

func testHostShortageOfAGPUNode(t *testing.T) {
	g := &gpu{room: 3000, weights: 1000, each: 100, lost: 2000, short: policy.Shortage{Where: "host"}}
	p, err := govern(t, g, t.TempDir(), nil)
	require.NoError(t, err)
	_, err = p.Update(t.Context(), batch(4))
	require.NoError(t, err)
	require.Equal(t, append(slices.Repeat([]string{"update clear_cache 4"}, len(patience)), "update restart_engine 4"), g.steps())
}

// At the end of the ladder, one line has the figures, the cause that the launcher acts on, and a remedy.
func TestLadderEnds(t *testing.T) {
	figures := policy.Shortage{Where: "device", RequestedBytes: 20e6, UsedBytes: 6.49e9, CapBytes: 6.5e9, FreeBytes: 30e9, TotalBytes: 80e9}
	full := figures
	full.FreeBytes, full.UsedBytes = 1e6, 2e9
	cases := []struct {
		name, cause, says string
		short             policy.Shortage
		others            int64
	}{
		{"own cap", event.CauseOutOfMemory, "the node's own memory budget is too small (20 MB asked for, 6.5 GB in use, 6.5 GB allowed, " +
			"30.0 GB of 80.0 GB free): engine: full. Try: fewer --nodes, each with a larger budget", figures, 40e9},
		{"GPU", event.CauseOutOfMemory, "the GPU's memory is full", full, 78e9},
		{"neighbour", event.CauseOutOfMemory, "other processes have taken more of the GPU's memory than planned", full, 40e9},
		{"host", event.CauseHostOutOfMemory, "host memory is full", policy.Shortage{Where: "host"}, 0},
	}
	for _, c := range cases {
		inBubble(t, c.name, func(t *testing.T) {
			g := &gpu{room: 1100, weights: 1000, base: 500, each: 100, short: c.short}
			p, err := govern(t, g, t.TempDir(), func(p *governed) { p.start.OthersBytes = c.others })
			require.NoError(t, err)
			_, err = p.Update(t.Context(), batch(4))
			require.ErrorContains(t, err, "out of memory in ")
			require.ErrorContains(t, err, c.says)
			require.Contains(t, err.Error(), ". Try: ")
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, c.cause, classify(fmt.Errorf("update: %w", err)).Cause)
			require.Equal(t, event.ActionEnd, g.events[len(g.events)-1].MemoryStep.Action)
			if c.cause == event.CauseOutOfMemory {
				require.ErrorContains(t, err, "with 1 sequence(s) at a time, gradient checkpointing on, optimizer offload on")
				steps := len(ladder) + 2 // the micro-batch is halved twice, and the node ends
				if c.name != "own cap" {
					steps += len(patience) - 1
				}
				require.Len(t, g.steps(), steps)
			}
		})
	}
	bare := policy.Shortage{Where: "device", CapBytes: 6.5e9} // no memory for the CUDA context: no figures
	for cause, short := range map[string]policy.Shortage{event.MemoryOwnCap: figures, event.MemoryNeighbour: full, event.MemoryHost: {Where: "host"}, "no context": bare} {
		inBubble(t, "while loading: "+cause, func(t *testing.T) {
			g := &gpu{room: 900, weights: 1000, short: short, budget: 6.5e9}
			_, err := govern(t, g, t.TempDir(), nil)
			require.ErrorContains(t, err, "out of memory in load of round 3: ")
			require.Equal(t, []string{"load end 0"}, g.steps())
			want := cause
			if short == bare {
				want = event.MemoryNeighbour
			}
			require.Equal(t, want, g.events[0].MemoryStep.Cause)
		})
	}
	used := bare
	used.UsedBytes = 3e9
	for _, c := range []struct {
		short   policy.Shortage
		limited bool
		want    string
	}{{bare, true, event.MemoryOwnCap}, {used, false, event.MemoryGPU}} {
		inBubble(t, "a load's own limit", func(t *testing.T) {
			g := &gpu{room: 900, weights: 1000, short: c.short, budget: 6.5e9}
			_, err := govern(t, g, t.TempDir(), func(p *governed) { p.limited = c.limited })
			require.Error(t, err)
			require.Equal(t, c.want, g.events[0].MemoryStep.Cause)
		})
	}
	inBubble(t, "while restarting", func(t *testing.T) {
		g := &gpu{room: 2000, weights: 1000, base: 2000, short: full, spike: 1500}
		p, err := govern(t, g, t.TempDir(), nil)
		require.NoError(t, err)
		g.until = time.Now().Add(time.Hour)
		_, err = p.Update(t.Context(), batch(1))
		require.ErrorContains(t, err, "restart the engine: out of memory in load of round 3: other processes have taken more")
		require.Equal(t, event.CauseOutOfMemory, classify(err).Cause)
		require.Equal(t, "load end 0", g.steps()[len(g.steps())-1])
		require.Equal(t, event.MemoryNeighbour, g.events[len(g.events)-1].MemoryStep.Cause)
	})
}

// If the engine refuses a step, the ladder tries the next one. If the engine dies, the node ends with the reason.
func TestLadderMeetsTrouble(t *testing.T) {
	inBubble(t, "refusals", func(t *testing.T) {
		g := &gpu{room: 3000, weights: 1000, each: 100, base: 100, lost: 2000, refuses: "configure"}
		p, err := govern(t, g, t.TempDir(), nil)
		require.NoError(t, err)
		_, err = p.Update(t.Context(), batch(2))
		require.NoError(t, err)
		require.Equal(t, append(slices.Repeat([]string{"update clear_cache 2"}, len(patience)), "update halve_micro_batch 1", "update restart_engine 1"), g.steps())
	})
	inBubble(t, "the state can't be saved", func(t *testing.T) {
		g := &gpu{room: 1100, weights: 1000, each: 100, base: 500, refuses: "save"}
		p, err := govern(t, g, t.TempDir(), nil)
		require.NoError(t, err)
		_, err = p.Update(t.Context(), batch(2))
		require.ErrorContains(t, err, "the GPU's memory is full")
		require.Len(t, g.engines, 1)
	})
	inBubble(t, "death", func(t *testing.T) {
		for _, call := range []string{"trim", "configure", "save", "restore"} {
			g := &gpu{room: 1100, weights: 1000, each: 100, base: 500, dies: call}
			p, err := govern(t, g, t.TempDir(), nil)
			require.NoError(t, err)
			_, err = p.Update(t.Context(), batch(2))
			require.ErrorIs(t, err, policy.ErrEngineGone, call)
			require.NotContains(t, err.Error(), "\n")
		}
	})
	t.Run("other errors are none of its business", func(t *testing.T) {
		g := &gpu{room: 5000, weights: 1000, refuses: "update"}
		p, err := govern(t, g, t.TempDir(), nil)
		require.NoError(t, err)
		_, err = p.Update(t.Context(), batch(2))
		require.ErrorContains(t, err, "update 2 is refused")
		require.Empty(t, g.steps())
	})
}

// After a kill by the kernel no retry is possible, and the node saves a memory setting. A kill by another process
// saves none, and the node restarts unchanged.
func TestKilledEngine(t *testing.T) {
	gone := fmt.Errorf("%w: %w", policy.ErrEngineGone, &policy.ExitError{Status: syscall.WaitStatus(syscall.SIGKILL)})
	require.True(t, killed(gone))
	for _, c := range []struct {
		phase string
		onGPU bool
		steps []string // of each fall
	}{
		{phaseGenerate, false, []string{"", "generate halve_micro_batch 2", "generate halve_micro_batch 1", ""}},
		{phaseUpdate, false, []string{"", "update gradient_checkpointing 4", ""}}, // the micro-batch changes nothing on a CPU
		{phaseUpdate, true, []string{"", "", ""}},                                 // sequences use no host memory
	} {
		g := &gpu{room: 5000, weights: 1000}
		p, err := govern(t, g, t.TempDir(), func(p *governed) { p.meter.device = c.onGPU })
		require.NoError(t, err)
		ladder := &climb{governed: p, phase: c.phase, asked: 4}
		for i, want := range c.steps {
			g.events = nil
			p.round += fallsApart
			if i == 0 {
				p.round = 3
			}
			err := ladder.fall(gone)
			if i == 0 { // another process may have used the memory
				require.ErrorContains(t, err, "after its restart the node tries the same batch once more")
			}
			require.Equal(t, event.CauseHostOutOfMemory, classify(err).Cause)
			require.ErrorIs(t, err, policy.ErrEngineGone)
			if want == "" {
				require.Empty(t, g.steps())
				continue
			}
			require.Equal(t, []string{want}, g.steps())
			require.Equal(t, event.MemoryHost, g.events[0].MemoryStep.Cause)
			require.ErrorContains(t, err, "after its restart the node uses smaller batches")
		}
	}
	t.Run("by somebody", func(t *testing.T) {
		dir := t.TempDir()
		p, err := govern(t, &gpu{room: 5000}, dir, nil)
		require.NoError(t, err)
		err = p.attempt(t.Context(), phaseUpdate, 4, 4, func(int) (policy.Memory, error) { return policy.Memory{}, gone })
		require.ErrorIs(t, err, gone)
		require.Equal(t, event.CauseEngine, classify(err).Cause)
		require.NoFileExists(t, filepath.Join(dir, memorySettingsFile))
	})
}

// A budget that the launcher changes applies to the next call, and a larger one lets sizes rise again.
func TestBudgetChanges(t *testing.T) { synctest.Test(t, testBudgetChanges) }

func testBudgetChanges(t *testing.T) {
	g := &gpu{room: 2400, budget: 2400, weights: 1000, each: 100}
	p, err := govern(t, g, t.TempDir(), nil)
	require.NoError(t, err)
	update := func() string {
		t.Helper()
		require.NoError(t, p.rebudget(t.Context()))
		_, err := p.Update(t.Context(), batch(16))
		require.NoError(t, err)
		calls := g.engines[0].calls
		return calls[len(calls)-1]
	}
	require.Equal(t, "update 4", update(), "16 and 8 fail")
	require.Len(t, g.steps(), len(patience)+2)
	for range 2 * quietRounds {
		require.Equal(t, "update 4", update(), "what failed isn't tried again")
	}
	g.budget = 3000
	require.Equal(t, "update 8", update(), "predicted to fit")
	require.EqualValues(t, 3000, g.room, "the engine was told")
	g.budget = 2150
	require.Equal(t, "update 1", update(), "before anything fails")
	g.budget = 0
	require.Equal(t, "update 1", update(), "without a budget nothing is predicted")
	require.Len(t, g.steps(), len(patience)+2)
	require.EqualValues(t, 0, p.report().BudgetBytes)

}

func TestBudgetChangesWithoutAutoBatchSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gpu{room: 9000, budget: 9000, weights: 1000, each: 100}
		p, err := govern(t, g, t.TempDir(), func(p *governed) { p.config.AutoBatchSize = false })
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, p.rebudget(t.Context()))
			_, err = p.Update(t.Context(), batch(16))
			require.NoError(t, err)
			g.budget = 2100
		}
		require.NotEmpty(t, g.steps(), "it meets the wall, and the ladder still works")
	})
}

func (g *governed) report() event.Memory { return g.meter.report(0) }

// For any memory of the device and of the call, the ladder ends: with the update made once if any setting fits, or
// with a failure.
func TestLadderAlwaysEnds(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		g := &gpu{
			room:    rapid.Int64Range(1000, 8000).Draw(rt, "room"),
			weights: 1000,
			base:    rapid.Int64Range(0, 1000).Draw(rt, "base"),
			each:    rapid.Int64Range(0, 400).Draw(rt, "each"),
			lost:    rapid.Int64Range(0, 1000).Draw(rt, "lost"),
			cache:   rapid.Int64Range(0, 1000).Draw(rt, "cache"),
			short:   policy.Shortage{Where: rapid.SampledFrom([]string{"device", "device", "host"}).Draw(rt, "where")},
		}
		g.room = max(g.room, 1000+g.lost+g.cache)
		require.NoError(rt, os.RemoveAll(filepath.Join(dir, memorySettingsFile)))
		sequences := rapid.IntRange(1, 64).Draw(rt, "sequences")
		var result policy.UpdateResult
		var err error
		synctest.Test(t, func(t *testing.T) { // rapid itself cannot run in a bubble
			var p *governed
			if p, err = govern(t, g, dir, nil); err == nil {
				result, err = p.Update(t.Context(), batch(sequences))
			}
		})
		possible := g.short.Where == "device" && g.room >= 1000+g.base+g.each/4
		if err == nil {
			require.Equal(rt, 1, result.Steps)
		} else {
			var failure *Failure
			require.True(rt, errors.As(err, &failure), "%v", err)
			require.False(rt, possible, "%v", err)
		}
		require.LessOrEqual(rt, len(g.steps()), 10+len(patience))
	})
}
