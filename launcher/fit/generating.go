package fit

import "fmt"

// keyBytes is the size of a key or value of the KV cache, in every precision (static.py).
const keyBytes = 4

// generate returns the memory of decoding r completions together. The engine holds keys and values of a prompt once.
// Completions use buffers of full length. The peak is the prefill's last layer, or the last step with its sampling.
func (e *estimate) generate(r int64) []Component {
	group := int64(e.s.Generations)
	p := (r + group - 1) / group
	s, t := int64(e.s.PromptTokens), int64(e.s.NewTokens)
	if e.cuda {
		s = (s + promptBucket - 1) / promptBucket * promptBucket
	}
	parts := e.unparked(PhaseGenerate)
	add := func(name string, bytes int64, note string) {
		parts = append(parts, Component{Name: name, Phase: PhaseGenerate, Bytes: bytes, Note: note})
	}
	if e.s.half() {
		add("weights in 16 bits", 2*e.parameters, "2 B x parameters")
	}
	flat := len(parts) // the parts so far are single blocks without allocator overhead
	add("KV cache of prompts", 2*e.layers*p*s*e.kv*keyBytes, fmt.Sprintf("%d prompts of %d tokens, stored once for all their completions", p, s))

	prefill := e.prefill(p*s, s)
	own := 2 * e.layers * (t - 1) * r * e.kv * keyBytes
	decode := own + e.decode(r, t) + e.sampling(r)
	if e.graphs() {
		decode += e.graph(r, t)
	}
	if prefill > decode {
		add("prefill", prefill, "one layer over all prompts, which exceeds the later KV cache of completions and sampling")
	} else {
		add("KV cache of completions", own, fmt.Sprintf("%d completions of %d tokens", r, t))
		add("decoding", e.decode(r, t), "attention of one layer")
		if e.graphs() {
			add("CUDA graph", e.graph(r, t), "a step's memory in a separate pool")
		}
		add("logits and sampling", e.sampling(r), fmt.Sprintf("%d rows of %d logits in fp32, %d times", r, e.vocabulary, e.copies()))
	}
	return append(parts, e.generateSlack(parts[flat:]))
}

// graphs reports whether decoding runs in CUDA graphs.
func (e *estimate) graphs() bool { return e.cuda && e.s.CUDAGraphs }

// graph returns the pool size of a call's CUDA graphs: the memory of one step, because the graphs run one after
// another and share the pool.
func (e *estimate) graph(r, t int64) int64 { return e.decode(r, t) + e.sampling(r) }

// caches returns the memory that a node keeps between phases with its CUDA graphs: their pool, and what they read and
// write, the KV cache and the weights in 16 bits. Without graphs it keeps nothing.
func (e *estimate) caches(r int64) Component {
	c := Component{Name: nameKept, Phase: PhaseUpdate, Note: "CUDA graphs and the KV cache of the last generation"}
	if !e.graphs() {
		return c
	}
	group := int64(e.s.Generations)
	s, t := int64(e.s.PromptTokens), int64(e.s.NewTokens)
	prompts := (r + group - 1) / group
	held := 2*e.layers*e.kv*keyBytes*(prompts*s+r*(t-1)) + e.graph(r, t)
	if e.s.half() {
		held += 2 * e.parameters
		c.Note += ", and the weights in 16 bits"
	}
	c.Bytes = held + percent(held, slack)
	return c
}

// prefill returns one layer's memory for n prompt tokens in rows of s, the larger of two moments. In the attention:
// the residual stream, its norm, queries, keys and values with copies by head, and scores with their softmax if they
// are stored. In the feed-forward layer: its input and inner tensors.
func (e *estimate) prefill(n, s int64) int64 {
	attention := 2*e.d + 6*e.q + 2*e.scores(s)
	feedForward := 2*e.d + 2*e.f
	if e.gated {
		feedForward += 2 * e.f
	}
	return 4 * n * max(attention, feedForward)
}

// scores returns the number of attention scores that one token stores for t positions: 0 if SDPA computes them in
// pieces. CPU plans assume Debian's torch 1.13, which has no SDPA.
func (e *estimate) scores(t int64) int64 {
	if e.cuda {
		return 0
	}
	return e.heads * t
}

// decode returns the memory of one layer's attention for r rows over their t own tokens. On a CPU the engine
// multiplies queries and keys token by token.
func (e *estimate) decode(r, t int64) int64 {
	if e.cuda {
		return 4 * r * (e.heads*(t+int64(e.s.PromptTokens))*3 + 4*e.d)
	}
	return 4 * r * t * e.q
}

// copies returns how many copies of a logits row the sampler holds: the logits, log-probabilities, probabilities, and
// their product or sum.
func (e *estimate) copies() int64 {
	if e.s.SortedSampling {
		return 9 // sort order of 8 B, sorted values, their sums
	}
	return 4
}

// sampling returns the memory of one draw for each of r rows. On CUDA the inverse CDF has two levels, all in 8 B. The
// first has the block sums of a row's probabilities and their running sums. The second has the running sums of the
// drawn block.
func (e *estimate) sampling(r int64) int64 {
	drawn := 4 * 8 * r * int64(e.s.NewTokens) // random numbers, tokens, log-probabilities, entropies
	blocks := int64(0)
	if e.cuda {
		blocks = 2 * 8 * r * ((e.vocabulary+cdfBlock-1)/cdfBlock + cdfBlock)
	}
	return 4*r*e.vocabulary*e.copies() + blocks + drawn
}

// promptBucket is the unit in tokens to which the engine rounds prompt buffers up (static.py).
const promptBucket = 128

// cdfBlock is the number of probabilities in a block sum of the sampler (sampler.py).
const cdfBlock = 256

// generateSlack returns the allocator's overhead. On a CPU glibc 2.36 held 1.1 to 1.3 times the memory in use.
func (e *estimate) generateSlack(parts []Component) Component {
	c := Component{Name: "allocator", Phase: PhaseGenerate, Bytes: percent(total(parts), slack), Note: "fragmentation, 10 %"}
	if !e.cuda {
		c.Bytes, c.Note = percent(total(parts), 20), "fragmentation of glibc's heap, 20 %"
	}
	return c
}
