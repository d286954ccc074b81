package fit

import "fmt"

// generate is what decoding R completions together takes. Prompts' keys and values are held once, those of completions
// in buffers of their full length; the peak is the prefill's last layer, or the last step with its sampling.
func (e *estimate) generate(r int64) []Component {
	group := int64(e.s.Generations)
	p := (r + group - 1) / group
	s, t := int64(e.s.PromptTokens), int64(e.s.NewTokens)
	if e.cuda {
		s = (s + promptBucket - 1) / promptBucket * promptBucket
	}
	size := int64(4)
	if e.s.half() {
		size = 2
	}
	parts := e.unparked(PhaseGenerate)
	add := func(name string, bytes int64, note string) {
		parts = append(parts, Component{Name: name, Phase: PhaseGenerate, Bytes: bytes, Note: note})
	}
	if e.s.half() {
		add("weights in 16 bits", 2*e.parameters, "2 B x parameters")
	}
	flat := len(parts) // those before are single blocks, of which an allocator loses nothing
	add("KV cache of prompts", 2*e.layers*p*s*e.kv*size, fmt.Sprintf("%d prompts of %d tokens, held once for all their completions", p, s))

	prefill := e.prefill(p*s, s)
	own := 2 * e.layers * (t - 1) * r * e.kv * size
	decode := own + e.decode(r, t) + e.sampling(r)
	if e.graphs() {
		decode += e.graph(r, t)
	}
	if prefill > decode {
		add("prefill", prefill, "one layer over all prompts: more than the completions' KV cache and the sampling, which come after it")
	} else {
		add("KV cache of completions", own, fmt.Sprintf("%d completions of %d tokens", r, t))
		add("decoding", e.decode(r, t), "attention of one layer")
		if e.graphs() {
			add("CUDA graph", e.graph(r, t), "a step's memory in a pool of its own")
		}
		add("logits and sampling", e.sampling(r), fmt.Sprintf("%d rows of %d logits in fp32, %d times", r, e.vocabulary, e.copies()))
	}
	return append(parts, e.generateSlack(parts[flat:]))
}

// graphs tells whether decoding runs in CUDA graphs.
func (e *estimate) graphs() bool { return e.cuda && e.s.CUDAGraphs }

// graph is the pool of a call's CUDA graphs: one step's memory, for they run one after the other and share it.
func (e *estimate) graph(r, t int64) int64 { return e.decode(r, t) + e.sampling(r) }

// caches is what stays between phases when a node keeps its CUDA graphs: their pool, and the KV cache that they read
// and write.
func (e *estimate) caches(r int64) Component {
	c := Component{Name: nameKept, Phase: PhaseUpdate, Note: "CUDA graphs and the KV cache of the last generation"}
	if !e.graphs() {
		return c
	}
	group, size := int64(e.s.Generations), int64(4)
	if e.s.half() {
		size = 2
	}
	s, t := int64(e.s.PromptTokens), int64(e.s.NewTokens)
	prompts := (r + group - 1) / group
	held := 2*e.layers*e.kv*size*(prompts*s+r*(t-1)) + e.graph(r, t)
	c.Bytes = held + percent(held, slack)
	return c
}

// prefill is one layer's work on n prompt tokens in rows of s: at its attention, the residual stream, its norm,
// queries, keys and values and copies of them by head, and scores with their softmax where they are held; or at its
// feed-forward layer.
func (e *estimate) prefill(n, s int64) int64 {
	attention := 2*e.d + 6*e.q + 2*e.scores(s)
	feedForward := 2*e.d + 2*e.f
	if e.gated {
		feedForward += 2 * e.f
	}
	return 4 * n * max(attention, feedForward)
}

// scores is the attention's scores of one token that looks at t, in values; none where SDPA computes them in pieces.
// Debian's torch 1.13, without SDPA, is what CPUs are planned for.
func (e *estimate) scores(t int64) int64 {
	if e.cuda {
		return 0
	}
	return e.heads * t
}

// decode is one layer's attention of R rows over t own tokens. On a CPU products of queries and keys are made token by
// token.
func (e *estimate) decode(r, t int64) int64 {
	if e.cuda {
		return 4 * r * (e.heads*(t+int64(e.s.PromptTokens))*3 + 4*e.d)
	}
	return 4 * r * t * e.q
}

// copies is how often the sampler holds a row of logits: as they are, log-probabilities, probabilities, and their
// product or sum.
func (e *estimate) copies() int64 {
	if e.s.SortedSampling {
		return 9 // an order of 8 B, what is sorted, its sums
	}
	return 4
}

// sampling is one draw for each of R rows. On CUDA the inverse CDF has two levels: sums of blocks of a row's
// probabilities and their running sums, then those of the one block that is drawn from, all in 8 B.
func (e *estimate) sampling(r int64) int64 {
	drawn := 4 * 8 * r * int64(e.s.NewTokens) // random numbers, tokens, log-probabilities, entropies
	blocks := int64(0)
	if e.cuda {
		blocks = 2 * 8 * r * ((e.vocabulary+cdfBlock-1)/cdfBlock + cdfBlock)
	}
	return 4*r*e.vocabulary*e.copies() + blocks + drawn
}

// promptBucket is of what prompts' buffers are a multiple, in tokens (static.py).
const promptBucket = 128

// cdfBlock is how many probabilities the sampler sums at a time (sampler.py).
const cdfBlock = 256

// generateSlack is what the allocator loses. On a CPU glibc 2.36 held 1.1 to 1.3 times what was in use.
func (e *estimate) generateSlack(parts []Component) Component {
	c := Component{Name: "allocator", Phase: PhaseGenerate, Bytes: percent(total(parts), slack), Note: "fragmentation, 10 %"}
	if !e.cuda {
		c.Bytes, c.Note = percent(total(parts), 20), "fragmentation of glibc's heap, 20 %"
	}
	return c
}
