package tokenizer

import "container/heap"

// appendPiece appends the ids of one piece. It merges the piece's bytes by rank, leftmost first among equals. A heap of
// candidate pairs over a linked list of parts makes it O(n log n): a megabyte of one letter takes a second. The usual
// scan for the best pair is quadratic.
func (v *vocabulary) appendPiece(ids []int, piece string) []int {
	if piece = v.held(piece); piece == "" {
		return ids
	}
	if v.wholePieces {
		if id, ok := v.id(piece); ok {
			return append(ids, int(id))
		}
	}
	m := newMerger(v, piece)
	for len(m.pairs) > 0 {
		pair := heap.Pop(&m.pairs).(pair)
		if m.end[pair.left] != pair.middle || m.end[pair.middle] != pair.end {
			continue // one of its parts has been merged in the meantime
		}
		m.join(pair)
	}
	for start := int32(0); int(start) < len(piece); start = m.end[start] {
		ids = append(ids, int(m.id[start]))
	}
	return ids
}

// merger is a piece split into parts. The offset of a part's first byte identifies the part.
type merger struct {
	vocabulary *vocabulary
	piece      string
	id         []int32 // id[s]: token of the part that starts at s
	end        []int32 // end[s]: end of the part that starts at s; 0 if none starts there
	previous   []int32 // previous[s]: start of the part before the one at s; -1 before the first
	pairs      pairHeap
}

func newMerger(v *vocabulary, piece string) *merger {
	m := &merger{
		vocabulary: v,
		piece:      piece,
		id:         make([]int32, len(piece)),
		end:        make([]int32, len(piece)+1),
		previous:   make([]int32, len(piece)+1),
	}
	for i := range len(piece) {
		m.id[i], m.end[i], m.previous[i] = v.bytes[piece[i]], int32(i+1), int32(i-1)
	}
	for i := range len(piece) - 1 {
		if p, ok := m.pair(int32(i), int32(i+1)); ok {
			m.pairs = append(m.pairs, p)
		}
	}
	heap.Init(&m.pairs)
	return m
}

// join merges a pair into one part and adds the new part's pairs with its neighbors to the heap.
func (m *merger) join(p pair) {
	m.id[p.left], m.end[p.left], m.end[p.middle] = p.id, p.end, 0
	if int(p.end) < len(m.piece) {
		m.previous[p.end] = p.left
		m.offer(p.left, p.end)
	}
	if before := m.previous[p.left]; before >= 0 {
		m.offer(before, p.left)
	}
}

func (m *merger) offer(left, middle int32) {
	if p, ok := m.pair(left, middle); ok {
		heap.Push(&m.pairs, p)
	}
}

// pair returns the pair of parts that meet at middle, or false if the vocabulary doesn't merge them.
func (m *merger) pair(left, middle int32) (pair, bool) {
	end := m.end[middle]
	to, ok := m.vocabulary.merge(m.id[left], m.id[middle], m.piece[left:end])
	return pair{merge: to, left: left, middle: middle, end: end}, ok
}

// pair is two adjacent parts, [left, middle) and [middle, end), and the token they merge to.
type pair struct {
	merge
	left, middle, end int32
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
