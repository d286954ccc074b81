package fit

import "fmt"

// Batch sizes of node/policy/engine: positions of a forward pass (batch.py), logits and the block of them worked on
// (head.py), elements of staged moments, held twice (adam.py).
const (
	cpuPositions, cudaPositions = 448, 8192

	cpuChunk, cpuBlock   = 1 << 24, 1 << 18
	cudaChunk, cudaBlock = 1 << 25, 1 << 25
	cudaStage            = 1 << 23
)

// update returns the memory of a forward and backward pass of at most b rows, and of the following step. Rows may
// each have their own prompt, or share one. Rewards decide how many rows share a prompt. More rows fit into a pass if
// they do, but N bounds the pass in both cases. Letters: N positions of the pass, T of a row, M completion tokens, d
// width.
//
// The peak holds the activations of all layers, or with gradient checkpointing the inputs of all layers and one
// layer's activations. On top come the logits of a chunk before the backward pass, or the gradients of one layer
// within it.
func (e *estimate) update(b int64) []Component {
	t := e.length()
	asked := b
	b = min(b, e.most())
	n := min(asked*t, max(t, e.positions()))
	m := min(asked*int64(e.s.NewTokens), n)
	kept := e.kept(t)
	parts := e.unparked(PhaseUpdate)
	add := func(name string, bytes int64, note string) {
		parts = append(parts, Component{Name: name, Phase: PhaseUpdate, Bytes: bytes, Note: note})
	}
	add("gradients", 4*e.parameters, "4 B x parameters")
	if e.s.NumIterations > 1 && !e.cuda {
		add("copy of weights and moments", 12*e.parameters, "for num_iterations above 1")
	}
	if e.s.half() && !e.s.GradientCheckpointing {
		add("weights in 16 bits", 2*e.parameters, "kept for the backward pass")
	}
	if e.cuda {
		side := (t + 15) / 16 * 16
		add("attention mask", 4*b*int64(e.s.NewTokens)*side, "4 B x rows x completion tokens x positions, for prompts of unequal length")
	}
	flat := len(parts) // the parts so far are single blocks without allocator overhead
	logits, backward := e.logits(m), e.backward(n, t)
	if e.s.GradientCheckpointing {
		add("inputs of the layers", 4*n*e.d*e.layers, fmt.Sprintf("%d rows of %d tokens x 4 B x %d x %d layers", b, t, e.d, e.layers))
		if one := n*kept + backward; one > logits {
			add("activations of one layer", n*kept, "computed again for its backward pass")
			add("backward pass", backward, "gradients of one layer")
		} else {
			add("logits", logits, e.logitsNote(m))
		}
	} else {
		add("activations", n*kept*e.layers, fmt.Sprintf("%d rows of %d tokens x %d B x %d layers", b, t, kept, e.layers))
		if backward > logits {
			add("backward pass", backward, "gradients of one layer")
		} else {
			add("logits", logits, e.logitsNote(m))
		}
	}
	add("hidden states of completions", 4*4*m*e.d, "4 x 4 B x completion tokens x width")
	parts = append(parts, e.updateSlack(parts[flat:], n))
	if staged := e.stage() - total(parts[flat:]); staged > 0 {
		add("Adam's step", staged, "pieces of the offloaded moments, beyond the memory of the passes")
	}
	return parts
}

// length returns the number of positions of a row: the last token predicts nothing.
func (e *estimate) length() int64 { return int64(e.s.PromptTokens + e.s.NewTokens - 1) }

// positions returns the most positions of a forward pass. A single longer row may exceed it.
func (e *estimate) positions() int64 { return int64(room(e.cuda)) }

// most returns the most rows of maximum length in one forward pass.
func (e *estimate) most() int64 {
	return int64(RowsAtOnce(e.cuda, e.s.PromptTokens, e.s.NewTokens, e.s.Generations))
}

func room(cuda bool) int {
	if cuda {
		return cudaPositions
	}
	return cpuPositions
}

// RowsAtOnce returns the most sequences of prompt + next tokens that the engine processes in one forward pass without
// a micro-batch limit. On a CPU the engine ignores the micro-batch. Each prompt has that many generations, which
// share the prompt's positions.
func RowsAtOnce(cuda bool, prompt, next, generations int) int {
	left := room(cuda)
	whole := left / weight(cuda, prompt, next, generations)
	left -= whole * weight(cuda, prompt, next, generations)
	part := generations - 1
	for part > 0 && weight(cuda, prompt, next, part) > left {
		part--
	}
	return max(1, whole*generations+part)
}

// weight returns the cost of rows that share a prompt in a pass: batch.py's _cost.
func weight(cuda bool, prompt, next, rows int) int {
	prefix := prompt - 1 // each row has its own copy of the last token
	positions := prefix + rows*next
	if !cuda {
		return max(1, positions)
	}
	return max(1, (3*positions+rows*(prefix+next)+3)/4)
}

// kept returns the bytes per position that a layer keeps for its backward pass, with rows of t positions. GPT-2 keeps
// five tensors of width d: two inputs of norms, two norms, and the attention's result before its projection. It also
// keeps queries, keys and values (3q), and the feed-forward layer before and after GELU (2f). If scores are stored,
// it keeps their softmax. Qwen2's norms also keep their scaled inputs. Its keys and values are repeated for each
// query head, and its feed-forward layer has a gate. Under autocast the operands of matrix products have 16 bits, the
// residual stream and the norms 32.
func (e *estimate) kept(t int64) int64 {
	wide, narrow := 2*e.d, 2*e.d+4*e.q+2*e.f+e.scores(t)
	if e.gated {
		wide += 2 * e.d
		narrow += e.q + e.kv + 2*e.f
	}
	if e.s.half() {
		return 4*wide + 2*narrow
	}
	return 4 * (wide + narrow)
}

// backward returns the memory that one layer's backward pass adds to the kept activations. The peak is in the
// feed-forward layer, while its tensors still exist, or in the attention, after they are freed. It includes the
// gradient of the largest weight before accumulation. On CUDA the product accumulates in place, except in 16 bits.
func (e *estimate) backward(n, t int64) int64 {
	feedForward := e.d + e.f
	if e.gated {
		feedForward += 2 * e.f
	}
	attention := 2*e.scores(t) + 3*e.q - 2*e.f - 2*e.d
	weight := e.d * max(e.f, 3*e.q)
	if e.gated {
		weight = 2 * e.d * e.f
	}
	if e.cuda && !e.s.half() {
		weight = 0
	}
	return 4 * (n*max(feedForward, attention) + weight)
}

// logits returns the memory of the current chunk's logits, of the next chunk's, which exist at the same time, and of
// two copies of the current block.
func (e *estimate) logits(m int64) int64 {
	chunk, block := e.chunk()
	first := min(m, chunk)
	elements := e.vocabulary * (first + min(first, m-first) + 2*min(m, block))
	bytes := 4 * elements
	if e.s.half() {
		bytes += 2*e.vocabulary*first + 4*e.vocabulary*e.d // logits, the head and its gradient in 16 bits
	}
	return bytes
}

// chunk returns how many rows of logits the engine holds, and processes, at a time.
func (e *estimate) chunk() (rows, block int64) {
	if e.cuda {
		return max(1, cudaChunk/e.vocabulary), max(1, cudaBlock/e.vocabulary)
	}
	return max(1, cpuChunk/e.vocabulary), max(1, cpuBlock/e.vocabulary)
}

func (e *estimate) logitsNote(m int64) string {
	chunk, _ := e.chunk()
	return fmt.Sprintf("in chunks of %d of %d rows of %d, fp32", min(m, chunk), m, e.vocabulary)
}

// updateSlack returns the allocator's overhead. On a CPU with glibc 2.36, aligned allocations can't reuse a hole of
// exactly their size, so freed blocks stay in the heap. They take about 6 vectors of width d per position and layer
// (measured: cmd/swarm/estimate_test.go). With checkpointing the engine makes glibc return large blocks at once
// (memory.py, prefer_small).
func (e *estimate) updateSlack(parts []Component, n int64) Component {
	if !e.cuda && !e.s.GradientCheckpointing {
		return Component{
			Name: "allocator", Phase: PhaseUpdate, Bytes: 4 * n * e.layers * e.d * 6,
			Note: "holes in glibc's heap: 6 x 4 B x positions x width x layers",
		}
	}
	return Component{Name: "allocator", Phase: PhaseUpdate, Bytes: percent(total(parts), slack), Note: "fragmentation, 10 %"}
}

// stage returns the memory of the optimizer step after the passes: pieces of offloaded moments.
func (e *estimate) stage() int64 {
	if e.cuda && e.s.OptimizerOffload {
		return 2 * 2 * 4 * min(cudaStage, e.parameters)
	}
	return 0
}
