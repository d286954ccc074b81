// Package profile measures a node's memory: it runs the node's real phases at maximum length with more and more
// sequences at a time, and fits a line through the peaks. It takes an engine that has loaded its model, owns none, and
// keeps nothing; it imports node/policy only.
package profile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sapo-swarm/swarm/node/policy"
)

// Engine is what is measured; *policy.Engine is the real one.
type Engine interface {
	Generate(context.Context, policy.GenerateParams) (policy.GenerateResult, error)
	Update(context.Context, policy.UpdateParams) (policy.UpdateResult, error)
	Trim(context.Context) (policy.Memory, error)
}

// Phases that are measured.
const (
	Generate = "generate"
	Update   = "update"
)

// Options say what a node's round is at its largest.
type Options struct {
	PromptTokens     int
	CompletionTokens int
	Prompts          int // I: own questions
	Generations      int // G: completions of each
	Sequences        int // of an update: (I + J) · G
	Rows             int // most that the engine takes in one forward pass, whatever the micro-batch; 0: no limit
	Vocabulary       int
	Sizes            []int               // sequences at a time; nil: DefaultSizes
	Update           policy.UpdateParams // options of the update; prompts, sequences and micro-batch are filled in
	Progress         func(Step)          // told before every measurement; may be nil
}

// Step is one measurement to come.
type Step struct {
	Done, Total int
	Share       float64 // of all sequences that are done: what a person's estimate of the time left rests on
	Phase       string
	Sequences   int
}

// Point is one measurement: the most that a phase took beyond what was held before it, in bytes.
type Point struct {
	Phase     string  `json:"phase"`
	Sequences int     `json:"sequences"` // at a time
	Bytes     int64   `json:"bytes"`     // 0: it didn't fit
	Seconds   float64 `json:"seconds"`
	Fits      bool    `json:"fits"`
}

// Result is a node's memory in bytes. Resident is what is held between phases, once the optimizer has its moments:
// allocated on a GPU, resident memory of the engine's process on a CPU.
type Result struct {
	Resident int64
	Generate Line
	Update   Line
	Points   []Point
}

// DefaultSizes are powers of two from 1 up to most, and most itself.
func DefaultSizes(most int) []int {
	var sizes []int
	for n := 1; n < most; n *= 2 {
		sizes = append(sizes, n)
	}
	return append(sizes, max(1, most))
}

// Run measures. The engine's weights stay as they are but for Adam's moments. A size that doesn't fit ends its phase's
// series and is reported as a point that doesn't fit; that the smallest doesn't is an error.
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
		most = min(most, o.Rows) // beyond it memory grows no more, and a line through both parts would be neither
	}
	generate, update := sizes(own), sizes(most)
	if len(update) < 2 {
		update = slices.Compact([]int{1, most})
	}
	m.total = 1 + len(generate) + len(update)
	m.work = 1
	for _, n := range slices.Concat(generate, update, update) { // an update takes two forward passes
		m.work += n
	}
	// The first update makes Adam's moments, and a CPU's libraries their buffers: it belongs to no point.
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
	worked, work int // sequences
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
		m.resident = max(m.resident, memory.CallBeginBytes, memory.CallBeginReservedBytes) // just trimmed: nothing is cached
		m.points = append(m.points, Point{
			Phase: phase, Sequences: size, Bytes: memory.CallTook(memory.CallBeginBytes), Seconds: time.Since(began).Seconds(), Fits: true,
		})
	}
	return nil
}

// generate decodes one batch of so many completions to the end.
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

// update takes one step on two forward passes of so many sequences: that the second finds the first one's gradient
// counts.
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

// tokens are n ids of the vocabulary, others for another seed.
func (m *measurement) tokens(n, seed int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = (seed*7919 + i*104729) % m.options.Vocabulary
	}
	return ids
}
