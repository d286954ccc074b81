package model

import (
	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
)

// Memory is the memory of a model's parameters in fp32 during training, in bytes.
type Memory struct {
	Weights    int64               `json:"weights_bytes"`
	Gradients  int64               `json:"gradients_bytes"`
	Optimizer  int64               `json:"optimizer_bytes"` // Adam's two moments
	Checkpoint int64               `json:"checkpoint_bytes"`
	Guide      configs.GuideMemory `json:"guide"`
	GuideTotal int64               `json:"guide_total_bytes"`
}

// MemoryOf returns the memory of a model's parameters.
func MemoryOf(m configs.Model) Memory {
	weights := 4 * m.Shape.Parameters
	return Memory{
		Weights: weights, Gradients: weights, Optimizer: 2 * weights, Checkpoint: 3 * weights, Guide: m.GuideMemory, GuideTotal: m.GuideMemory.Total(),
	}
}

// Print shows a model and its memory.
func Print(w *table.Page, m configs.Model, memory Memory) {
	s := m.Shape
	w.Printf("model       %s\nweights     %s\n", m.Name, m.Weights)
	if m.License != "" {
		w.Printf("license     %s\n", m.License)
	}
	w.Printf("shape       %s: %d layers, %d heads (%d for keys and values), width %d, feed-forward %d\n",
		s.Family(), s.Layers, s.Heads, s.KeyValueHeads(), s.Width, s.InnerWidth())
	w.Printf("text        %s tokens in the vocabulary, %s of context, tokenizer %s\n",
		units.Group(int64(s.Vocabulary)), units.Group(int64(s.Context)), m.Tokenizer)
	w.Printf("parameters  %s\n", units.Group(s.Parameters))
	w.Printf("memory      %s weights, %s gradients, %s Adam, plus activations and the KV cache (swarm plan)\n",
		units.Bytes(memory.Weights), units.Bytes(memory.Gradients), units.Bytes(memory.Optimizer))
	if memory.GuideTotal > 0 {
		w.Printf("guide 4     %s per node: %s weights, %s forward, %s gradients and optimizer, %s working memory\n", units.Bytes(memory.GuideTotal),
			units.Bytes(m.GuideMemory.Weights), units.Bytes(m.GuideMemory.Forward), units.Bytes(m.GuideMemory.GradientsAndOptimizer), units.Bytes(m.GuideMemory.Working))
	}
	w.Printf("checkpoint  %s each\n", units.Bytes(memory.Checkpoint))
}
