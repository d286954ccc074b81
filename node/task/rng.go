package task

import "math/bits"

// rng is the library's random source: CPython's random.Random, an MT19937 of 32 bits. Its draws equal the library's
// bit for bit, so that an item index means the same item.
type rng struct {
	state [mtSize]uint32
	next  int // position of the next word in state; mtSize: the block is used up
}

const (
	mtSize   = 624
	mtShift  = 397
	mtUpper  = 0x80000000
	mtLower  = 0x7fffffff
	mtMatrix = 0x9908b0df
)

// newRNG seeds with seed+index, as a dataset seeds item index. The sum cannot overflow and, as in CPython, loses
// its sign. index must not be negative.
func newRNG(seed, index int64) *rng {
	var magnitude uint64
	if seed >= 0 {
		magnitude = uint64(seed) + uint64(index)
	} else if sum := seed + index; sum >= 0 {
		magnitude = uint64(sum)
	} else {
		magnitude = -uint64(sum)
	}
	key := []uint32{uint32(magnitude)}
	if high := uint32(magnitude >> 32); high != 0 {
		key = append(key, high)
	}
	r := &rng{}
	r.initByArray(key)
	return r
}

// initByArray is the reference init_by_array of Matsumoto and Nishimura (2002).
func (r *rng) initByArray(key []uint32) {
	s := &r.state
	s[0] = 19650218
	for i := 1; i < mtSize; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	i, j := 1, 0
	for range max(mtSize, len(key)) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		if i++; i == mtSize {
			s[0], i = s[mtSize-1], 1
		}
		j = (j + 1) % len(key)
	}
	for range mtSize - 1 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		if i++; i == mtSize {
			s[0], i = s[mtSize-1], 1
		}
	}
	s[0] = mtUpper
	r.next = mtSize
}

func (r *rng) refill() {
	s := &r.state
	for i := range mtSize {
		y := s[i]&mtUpper | s[(i+1)%mtSize]&mtLower
		s[i] = s[(i+mtShift)%mtSize] ^ y>>1
		if y&1 != 0 {
			s[i] ^= mtMatrix
		}
	}
	r.next = 0
}

// u32 returns the next tempered word.
func (r *rng) u32() uint32 {
	if r.next == mtSize {
		r.refill()
	}
	y := r.state[r.next]
	r.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// random is uniform in [0, 1) with 53 bits.
func (r *rng) random() float64 {
	a, b := r.u32()>>5, r.u32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// below is uniform in [0, n), by rejection. n must be positive. Above 32 bits it draws a number's low word first,
// as CPython's getrandbits does.
func (r *rng) below(n int) int {
	width := bits.Len64(uint64(n))
	for {
		var v uint64
		if width <= 32 {
			v = uint64(r.u32() >> (32 - width))
		} else {
			v = uint64(r.u32())
			v |= uint64(r.u32()>>(64-width)) << 32
		}
		if v < uint64(n) {
			return int(v)
		}
	}
}

// draw is uniform in a..b, both ends included.
func (r *rng) draw(a, b int) int { return a + r.below(b-a+1) }

// coin is true half the time.
func (r *rng) coin() bool { return r.random() < 0.5 }

// shuffle permutes n elements with swap.
func (r *rng) shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.below(i+1))
	}
}

// choose returns a random element of list, which must not be empty.
func choose[T any](r *rng, list []T) T { return list[r.below(len(list))] }
