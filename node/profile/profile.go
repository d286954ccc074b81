// Package profile measures a node's memory. It runs the node's real phases at maximum length with increasing
// numbers of sequences at a time, and fits a line through the peaks. The caller provides an engine with a loaded
// model. The package owns no engine and stores nothing. Of node it imports only node/policy.
package profile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/node/policy"
)

// Engine is the engine to measure. *policy.Engine implements it.
type Engine interface {
	Generate(context.Context, policy.GenerateParams) (policy.GenerateResult, error)
	Update(context.Context, policy.UpdateParams) (policy.UpdateResult, error)
	Trim(context.Context) (policy.Memory, error)
}

// The measured phases.
const (
	Generate = "generate"
	Update   = "update"
)

// Options describes a node's round at its largest.
type Options struct {
	PromptTokens     int
	CompletionTokens int
	Prompts          int // I: own questions
	Generations      int // G: completions of each
	Sequences        int // sequences of an update: (I + J) · G
	Rows             int // most sequences in one forward pass, for any micro-batch; 0: no limit
	Vocabulary       int
	Sizes            []int               // numbers of sequences at a time to measure; nil: DefaultSizes
	Update           policy.UpdateParams // options of the update; Run sets prompts, sequences and micro-batch
	Progress         func(Step)          // called before every measurement; may be nil
}

// Step is the next measurement.
type Step struct {
	Done, Total int
	Share       float64 // share of all sequences that are done, to estimate the time left
	Phase       string
	Sequences   int
}

// Point is one measurement: a phase's peak beyond what was held before it, in bytes.
type Point struct {
	Phase     string  `json:"phase"`
	Sequences int     `json:"sequences"` // at a time
	Bytes     int64   `json:"bytes"`     // 0: it did not fit
	Seconds   float64 `json:"seconds"`
	Fits      bool    `json:"fits"`
}

// Result is a node's memory in bytes. Resident is held between phases, once the optimizer has its moments. On a GPU
// it is allocated memory, on a CPU the resident memory of the engine's process.
type Result struct {
	Resident int64
	Generate Line
	Update   Line
	Points   []Point
}

// DefaultSizes returns the powers of two from 1 up to most, and most itself.
func DefaultSizes(most int) []int {
	var sizes []int
	for n := 1; n < most; n *= 2 {
		sizes = append(sizes, n)
	}
	return append(sizes, max(1, most))
}

// Run measures. It changes Adam's moments but not the engine's weights. A size that does not fit ends its phase's
// series, and is reported as a point that does not fit. If the smallest size does not fit, Run returns an error.
func Run(ctx context.Context, engine Engine, o Options) (Result, error) {
	own := o.Prompts * o.Generations
	if own < 1 || o.Sequences < 1 || o.PromptTokens < 1 || o.CompletionTokens < 1 || o.Vocabulary < 1 {
		return Result{}, fmt.Errorf("profile: nothing to measure: %d prompts of %d tokens, %d sequences", o.Prompts, o.PromptTokens, o.Sequences)
	}
	sizes := func(most int) []int {
		if o.Sizes == nil {
			return DefaultSizes(most)
		}
		kept := slices.DeleteFunc(slices.Clone(o.Sizes), func(n int) bool { return n < 1 || n > most })
		slices.Sort(kept)
		return slices.Compact(kept)
	}
	m := &measurement{engine: engine, options: o}
	most := o.Sequences
	if o.Rows > 0 {
		most = min(most, o.Rows) // beyond this size memory stays constant, and one line could not fit both parts
	}
	generate, update := sizes(own), sizes(most)
	if len(update) < 2 {
		update = slices.Compact([]int{1, most})
	}
	m.total = 1 + len(generate) + len(update)
	m.work = 1
	for _, n := range slices.Concat(generate, update, update) { // an update has two forward passes
		m.work += n
	}
	// The first update allocates Adam's moments, and on a CPU the buffers of libraries. It is not a point.
	m.announce(Update, 1)
	if _, err := m.update(ctx, 1); err != nil {
		return Result{}, fmt.Errorf("profile: one sequence of %d tokens at a time: %w", o.PromptTokens+o.CompletionTokens, err)
	}
	for _, series := range []struct {
		phase string
		sizes []int
		call  func(context.Context, int) (policy.Memory, error)
	}{{Generate, generate, m.generate}, {Update, update, m.update}} {
		if err := m.series(ctx, series.phase, series.sizes, series.call); err != nil {
			return Result{}, err
		}
	}
	result := Result{Resident: m.resident, Points: m.points}
	result.Generate, result.Update = fitLine(m.points, Generate), fitLine(m.points, Update)
	return result, nil
}

type measurement struct {
	engine       Engine
	options      Options
	done, total  int
	worked, work int // in sequences
	resident     int64
	points       []Point
}

func (m *measurement) announce(phase string, sequences int) {
	if m.options.Progress != nil {
		m.options.Progress(Step{
			Done: m.done, Total: m.total, Share: float64(m.worked) / float64(m.work), Phase: phase, Sequences: sequences,
		})
	}
	m.done++
	m.worked += sequences
	if phase == Update && m.done > 1 {
		m.worked += sequences
	}
}

func (m *measurement) series(ctx context.Context, phase string, sizes []int, call func(context.Context, int) (policy.Memory, error)) error {
	for i, size := range sizes {
		if _, err := m.engine.Trim(ctx); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		m.announce(phase, size)
		began := time.Now()
		memory, err := call(ctx, size)
		var refused *policy.Error
		if errors.As(err, &refused) && refused.Kind == policy.KindOutOfMemory && i > 0 {
			m.points = append(m.points, Point{Phase: phase, Sequences: size})
			m.done += len(sizes) - i - 1
			return nil
		}
		if err != nil {
			return fmt.Errorf("profile: %s, %d sequences at a time: %w", phase, size, err)
		}
		m.resident = max(m.resident, memory.CallBeginBytes, memory.CallBeginReservedBytes) // just trimmed: no cached memory
		m.points = append(m.points, Point{
			Phase: phase, Sequences: size, Bytes: memory.CallTook(memory.CallBeginBytes), Seconds: time.Since(began).Seconds(), Fits: true,
		})
	}
	return nil
}

// generate decodes one batch of size completions to the end.
func (m *measurement) generate(ctx context.Context, size int) (policy.Memory, error) {
	o := m.options
	each := min(size, o.Generations)
	params := policy.GenerateParams{
		NumGenerations: each, MaxNewTokens: o.CompletionTokens, Temperature: 1, TopP: 1, EOSTokenID: -1, Seed: 1,
	}
	for range (size + each - 1) / each {
		params.Prompts = append(params.Prompts, m.tokens(o.PromptTokens, len(params.Prompts)))
	}
	result, err := m.engine.Generate(ctx, params)
	return result.Memory, err
}

// update takes one step with two forward passes, each of size sequences. The second pass runs while the first one's
// gradient is in memory, as in a real update.
func (m *measurement) update(ctx context.Context, size int) (policy.Memory, error) {
	o := m.options
	params := o.Update
	params.MicroBatch = size
	for i := range min(2*size, max(size, o.Sequences)) {
		if i%o.Generations == 0 {
			params.Prompts = append(params.Prompts, m.tokens(o.PromptTokens, i))
		}
		params.Sequences = append(params.Sequences, policy.Sequence{
			Prompt: len(params.Prompts) - 1, Completion: m.tokens(o.CompletionTokens, i), Advantage: float64(1 - 2*(i%2)),
		})
	}
	result, err := m.engine.Update(ctx, params)
	return result.Memory, err
}

// tokens returns n ids of the vocabulary. Another seed gives other ids.
func (m *measurement) tokens(n, seed int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = (seed*7919 + i*104729) % m.options.Vocabulary
	}
	return ids
}
