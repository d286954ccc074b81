package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// The ladder of DESIGN §7, in order. What follows its last rung is the launcher's: shedding the node, or the CPU.
// param_offload is no rung: it parks weights between calls, which gives room to the GPU's other nodes and never to the
// call that ran out of memory.
var ladder = []rung{
	{action: event.ActionClearCache, step: (*climb).clearCache, again: true},
	{action: event.ActionHalveMicroBatch, step: (*climb).halveMicroBatch, again: true},
	{action: event.ActionCheckpointing, step: (*climb).checkpoint},
	{action: event.ActionOptimizerOffload, step: (*climb).offloadOptimizer},
	{action: event.ActionRestartEngine, step: (*climb).restartEngine},
}

// rung is one way to make the next try take less, or find more. step tells whether there was anything to do; its error
// means that the engine is lost.
type rung struct {
	action string
	step   func(*climb, context.Context) (bool, error)
	again  bool // as long as it has something to do
}

// patience is how long to wait before each time that cached memory is freed. Memory that others have taken often comes
// back within seconds, while fewer sequences at a time cost speed for the rest of the run. The lease is held meanwhile:
// what a node of this swarm would compute with it takes memory too, and those that compute already end without anybody
// following them.
var patience = []time.Duration{0, time.Second, time.Second, 2 * time.Second, 4 * time.Second}

// fallsApart is within how many rounds a second kill of the engine is taken for more than bad luck.
const fallsApart = 10

// climb is the state of the ladder in one call that ran out of memory. It takes no rung twice, except repeatable ones.
type climb struct {
	*governed
	phase   string
	asked   int // sequences of the call
	next    int // rung
	cleared int // times
	cause   string
}

// down takes the next rung that has anything to do, and tells the launcher. Its error ends the call: the ladder is at
// its end, or the engine is lost.
func (c *climb) down(ctx context.Context, short policy.Shortage, failed error) error {
	c.cause = causeOf(short, c.start.OthersBytes, c.limited)
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
	return c.exhausted(c.phase, c.size(c.phase, c.asked), short, failed)
}

// lost is the error of an engine that a rung has cost.
func (c *climb) lost(err, failed error) error {
	var failure *Failure
	if errors.As(err, &failure) {
		return err // it says what to do
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

// here tells whether what the call's sequences take is what ran out: on a GPU a shortage of host memory is none of
// theirs.
func (c *climb) here() bool { return !c.meter.device || c.cause != event.MemoryHost }

// clearCache frees what the engine has cached: at once, and where it isn't the node's own cap that was met again after
// each wait of patience.
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

// pause waits. It returns ErrStopped when the node has been asked to stop, and ctx's cause when that ends.
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

// halveMicroBatch does nothing for an update on a CPU: its forward passes are the same whatever the micro-batch
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

// changed lets sizes that failed in another setting be tried again, after quietRounds rounds.
func (c *climb) changed(paces ...*pace) {
	for _, p := range paces {
		p.Failed = 0
	}
	c.meter.forget()
	c.keep()
}

// restartEngine is worth a try where memory is lost to fragments or leaks. A state that can't be saved because memory
// ran out leaves the engine as it is.
func (c *climb) restartEngine(ctx context.Context) (bool, error) {
	if c.phase == phaseLoad {
		return false, nil // it is fresh
	}
	saved, err := c.saveState(ctx)
	if err != nil {
		return c.possible(err)
	}
	err = c.restart(ctx, saved)
	return err == nil, err
}

// possible makes of a refusal by an engine that lives on "nothing to do".
func (c *climb) possible(err error) (bool, error) {
	var refused *policy.Error
	if errors.As(err, &refused) {
		c.logger.Warn("step down the memory ladder not possible", "reason", refused.Message)
		return false, nil
	}
	return err == nil, err
}

// fall is what remains when the kernel has killed the engine for its memory: there is nothing to try again with, but
// the node's next life. That one tries the same once more, for the memory may have been another's; after a second kill
// within fallsApart rounds it starts one step lower.
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
		hope = "; the node's next life takes less at a time"
	case !again:
		hope = "; the node's next life tries the same once more"
	}
	c.keep()
	return &Failure{event.CauseHostOutOfMemory, fmt.Errorf("the kernel's out-of-memory killer ended the engine%s: %w", hope, gone)}
}

// exhausted is the error of a node that can do no more about its memory. The launcher decides by its cause.
func (g *governed) exhausted(phase string, size int, short policy.Shortage, failed error) error {
	cause := causeOf(short, g.start.OthersBytes, g.limited)
	what := map[string]string{
		event.MemoryOwnCap: "the node's own memory budget is too small", event.MemoryGPU: "the GPU's memory is full",
		event.MemoryNeighbour: "other users have taken more of the GPU's memory than planned", event.MemoryHost: "host memory is full",
	}[cause]
	tried := ""
	if size > 0 {
		tried = fmt.Sprintf(" with %d sequence(s) at a time, gradient checkpointing %s, optimizer offload %s",
			size, onOff(g.checkpointing()), onOff(g.offloading()))
	}
	failure := event.CauseOutOfMemory
	if cause == event.MemoryHost {
		failure = event.CauseHostOutOfMemory
	}
	return &Failure{failure, fmt.Errorf("out of memory in %s of round %d%s: %s (%s): %w. Try: %s",
		phase, g.round, tried, what, describe(short), failed, remedies[cause])}
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
