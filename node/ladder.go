package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// ladder is the memory ladder (docs/MEMORY.md, "When memory runs out"), in order. After its last rung the launcher
// decides: it gives up the node or moves it to the CPU. param_offload is not a rung. It parks weights between calls,
// which frees memory for the GPU's other nodes but not for the call that ran out.
var ladder = []rung{
	{action: event.ActionClearCache, step: (*climb).clearCache, again: true},
	{action: event.ActionHalveMicroBatch, step: (*climb).halveMicroBatch, again: true},
	{action: event.ActionCheckpointing, step: (*climb).checkpoint},
	{action: event.ActionOptimizerOffload, step: (*climb).offloadOptimizer},
	{action: event.ActionRestartEngine, step: (*climb).restartEngine},
}

// rung is one way to make the next try use less memory or find more. step reports whether there was anything to do.
// Its error means that the engine is lost.
type rung struct {
	action string
	step   func(*climb, context.Context) (bool, error)
	again  bool // repeat while it has something to do
}

// patience lists the waits before each attempt to free cached memory. Memory that other processes hold often comes
// back within seconds, while a smaller batch slows the rest of the run. The node keeps its lease meanwhile. Another
// node of this swarm would need memory for its work too. The nodes that already compute will finish, and no node
// takes their place.
var patience = []time.Duration{0, time.Second, time.Second, 2 * time.Second, 4 * time.Second}

// fallsApart is the number of rounds within which a second kill of the engine is no longer treated as chance.
const fallsApart = 10

// climb is the state of the ladder in one call that ran out of memory. It takes each rung once, except repeatable
// ones.
type climb struct {
	*governed
	phase   string
	asked   int // sequences of the call
	next    int // index of the next rung
	cleared int // times that the cache was cleared
	cause   string
}

// down takes the next rung that has anything to do, and reports it to the launcher. An error ends the call: no rung
// is left, or the engine is lost.
func (c *climb) down(ctx context.Context, short policy.Shortage, failed error) error {
	c.cause = c.why(short)
	for c.next < len(ladder) {
		rung := ladder[c.next]
		done, err := rung.step(c, ctx)
		if !done || !rung.again {
			c.next++
		}
		if err != nil {
			return c.lost(err, failed)
		}
		if done {
			c.record(rung.action, short)
			return nil
		}
	}
	return c.exhausted(short, failed)
}

// why returns the cause of a shortage, one of event.Memory*. An engine that finds no memory for its CUDA context has
// no figures of the GPU. The plan left the node's budget free, so other processes hold it.
func (c *climb) why(short policy.Shortage) string {
	if c.phase == phaseLoad && c.start.BudgetBytes > 0 && short.Where == "device" && short.TotalBytes == 0 && short.UsedBytes == 0 {
		if c.limited {
			return event.MemoryOwnCap // the driver's limit is smaller than a context
		}
		return event.MemoryNeighbour
	}
	return causeOf(short, c.start.OthersBytes, c.limited)
}

// lost is the error when a rung has lost the engine.
func (c *climb) lost(err, failed error) error {
	var failure *Failure
	if errors.As(err, &failure) {
		return err // a Failure already has the remedy
	}
	return fmt.Errorf("%w (after: %w)", err, failed)
}

func (c *climb) record(action string, short policy.Shortage) {
	size := c.size(c.phase, c.asked)
	c.logger.Warn("out of memory", "round", c.round, "phase", c.phase, "cause", c.cause, "action", action, "sequences", size,
		"figures", describe(short))
	c.host.Emit(event.Event{Type: event.TypeMemoryStep, MemoryStep: &event.MemoryStep{
		Round: c.round, Phase: c.phase, Cause: c.cause, Action: action, MicroBatch: size,
		RequestedBytes: short.RequestedBytes, UsedBytes: short.UsedBytes, CapBytes: short.CapBytes,
		FreeBytes: short.FreeBytes, TotalBytes: short.TotalBytes,
	}})
}

// here reports whether the memory that ran out is the memory of the call's sequences. On a GPU, a shortage of host
// memory is not.
func (c *climb) here() bool { return !c.meter.device || c.cause != event.MemoryHost }

// clearCache frees the engine's cached memory: the first time at once, then again after each wait of patience. It
// does not repeat if the node's own cap was the limit.
func (c *climb) clearCache(ctx context.Context) (bool, error) {
	if c.cleared == len(patience) || c.cleared > 0 && c.cause == event.MemoryOwnCap {
		return false, nil
	}
	if err := c.pause(ctx, patience[c.cleared]); err != nil {
		return false, err
	}
	c.cleared++
	return c.possible(c.Trim(ctx))
}

// pause waits for d. It returns ErrStopped when the node is asked to stop, and ctx's cause when ctx ends.
func (c *climb) pause(ctx context.Context, d time.Duration) error {
	var stopping <-chan struct{}
	if host, ok := c.host.(interface{ Stopping() <-chan struct{} }); ok {
		stopping = host.Stopping()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-stopping:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// halveMicroBatch does nothing for an update on a CPU, where the forward passes do not depend on the micro-batch
// (engine/batch.py).
func (c *climb) halveMicroBatch(context.Context) (bool, error) {
	pace := c.settings.pace(c.phase)
	if pace == nil || !c.here() || c.phase == phaseUpdate && !c.meter.device {
		return false, nil
	}
	size := pace.size(c.asked)
	if size <= 1 {
		return false, nil
	}
	pace.fail(size, c.cause == event.MemoryNeighbour)
	c.keep()
	return true, nil
}

func (c *climb) checkpoint(ctx context.Context) (bool, error) {
	if c.phase != phaseUpdate || !c.here() || c.checkpointing() {
		return false, nil
	}
	on := true
	if done, err := c.configure(ctx, policy.ConfigureParams{GradientCheckpointing: &on}); !done {
		return false, err
	}
	c.settings.GradientCheckpointing = true
	c.changed(&c.settings.Update)
	return true, nil
}

func (c *climb) offloadOptimizer(ctx context.Context) (bool, error) {
	if !c.meter.device || !c.here() || c.offloading() {
		return false, nil
	}
	on := true
	if done, err := c.configure(ctx, policy.ConfigureParams{OptimizerOffload: &on}); !done {
		return false, err
	}
	c.settings.OptimizerOffload = true
	c.changed(&c.settings.Update, &c.settings.Generate)
	return true, nil
}

// changed lets the given paces retry sizes that failed under the previous setting, after quietRounds rounds.
func (c *climb) changed(paces ...*pace) {
	for _, p := range paces {
		p.Failed = 0
	}
	c.meter.forget()
	c.keep()
}

// restartEngine helps if memory is lost to fragmentation or leaks. If the state cannot be saved for lack of memory,
// the engine continues as it is.
func (c *climb) restartEngine(ctx context.Context) (bool, error) {
	if c.phase == phaseLoad {
		return false, nil // the engine is fresh
	}
	saved, err := c.saveState(ctx)
	if err != nil {
		return c.possible(err)
	}
	err = c.restart(ctx, saved)
	return err == nil, err
}

// possible turns a refusal by an engine that still runs into "nothing to do".
func (c *climb) possible(err error) (bool, error) {
	var refused *policy.Error
	if errors.As(err, &refused) {
		c.logger.Warn("a step to save memory is not possible", "reason", refused.Message)
		return false, nil
	}
	return err == nil, err
}

// fall handles the kernel's kill of the engine for its memory. No retry is possible in this process. The node's
// next process tries the same once more, because another process may have used the memory. After a second kill
// within fallsApart rounds, the next process starts one step lower.
func (c *climb) fall(gone error) error {
	c.cause = event.MemoryHost
	again := c.settings.FellIn > 0 && c.round < c.settings.FellIn+fallsApart
	c.settings.FellIn = c.round + 1
	done, action := false, event.ActionHalveMicroBatch
	if again && c.here() {
		if done, _ = c.halveMicroBatch(context.Background()); !done && c.phase == phaseUpdate && !c.checkpointing() {
			done, action = true, event.ActionCheckpointing
			c.settings.GradientCheckpointing = true
			c.changed(&c.settings.Update)
		}
	}
	hope := ""
	switch {
	case done:
		c.record(action, policy.Shortage{Where: "host", UsedBytes: c.meter.resident()})
		hope = "; after its restart the node uses smaller batches"
	case !again:
		hope = "; after its restart the node tries the same batch once more"
	}
	c.keep()
	return &Failure{event.CauseHostOutOfMemory, fmt.Errorf("the kernel's out-of-memory killer ended the engine%s: %w", hope, gone)}
}

// exhausted is the error of a node whose ladder has no rung left. A load has none. The launcher acts on the cause of
// the error and of the step that exhausted reports.
func (c *climb) exhausted(short policy.Shortage, failed error) error {
	c.cause = c.why(short)
	c.record(event.ActionEnd, short)
	what := map[string]string{
		event.MemoryOwnCap: "the node's own memory budget is too small", event.MemoryGPU: "the GPU's memory is full",
		event.MemoryNeighbour: "other processes have taken more of the GPU's memory than planned", event.MemoryHost: "host memory is full",
	}[c.cause]
	tried := ""
	if size := c.size(c.phase, c.asked); size > 0 {
		tried = fmt.Sprintf(" with %d sequence(s) at a time, gradient checkpointing %s, optimizer offload %s",
			size, onOff(c.checkpointing()), onOff(c.offloading()))
	}
	failure := event.CauseOutOfMemory
	if c.cause == event.MemoryHost {
		failure = event.CauseHostOutOfMemory
	}
	return &Failure{failure, fmt.Errorf("out of memory in %s of round %d%s: %s (%s): %w. Try: %s",
		c.phase, c.round, tried, what, describe(short), failed, remedies[c.cause])}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (g *governed) checkpointing() bool {
	return g.config.GradientCheckpointing || g.settings.GradientCheckpointing
}

func (g *governed) offloading() bool { return g.config.OptimizerOffload || g.settings.OptimizerOffload }
