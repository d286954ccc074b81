// Package evaluate runs one model in its own engine to answer questions: the held-out questions of its tasks, or a
// user's question. It owns the engine and the questions. The launcher decides the model and the placement. The
// package records nothing, and must not import launcher or a database.
package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// Model is a model that answers questions.
type Model struct {
	Config       configs.Config
	Preset       configs.Model
	Dir          string // folder of the initial weights, or of the model
	Tokenizer    string
	TokenizerDir string // folder in which to look for the tokenizer
	Checkpoint   Checkpoint

	tasks  *task.Set           // set by OpenText
	tokens tokenizer.Tokenizer // set by OpenText
}

// Checkpoint selects weights of a run's node.
type Checkpoint struct {
	Run   string // run of the node
	Node  string // empty: no checkpoint
	Dir   string // folder of the node
	Round int    // 0: the initial weights; -1: the newest checkpoint
}

// Placement is the launcher's decision on where the model runs.
type Placement struct {
	Device         string // for messages
	OnGPU          bool
	EngineDevice   string
	Threads        int
	GenerateBatch  int   // most completions at a time; 0: as in the call
	MemoryCapBytes int64 // 0: none
	Environment    []string
}

// Host is what an engine needs of the calling process.
type Host struct {
	Python *policy.Interpreter
	Stderr io.Writer
	Logger *slog.Logger
}

// OpenText opens the tasks and the tokenizer, once.
func (m *Model) OpenText() (err error) {
	if m.tasks != nil {
		return nil
	}
	if m.tokens, err = tokenizer.Open(m.Tokenizer, m.TokenizerDir); err != nil {
		return err
	}
	m.tasks, err = task.Open(m.Config.Tasks)
	return err
}

// Engine is a running engine with the model loaded.
type Engine struct {
	*policy.Engine
	model   *Model
	device  string
	context int // tokens
	rounds  int // rounds that the weights were trained for
	batch   int // most completions at a time; 0: as in the call
}

// Open starts an engine and loads the model with its checkpoint. The caller closes the engine.
func (m *Model) Open(ctx context.Context, h Host, where Placement) (_ *Engine, err error) {
	if err := m.OpenText(); err != nil {
		return nil, err
	}
	e := &Engine{model: m, device: where.Device, batch: where.GenerateBatch}
	if e.Engine, err = h.Python.Start(ctx, h.Stderr, where.Threads, where.Environment...); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	fmt.Fprintf(h.Stderr, "Loading %s on %s.\n", m.Config.Model, where.Device)
	loaded, err := e.Load(ctx, m.loadParams(where))
	if err != nil {
		return nil, fmt.Errorf("load the model: %w", err)
	}
	if m.tokens.VocabSize() > loaded.VocabSize {
		err := fmt.Errorf("tokenizer %s has %d tokens, but the model only %d", m.tokens.Name(), m.tokens.VocabSize(), loaded.VocabSize)
		return nil, fail.Usage(err, "copy the base model's tokenizer files into the model's folder")
	}
	e.context = loaded.ContextLength
	if e.rounds, err = m.Checkpoint.restore(ctx, e.Engine, h.Logger); err != nil {
		return nil, err
	}
	if err = e.finite(ctx); err != nil { // err, so that the engine is closed
		return nil, err
	}
	return e, nil
}

// probeTokens is the length of the text with which finite tries the weights.
const probeTokens = 32

// finite refuses weights with which the model computes no numbers, before sampling fails within the engine.
func (e *Engine) finite(ctx context.Context) error {
	n := max(1, min(probeTokens, e.context-1))
	probe := make([]int, n)
	for i := range probe {
		probe[i] = i % e.model.tokens.VocabSize()
	}
	_, err := e.Logprobs(ctx, policy.LogprobsParams{
		Prompts: [][]int{probe[:1]}, Sequences: []policy.Sequence{{Completion: probe}}, Temperature: 1, MicroBatch: 1,
	})
	var refused *policy.Error
	if errors.As(err, &refused) && refused.Kind == policy.KindInternal && strings.Contains(refused.Message, "not finite") {
		what := e.model.Dir
		if c := e.model.Checkpoint; c.Node != "" {
			what = fmt.Sprintf("%s of run %s after %s", c.Node, c.Run, units.Plural(e.rounds, "round"))
		}
		return fail.Usage(fmt.Errorf("the weights of %s are not finite: they contain NaN or infinity", what), "another folder or checkpoint")
	}
	return err
}

// Generate calls the engine's Generate, with as many completions at a time as the placement has memory for.
func (e *Engine) Generate(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	if e.batch > 0 {
		p.MicroBatch = min(p.MicroBatch, e.batch)
	}
	return e.Engine.Generate(ctx, p)
}

func (m *Model) loadParams(where Placement) policy.LoadParams {
	c := m.Config
	return policy.LoadParams{
		ModelDir: m.Dir, Device: where.EngineDevice, Precision: c.ResolvedPrecision(where.OnGPU), Threads: where.Threads, Seed: c.Seed,
		AdamBeta1: c.AdamBeta1, AdamBeta2: c.AdamBeta2, AdamEpsilon: c.AdamEpsilon, WeightDecay: c.WeightDecay,
		OptimizerOffload: where.OnGPU, // a checkpoint's moments are not needed here
		CUDAGraphs:       c.CUDAGraphs,
		MemoryCapBytes:   where.MemoryCapBytes,
	}
}

// restore loads the checkpoint into the engine and returns its number of rounds, 0 without a checkpoint.
func (c Checkpoint) restore(ctx context.Context, engine *policy.Engine, logger *slog.Logger) (int, error) {
	switch {
	case c.Node == "" || c.Round == 0:
		return 0, nil
	case c.Round > 0:
		return c.Round, node.RestoreRound(ctx, c.Dir, c.Round, engine, logger)
	}
	rounds, err := node.RestoreNewest(ctx, c.Dir, engine, logger)
	if err == nil && rounds == 0 {
		err = fail.Hint(
			fmt.Errorf("%s of run %s has no checkpoint yet", c.Node, c.Run),
			"again after checkpoint_every rounds, or --round 0 for the model before training")

	}
	return rounds, err
}
