package fit

import "github.com/sapo-swarm/swarm/configs"

const (
	// weights, gradients and Adam's two moments, four bytes each
	bytesPerParameter = 16

	cudaContext = 500_000_000 // guide 4's "working memory" of GPT-2: context and cuBLAS workspace
	interpreter = 250_000_000 // Python with torch on a CPU
	nodeProcess = 50_000_000  // the Go process beside it

	// Guide 4's forward pass of 64 sequences: GPT-2 takes 4.0 GB and Qwen2.5-0.5B 9.3 GB, which is 4.0 GB scaled by
	// layers × width (12×768 and 24×896).
	forwardBytes      = 4_000_000_000
	forwardLayerWidth = 12 * 768
)

// cudaFootprint is a node's memory on a GPU: the guide's figures where it has any, else an estimate from the model's shape:
//
//	resident  = 0.5 GB + 16 B × parameters
//	transient = 4.0 GB × (layers × width) / (12 × 768) × min(sequences, 64) / 64
//
// Above 64 sequences a node splits its batch.
func cudaFootprint(m configs.Model, sequences int) (f Footprint, fromGuide bool) {
	g := m.GuideMemory
	if g.Total() > 0 {
		return Footprint{Resident: g.Weights + g.GradientsAndOptimizer + g.Working, Transient: g.Forward}, true
	}
	layerWidth := int64(m.Shape.Layers) * int64(m.Shape.Width)
	share := int64(min(sequences, guideSequences))
	return Footprint{
		Resident:  cudaContext + bytesPerParameter*m.Shape.Parameters,
		Transient: forwardBytes / forwardLayerWidth * layerWidth * share / guideSequences,
	}, false
}

// cpuFootprint is a node's host memory when it trains on a CPU, for a forward and backward pass of so many sequences of so many
// tokens. Per token and layer it counts 34 vectors of the model's width (Korthikanti et al., arXiv:2205.05198, eq. 1, whose 34
// are bytes at 2 B a value: half-size dropout masks aside, 17 values, doubled for the backward pass) and three rows of attention
// scores a head; and three rows of logits a completion token, at most one chunk of 1024 tokens of them.
func cpuFootprint(m configs.Model, sequences, tokens int) Footprint {
	s := m.Shape
	total := int64(sequences) * int64(tokens)
	values := total * int64(s.Layers) * (34*int64(s.Width) + 3*int64(s.Heads)*int64(tokens))
	values += 3 * min(total, 1024) * int64(s.Vocabulary)
	return Footprint{
		Resident:  interpreter + nodeProcess + bytesPerParameter*s.Parameters,
		Transient: 4 * values,
	}
}
