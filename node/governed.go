package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// engine is the interface that the governor needs of a node's engine. *policy.Engine implements it.
type engine interface {
	Policy
	Saver
	Configure(context.Context, policy.ConfigureParams) (policy.Memory, error)
	Trim(context.Context) (policy.Memory, error)
	Close()
}

// supervisor is the part of the launcher's link that the governor uses.
type supervisor interface {
	Emit(event.Event)
	Budget() int64 // device memory in bytes that the node may use at present, 0: no limit
}

// governed is a node's policy under a memory budget. It owns the engine and chooses how many sequences a call
// computes at a time. When memory runs out, it climbs down the ladder (ladder.go) and retries. A call therefore
// returns the same result as with more memory, or an error once no rung is left. Make calls from one goroutine. Any
// goroutine may read the meter.
type governed struct {
	start  protocol.Start
	config configs.Config
	launch func(context.Context, policy.LoadParams) (launched, error)
	host   supervisor
	logger *slog.Logger
	meter  *meter

	limited  bool     // MPS limits the device memory
	running  launched // a restart replaces its engine
	saving   engine   // the engine of the pending background save; nil: none
	settings memorySettings
	most     map[string]int // by phase, the most sequences that calls request at a time
	round    int            // current round
}

var (
	_ Policy = (*governed)(nil)
	_ Saver  = (*governed)(nil)
)

// open starts the engine with the model loaded, with the memory settings that previous processes learned.
func (g *governed) open(ctx context.Context) error {
	var err error
	if g.settings, err = recall(g.start); err != nil {
		g.logger.Warn("memory settings of an earlier process not used", "reason", err)
	}
	_ = os.Remove(g.stateFile()) // left by a process that ended during a restart
	g.most = map[string]int{}
	g.meter.setBudget(g.start.BudgetBytes)
	return g.load(ctx)
}

// Generate implements Policy. The number of completions decoded at a time does not change the completions.
// p.MicroBatch is the upper limit of that number for this call and others like it.
func (g *governed) Generate(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	var result policy.GenerateResult
	all := len(p.Prompts) * p.NumGenerations
	most := all
	if p.MicroBatch > 0 {
		most = p.MicroBatch
	}
	if g.start.GenerateBatch > 0 {
		most = min(most, g.start.GenerateBatch)
	}
	err := g.attempt(ctx, phaseGenerate, min(all, most), most, func(size int) (policy.Memory, error) {
		if p.MicroBatch = size; size == all {
			p.MicroBatch = 0
		}
		var err error
		result, err = g.running.engine.Generate(ctx, p)
		return result.Memory, err
	})
	return result, err
}

// Update implements Policy. The number of sequences computed at a time does not change the step, rounding aside.
func (g *governed) Update(ctx context.Context, p policy.UpdateParams) (policy.UpdateResult, error) {
	var result policy.UpdateResult
	rows := computed(p)
	if rows == 0 {
		return g.running.engine.Update(ctx, p) // no gradient step
	}
	most := p.MicroBatch
	if most == 0 {
		most = len(p.Sequences)
	}
	err := g.attempt(ctx, phaseUpdate, min(most, rows), most, func(size int) (policy.Memory, error) {
		p.MicroBatch = size
		var err error
		result, err = g.running.engine.Update(ctx, p)
		return result.Memory, err
	})
	return result, err
}

// Logprobs implements Policy. It computes as many sequences at a time as an update, which needs more memory for
// each.
func (g *governed) Logprobs(ctx context.Context, p policy.LogprobsParams) (policy.LogprobsResult, error) {
	ladder := climb{governed: g, phase: phaseUpdate, asked: cmp.Or(p.MicroBatch, len(p.Sequences))}
	for {
		p.MicroBatch = g.size(phaseUpdate, ladder.asked)
		result, err := g.running.engine.Logprobs(ctx, p)
		short := outOfMemory(err, g.meter.device)
		if short == nil {
			return result, err
		}
		if err := ladder.down(ctx, *short, err); err != nil {
			return result, err
		}
	}
}

// computed counts the sequences that an update computes. Sequences without an advantage count only towards the
// denominator.
func computed(p policy.UpdateParams) int {
	n := 0
	for _, s := range p.Sequences {
		if s.Advantage != 0 || p.Beta != 0 {
			n++
		}
	}
	return n
}

// attempt makes a phase's call with as many of the requested sequences at a time as memory allows, and retries
// after each step down the ladder. most is the largest number that other calls of the phase may request.
func (g *governed) attempt(ctx context.Context, phase string, asked, most int, call func(size int) (policy.Memory, error)) error {
	ladder := climb{governed: g, phase: phase, asked: asked}
	for {
		kills := hostmem.OOMKills()
		size := g.size(phase, asked)
		memory, err := call(size)
		if err == nil {
			g.meter.observe(phase, size, g.size(phase, most), memory)
			g.settings.pace(phase).pass()
			g.fit(phase, most)
			return nil
		}
		short := outOfMemory(err, g.meter.device)
		switch {
		case short != nil:
			if err := ladder.down(ctx, *short, err); err != nil {
				return err
			}
		case errors.Is(err, policy.ErrEngineGone) && killed(err) && kills >= 0 && hostmem.OOMKills() > kills:
			return ladder.fall(err)
		case errors.Is(err, policy.ErrEngineGone) && killed(err) && kills >= 0:
			return killedByOther(err)
		default:
			return err
		}
	}
}

func (g *governed) size(phase string, asked int) int {
	if pace := g.settings.pace(phase); pace != nil {
		return pace.size(asked)
	}
	return asked
}

// fit chooses the batch size of a phase's next calls, which request at most most sequences, from the measurements
// so far. It runs before those calls request their leases.
func (g *governed) fit(phase string, most int) {
	g.most[phase] = most
	if !g.config.AutoBatchSize {
		return
	}
	pace := g.settings.pace(phase)
	changed := pace.fit(most,
		func(size int) bool { return g.meter.holds(phase, size, 1, true) },
		func(size int) bool { return g.meter.holds(phase, size, headroom, false) })
	if changed {
		g.logger.Info("sequences at a time", "round", g.round, "phase", phase, "limit", pace.Limit)
		g.keep()
		g.meter.plan(phase, pace.size(most))
	}
}

// rebudget applies a budget that the launcher has changed to the calls that follow.
func (g *governed) rebudget(ctx context.Context) error {
	if g.running.engine == nil {
		return nil // load will use the new budget
	}
	budget := g.host.Budget()
	if budget == g.settings.BudgetBytes {
		return nil
	}
	g.logger.Info("new memory budget", "bytes", budget, "before", g.settings.BudgetBytes)
	g.start.BudgetBytes = budget
	g.settings.rebudget(budget)
	g.meter.setBudget(budget)
	g.keep()
	for phase, most := range g.most {
		g.fit(phase, most)
	}
	_, err := g.configure(ctx, policy.ConfigureParams{MemoryCapBytes: &budget})
	return err
}

// configure reports whether the engine accepted the settings.
func (g *governed) configure(ctx context.Context, p policy.ConfigureParams) (bool, error) {
	_, err := g.running.engine.Configure(ctx, p)
	var refused *policy.Error
	if errors.As(err, &refused) {
		g.logger.Warn("the engine keeps its memory settings", "reason", refused.Message)
		return false, nil
	}
	return err == nil, err
}

// keep saves the memory settings. If that fails, the node's next process has to learn them again.
func (g *governed) keep() {
	if err := g.settings.keep(g.start.Dir); err != nil {
		g.logger.Warn("memory settings not stored", "error", err)
	}
}

// Trim frees cached memory. With param_offload it also moves the weights to host memory.
func (g *governed) Trim(ctx context.Context) error {
	if g.running.engine == nil {
		return nil
	}
	memory, err := g.running.engine.Trim(ctx)
	if err == nil {
		g.meter.rest(memory)
	}
	return err
}

// Save implements Saver.
func (g *governed) Save(ctx context.Context, p policy.SaveParams) (policy.SaveResult, error) {
	result, err := g.running.engine.Save(ctx, p)
	if g.saving = nil; result.Pending {
		g.saving = g.running.engine
	}
	return result, err
}

// Saved implements Saver.
func (g *governed) Saved(ctx context.Context, p policy.SavedParams) (policy.SaveResult, error) {
	if g.saving == nil || g.saving != g.running.engine {
		return policy.SaveResult{}, errSaveLost
	}
	return g.running.engine.Saved(ctx, p)
}

// Restore implements Saver. It may run out of memory, because a checkpoint adds Adam's moments.
func (g *governed) Restore(ctx context.Context, p policy.RestoreParams) (policy.RestoreResult, error) {
	var result policy.RestoreResult
	ladder := climb{governed: g, phase: phaseLoad}
	for {
		var err error
		result, err = g.running.engine.Restore(ctx, p)
		short := outOfMemory(err, g.meter.device)
		if short == nil {
			return result, err
		}
		if err := ladder.down(ctx, *short, err); err != nil {
			return result, err
		}
	}
}
