package task

import "slices"

// shifted moves a block by k cells, within the row.
func shifted(k int, colorful bool) arcRule {
	return func(r *rng, n int) (arcPair, bool) {
		if n <= k+1 {
			return arcPair{}, false
		}
		length := r.draw(1, n-k-1)
		at := r.draw(0, n-length-k)
		block := drawBlock(r, length, colorful)
		pair := blankPair(n)
		copy(pair.input[at:], block)
		copy(pair.output[at+k:], block)
		return pair, true
	}
}

// wrapped moves a block by k cells around the row's end.
func wrapped(k int, colorful bool) arcRule {
	return func(r *rng, n int) (arcPair, bool) {
		length := r.draw(1, n)
		at := r.draw(0, n-1)
		pair := blankPair(n)
		for i, color := range drawBlock(r, length, colorful) {
			pair.input[(at+i)%n] = color
			pair.output[(at+k+i)%n] = color
		}
		return pair, true
	}
}

func drawBlock(r *rng, length int, colorful bool) arcRow {
	block := make(arcRow, length)
	if !colorful {
		block.paint(0, length, r.draw(1, 9))
		return block
	}
	for i := range block {
		block[i] = r.draw(1, 9)
	}
	return block
}

// fromRandomRow draws each cell empty or in a color up to top, and calls f to fill the blank output.
func fromRandomRow(top int, f func(input, output arcRow)) arcRule {
	return func(r *rng, n int) (arcPair, bool) {
		pair := blankPair(n)
		for i := range pair.input {
			if r.coin() {
				pair.input[i] = r.draw(1, top)
			}
		}
		f(pair.input, pair.output)
		return pair, true
	}
}

func gravity(input, output arcRow) {
	next := 0
	for _, color := range input {
		if color != 0 {
			output[next] = color
			next++
		}
	}
}

func gravityCounting(input, output arcRow) {
	output.paint(0, len(input)-count(input, 0), 1)
}

func gravityAntigravity(input, output arcRow) {
	ones := count(input, 1)
	output.paint(0, count(input, 2), 2)
	output.paint(len(input)-ones, ones, 1)
}

func gravityWeightedColors(input, output arcRow) {
	twos := count(input, 2)
	output.paint(0, twos, 2)
	output.paint(twos, count(input, 1), 1)
}

func gravityOneStep(input, output arcRow) {
	copy(output, input)
	if gap := slices.Index(input, 0); gap >= 0 {
		copy(output[gap:], input[gap+1:])
		output[len(output)-1] = 0
	}
}

func changeToFive(input, output arcRow) {
	for i, color := range input {
		if color != 0 {
			output[i] = 5
		}
	}
}

// moveBlockByOwnSize moves a block to the right by its length.
func moveBlockByOwnSize(r *rng, n int) (arcPair, bool) {
	length := r.draw(1, n/2)
	at := r.draw(0, n-2*length)
	color := r.draw(1, 9)
	pair := blankPair(n)
	pair.input.paint(at, length, color)
	pair.output.paint(at+length, length, color)
	return pair, true
}

func count(row arcRow, color int) int {
	total := 0
	for _, c := range row {
		if c == color {
			total++
		}
	}
	return total
}
