package task

import "slices"

// arcBlock is a run of cells of one block: at is the first cell, length their number.
type arcBlock struct{ at, length int }

// paintBiggestBlock recolors the longest of several blocks.
func paintBiggestBlock(r *rng, n int) (arcPair, bool) {
	color := r.draw(2, 9)
	var blocks []arcBlock
	for at := 0; at < n; at++ {
		if r.random() < 0.4 && n-at >= 2 {
			length := r.draw(2, min(n-at, 6))
			blocks = append(blocks, arcBlock{at, length})
			at += length
		}
	}
	if len(blocks) < 2 {
		return arcPair{}, false
	}
	biggest := slices.MaxFunc(blocks, func(a, b arcBlock) int { return a.length - b.length })
	pair := blankPair(n)
	for _, b := range blocks {
		if b.length == biggest.length && b != biggest {
			return arcPair{}, false
		}
		pair.input.paint(b.at, b.length, color)
		pair.output.paint(b.at, b.length, color)
	}
	pair.output.paint(biggest.at, biggest.length, 1)
	return pair, true
}

// sortBlocksBySize packs blocks in ascending order of length, one empty cell between them.
func sortBlocksBySize(r *rng, n int) (arcPair, bool) {
	color := r.draw(1, 9)
	pair := blankPair(n)
	var lengths []int
	cells := 0
	for at := 0; at < n; {
		if r.random() < 0.4 && n-at >= 2 {
			length := r.draw(1, min(n-at, 6))
			pair.input.paint(at, length, color)
			lengths = append(lengths, length)
			cells += length
			at += length + r.draw(1, 4)
		} else {
			at++
		}
	}
	if len(lengths) < 2 || cells+len(lengths)-1 > n {
		return arcPair{}, false
	}
	slices.Sort(lengths)
	pair.output.pack(lengths, color)
	return pair, true
}

// sortCompleteSequence sorts blocks of the lengths 1..m.
func sortCompleteSequence(r *rng, n int) (arcPair, bool) {
	m := 0
	for used := 2; used <= n; used += m + 2 {
		m++
	}
	if m < 2 {
		return arcPair{}, false
	}
	color := r.draw(1, 9)
	lengths := make([]int, m)
	for i := range lengths {
		lengths[i] = i + 1
	}
	r.shuffle(m, func(i, j int) { lengths[i], lengths[j] = lengths[j], lengths[i] })
	pair := blankPair(n)
	pair.input.pack(lengths, color)
	slices.Sort(lengths)
	pair.output.pack(lengths, color)
	return pair, true
}

// recolorBlocksBySize gives the longer of two blocks color 1, the shorter one 2.
func recolorBlocksBySize(r *rng, n int) (arcPair, bool) {
	a, b := r.draw(2, 8), r.draw(2, 8)
	for b == a {
		b = r.draw(2, 8)
	}
	if a+b+1 > n {
		return arcPair{}, false
	}
	first := r.draw(0, n-a-b-1)
	second := r.draw(first+a+1, n-b)
	pair := blankPair(n)
	pair.input.paint(first, a, 3)
	pair.input.paint(second, b, 3)
	colorA, colorB := 1, 2
	if a < b {
		colorA, colorB = 2, 1
	}
	pair.output.paint(first, a, colorA)
	pair.output.paint(second, b, colorB)
	return pair, true
}

// recolorBlocksFromPalette recolors blocks of equal length, in order, with the colors at the row's start.
func recolorBlocksFromPalette(r *rng, n int) (arcPair, bool) {
	length := r.draw(2, 4)
	var starts []int
	for at := 0; at+length <= n; at++ {
		if r.random() < 0.4 {
			starts = append(starts, at)
			at += length
		}
	}
	for k := len(starts); k > 0 && starts[k-1]+length+k+1 >= n; k-- {
		starts = starts[:k-1]
	}
	k := len(starts)
	// The library would search forever for a tenth distinct color. This can happen on rows of over 40 cells.
	if k == 0 || k > 9 {
		return arcPair{}, false
	}
	pair := blankPair(n)
	for i, start := range starts {
		color := r.draw(1, 9)
		for slices.Contains(pair.input[:i], color) {
			color = r.draw(1, 9)
		}
		pair.input[i], pair.output[i] = color, color
		pair.output.paint(start+k+1, length, color)
	}
	for _, start := range starts {
		pair.input.paint(start+k+1, length, 5)
	}
	return pair, true
}

// colorLeftHalfBlocks recolors the left half of each block.
func colorLeftHalfBlocks(r *rng, n int) (arcPair, bool) {
	pair := blankPair(n)
	blocks := 0
	for at := 0; at < n; at++ {
		if r.random() >= 0.4 {
			continue
		}
		length := r.draw(2, n/2)
		if at+length > n {
			break
		}
		pair.input.paint(at, length, 2)
		pair.output.paint(at, length, 2)
		pair.output.paint(at, length/2, 8)
		blocks++
		at += length
	}
	return pair, blocks >= 2
}

// markSizeTwoBlocks puts a mark on both sides of every block of length 2.
func markSizeTwoBlocks(r *rng, n int) (arcPair, bool) {
	if n < 8 {
		return arcPair{}, false
	}
	list := []int{2} // lengths; 0 is an empty cell
	for at := 4; at < n; {
		if r.random() >= 0.4 {
			list = append(list, 0)
			at++
			continue
		}
		length := r.draw(1, 3)
		if at+length <= n {
			list = append(list, length)
		}
		at += length + 2
	}
	r.shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	pair := blankPair(n)
	var blocks []arcBlock
	at := 0
	for _, length := range list {
		if length == 0 {
			at++
			continue
		}
		blocks = append(blocks, arcBlock{at, length})
		at += length + 2
	}
	for _, b := range blocks {
		color := drawColorBut(r, 3)
		pair.input.paint(b.at, b.length, color)
		pair.output.paint(b.at, b.length, color)
	}
	for _, b := range blocks {
		if b.length != 2 {
			continue
		}
		if b.at > 0 {
			pair.output[b.at-1] = 3
		}
		if b.at+2 < n {
			pair.output[b.at+2] = 3
		}
	}
	return pair, true
}
