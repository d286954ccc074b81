package task

import "slices"

// blockAndNoiseRemove deletes lone pixels outside a block.
func blockAndNoiseRemove(r *rng, n int) (arcPair, bool) {
	length := r.draw(2, n)
	at := r.draw(0, n-length)
	color := r.draw(1, 9)
	pixels := r.draw(1, 3)
	pair := blankPair(n)
	pair.input.paint(at, length, color)
	pair.output.paint(at, length, color)
	forbidden := make([]bool, n)
	forbid := func(from, to int) {
		for i := max(from, 0); i <= min(to, n-1); i++ {
			forbidden[i] = true
		}
	}
	forbid(at-1, at+length)
	for range pixels {
		var free []int
		for i, taken := range forbidden {
			if !taken {
				free = append(free, i)
			}
		}
		if len(free) == 0 {
			return arcPair{}, false
		}
		x := choose(r, free)
		pair.input[x] = color
		forbid(x-1, x+1)
	}
	return pair, true
}

// blockAndNoiseRemoveInside deletes pixels of other colors inside a block.
func blockAndNoiseRemoveInside(r *rng, n int) (arcPair, bool) {
	if n <= 6 {
		return arcPair{}, false
	}
	length := r.draw(6, n)
	at := r.draw(0, n-length)
	color := r.draw(1, 9)
	pixels := r.draw(1, max(1, length/2-1))
	offsets := make([]int, length)
	for i := range offsets {
		offsets[i] = i
	}
	r.shuffle(length, func(i, j int) { offsets[i], offsets[j] = offsets[j], offsets[i] })
	pair := blankPair(n)
	pair.input.paint(at, length, color)
	pair.output.paint(at, length, color)
	for _, offset := range offsets[:pixels] {
		noise := r.draw(1, 9)
		for noise == color {
			noise = r.draw(1, 9)
		}
		pair.input[at+offset] = noise
	}
	return pair, true
}

// repeatPatternFull continues a pattern that is shown twice.
func repeatPatternFull(r *rng, n int) (arcPair, bool) {
	pattern := drawBlock(r, r.draw(2, 5), true)
	length := len(pattern)
	if 2*length >= n {
		return arcPair{}, false
	}
	pair := blankPair(n)
	for i := range n {
		pair.output[i] = pattern[i%length]
	}
	copy(pair.input, pair.output[:2*length])
	return pair, true
}

// duplicateBlockFromSeeds repeats a block on each side with a seed pixel, in the seed's color.
func duplicateBlockFromSeeds(r *rng, n int) (arcPair, bool) {
	length := r.draw(2, 4)
	if n <= length+3 {
		return arcPair{}, false
	}
	at := r.draw(2, n-length-2)
	left, right := r.coin(), r.coin()
	for !left && !right {
		left, right = r.coin(), r.coin()
	}
	pair := blankPair(n)
	pair.input.paint(at, length, 1)
	pair.output.paint(at, length, 1)
	if left {
		seed := r.draw(1, 9)
		pair.input[at-2] = seed
		for i := at - 2; i >= 0; i-- {
			if (at-2-i)%(length+1) < length {
				pair.output[i] = seed
			}
		}
	}
	if right {
		seed, start := r.draw(1, 9), at+length+1
		pair.input[start] = seed
		for i := start; i < n; i++ {
			if (i-start)%(length+1) < length {
				pair.output[i] = seed
			}
		}
	}
	return pair, true
}

// fillFromPixel fills the row from a pixel at a block's side to the row's end.
func fillFromPixel(r *rng, n int) (arcPair, bool) {
	if n < 8 {
		return arcPair{}, false
	}
	length := r.draw(3, n-5)
	at := r.draw(2, n-length-2)
	color := r.draw(1, 9)
	seed := drawColorBut(r, color)
	left := r.coin()
	pair := blankPair(n)
	pair.input.paint(at, length, color)
	pair.output.paint(at, length, color)
	if left {
		pair.input[at-1] = seed
		pair.output.paint(0, at, seed)
	} else {
		pair.input[at+length] = seed
		pair.output.paint(at+length, n-at-length, seed)
	}
	return pair, true
}

// fillUntilCollision fills from each pixel towards the marker's side, up to the next pixel.
func fillUntilCollision(r *rng, n int) (arcPair, bool) {
	if n < 4 {
		return arcPair{}, false
	}
	left := r.coin()
	marker, low, high := n-1, 0, n-2
	if left {
		marker, low, high = 0, 1, n-1
	}
	pixels := r.draw(2, 4)
	var positions []int
	for len(positions) < pixels {
		if at := r.draw(low, high); !slices.Contains(positions, at) {
			positions = append(positions, at)
		}
	}
	pair := blankPair(n)
	pair.input[marker] = 5
	for _, at := range positions {
		pair.input[at] = drawColorBut(r, 5)
	}
	copy(pair.output, pair.input)
	step := 1 // from a pixel to its right
	if left {
		step = -1
	}
	for _, at := range positions {
		for i := at + step; i >= 0 && i < n && pair.input[i] == 0; i += step {
			pair.output[i] = pair.input[at]
		}
	}
	return pair, true
}

// drawColorBut draws uniformly from 1..9 without color.
func drawColorBut(r *rng, color int) int {
	drawn := r.draw(1, 8)
	if drawn >= color {
		drawn++
	}
	return drawn
}
