package tokenizer

import "container/heap"

// appendPiece appends the ids of one piece: merged from its bytes in the order of the vocabulary's ranks, leftmost first.
// A heap of candidate pairs over a linked list of parts makes it O(n log n), so that a megabyte of one letter
// takes a second; the usual scan for the best pair is quadratic.
func (v *vocabulary) appendPiece(ids []int, piece string) []int {
	if id, ok := v.rank(piece); ok {
		return append(ids, int(id))
	}
	m := newMerger(v, piece)
	for len(m.pairs) > 0 {
		pair := heap.Pop(&m.pairs).(pair)
		if m.end[pair.left] != pair.middle || m.end[pair.middle] != pair.end {
			continue // one of its parts has been merged since
		}
		m.join(pair)
	}
	for start := int32(0); int(start) < len(piece); start = m.end[start] {
		id, _ := v.rank(piece[start:m.end[start]]) // every part is a byte or the result of a merge, so it is a token
		ids = append(ids, int(id))
	}
	return ids
}

// merger is a piece cut into parts. A part is known by the offset of its first byte.
type merger struct {
	vocabulary *vocabulary
	piece      string
	end        []int32 // end[s]: end of the part that starts at s; 0 where none starts
	previous   []int32 // previous[s]: start of the part before the one at s; -1 before the first
	pairs      pairHeap
}

func newMerger(v *vocabulary, piece string) *merger {
	m := &merger{
		vocabulary: v,
		piece:      piece,
		end:        make([]int32, len(piece)+1),
		previous:   make([]int32, len(piece)+1),
	}
	for i := range len(piece) {
		m.end[i], m.previous[i] = int32(i+1), int32(i-1)
	}
	for i := range len(piece) - 1 {
		if rank, ok := v.rank(piece[i : i+2]); ok {
			m.pairs = append(m.pairs, pair{rank: rank, left: int32(i), middle: int32(i + 1), end: int32(i + 2)})
		}
	}
	heap.Init(&m.pairs)
	return m
}

// join makes one part of a pair and offers the new part's pairs with its neighbours.
func (m *merger) join(p pair) {
	m.end[p.left], m.end[p.middle] = p.end, 0
	if int(p.end) < len(m.piece) {
		m.previous[p.end] = p.left
		m.offer(p.left, p.end)
	}
	if before := m.previous[p.left]; before >= 0 {
		m.offer(before, p.left)
	}
}

func (m *merger) offer(left, middle int32) {
	end := m.end[middle]
	if rank, ok := m.vocabulary.rank(m.piece[left:end]); ok {
		heap.Push(&m.pairs, pair{rank: rank, left: left, middle: middle, end: end})
	}
}

// pair is two adjacent parts, [left, middle) and [middle, end), that together are the token of a rank.
type pair struct {
	rank, left, middle, end int32
}

// pairHeap orders pairs by rank, then from left to right.
type pairHeap []pair

func (h pairHeap) Len() int { return len(h) }
func (h pairHeap) Less(i, j int) bool {
	return h[i].rank < h[j].rank || h[i].rank == h[j].rank && h[i].left < h[j].left
}
func (h pairHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *pairHeap) Push(x any)   { *h = append(*h, x.(pair)) }
func (h *pairHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	*h = (*h)[:last]
	return p
}
