package task

import "slices"

// dotAndBlock is a scene of a single-cell dot and a block on one side of it.
type dotAndBlock struct {
	color, length, dot, at int
	left                   bool // the block lies to the left of the dot
}

func drawDotAndBlock(r *rng, n, lowestColor int) (dotAndBlock, bool) {
	s := dotAndBlock{color: r.draw(lowestColor, 9), length: r.draw(1, n-1), dot: r.draw(0, n-1)}
	fitsLeft, fitsRight := s.dot >= s.length, s.dot+s.length < n
	switch {
	case fitsLeft && fitsRight:
		s.left = choose(r, []bool{true, false})
	case fitsLeft || fitsRight:
		s.left = fitsLeft
	default:
		return s, false
	}
	if s.left {
		s.at = r.draw(0, s.dot-s.length)
	} else {
		s.at = r.draw(s.dot+1, n-s.length)
	}
	return s, true
}

// gap is the number of empty cells between block and dot.
func (s dotAndBlock) gap() int {
	if s.left {
		return s.dot - (s.at + s.length)
	}
	return s.at - s.dot - 1
}

// blockTouchDot moves the block toward the dot by up to reach cells.
func blockTouchDot(dotColor, reach int) arcRule {
	return func(r *rng, n int) (arcPair, bool) {
		s, ok := drawDotAndBlock(r, n, dotColor+1)
		if !ok {
			return arcPair{}, false
		}
		move := min(reach, s.gap())
		if !s.left {
			move = -move
		}
		pair := blankPair(n)
		pair.input.paint(s.at, s.length, s.color)
		pair.output.paint(s.at+move, s.length, s.color)
		pair.input[s.dot], pair.output[s.dot] = dotColor, dotColor
		return pair, true
	}
}

// blockScaleToDot stretches the block over the dot.
func blockScaleToDot(r *rng, n int) (arcPair, bool) {
	s, ok := drawDotAndBlock(r, n, 3)
	if !ok {
		return arcPair{}, false
	}
	pair := blankPair(n)
	pair.input.paint(s.at, s.length, s.color)
	pair.input[s.dot] = 2
	if s.left {
		pair.output.paint(s.at, s.dot-s.at+1, s.color)
	} else {
		pair.output.paint(s.dot, s.at+s.length-s.dot, s.color)
	}
	return pair, true
}

// reflectBlockAroundDot mirrors a block at the dot.
func reflectBlockAroundDot(r *rng, n int) (arcPair, bool) {
	dot := r.draw(0, n-1)
	length := r.draw(1, n-1)
	at := r.draw(0, n-length)
	end := at + length - 1
	if end >= dot && at <= dot {
		return arcPair{}, false
	}
	color := r.draw(3, 9)
	if 2*dot-end < 0 || 2*dot-at >= n {
		return arcPair{}, false
	}
	pair := blankPair(n)
	pair.input.paint(at, length, color)
	pair.output.paint(2*dot-end, length, color)
	pair.input[dot], pair.output[dot] = 2, 2
	return pair, true
}

// reflectBlockWithBorderPixel reverses a block with one end in another color.
func reflectBlockWithBorderPixel(r *rng, n int) (arcPair, bool) {
	length := r.draw(2, n)
	color := r.draw(1, 9)
	border := choose(r, colorsWithout(color))
	left := r.coin()
	at := r.draw(0, n-length)
	block := make(arcRow, length)
	block.paint(0, length, color)
	return reflected(n, at, block, border, left), true
}

// reflectBlockRandom reverses a block of random colors with a border color at one end only.
func reflectBlockRandom(r *rng, n int) (arcPair, bool) {
	length := r.draw(2, n)
	left := r.coin()
	at := r.draw(0, n-length)
	border := r.draw(1, 9)
	palette := colorsWithout(border)
	block := make(arcRow, length)
	for i := range block {
		block[i] = choose(r, palette)
	}
	return reflected(n, at, block, border, left), true
}

// reflected puts block at a position, with its first (left) or last cell in the border color, and reverses it
// there.
func reflected(n, at int, block arcRow, border int, left bool) arcPair {
	if left {
		block[0] = border
	} else {
		block[len(block)-1] = border
	}
	pair := blankPair(n)
	copy(pair.input[at:], block)
	slices.Reverse(block)
	copy(pair.output[at:], block)
	return pair
}

// colorsWithout returns 1..8 without color. Like the library it never offers 9.
func colorsWithout(color int) []int {
	list := make([]int, 0, 8)
	for c := 1; c <= 8; c++ {
		if c != color {
			list = append(list, c)
		}
	}
	return list
}

// twoPointsAndFill fills the cells between two points of one color.
func twoPointsAndFill(r *rng, n int) (arcPair, bool) {
	color := r.draw(1, 9)
	i, j := r.draw(0, n-1), r.draw(0, n-1)
	if i == j {
		return arcPair{}, false
	}
	i, j = min(i, j), max(i, j)
	pair := blankPair(n)
	pair.input[i], pair.input[j] = color, color
	pair.output.paint(i, j-i+1, color)
	return pair, true
}

// copyBlockToDots replaces each dot with a copy of the block at cell 0. With colors, each dot has its own color.
func copyBlockToDots(colors bool) arcRule {
	return func(r *rng, n int) (arcPair, bool) {
		length := 5
		if r.coin() {
			length = 3
		}
		if length >= n {
			return arcPair{}, false
		}
		color := r.draw(1, 9)
		pair := blankPair(n)
		pair.input.paint(0, length, color)
		pair.output.paint(0, length, color)
		found := false
		for at := length + length/2 + 1; at <= n-length; at++ {
			if !r.coin() {
				continue
			}
			dot := color
			if colors {
				dot = r.draw(1, 9)
			}
			pair.input[at] = dot
			pair.output.paint(at-length/2, length, dot)
			found = true
			at += length
		}
		return pair, found
	}
}
