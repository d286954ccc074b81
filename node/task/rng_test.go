package task

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

type rngVector struct {
	Seed    int64     `json:"seed"`
	U32     []uint32  `json:"u32"`
	Random  []float64 `json:"random"`
	Below   [][2]int  `json:"below"`
	Draw    [][3]int  `json:"randint"`
	Shuffle []int     `json:"shuffle12"`
	Choices []int     `json:"choices_1_2_0.5_3"`
}

func TestRNGVectors(t *testing.T) {
	for _, v := range readGolden[rngVector](t, "rng.jsonl") {
		r := newRNG(v.Seed, 0)
		for _, want := range v.U32 {
			require.Equal(t, want, r.u32(), "seed %d", v.Seed)
		}
		r = newRNG(v.Seed-5, 5)
		for _, want := range v.Random {
			require.Equal(t, want, r.random(), "seed %d", v.Seed)
		}
		r = newRNG(v.Seed, 0)
		for _, want := range v.Below {
			require.Equal(t, want[1], r.below(want[0]), "seed %d below %d", v.Seed, want[0])
		}
		r = newRNG(v.Seed, 0)
		for _, want := range v.Draw {
			require.Equal(t, want[2], r.draw(want[0], want[1]), "seed %d draw %v", v.Seed, want)
		}
		r = newRNG(v.Seed, 0)
		list := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
		r.shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		require.Equal(t, v.Shuffle, list, "seed %d", v.Seed)
		r = newRNG(v.Seed, 0)
		for _, want := range v.Choices {
			require.Equal(t, want, r.weighted([]float64{1, 2, 0.5, 3}), "seed %d", v.Seed)
		}
	}
}

// The composite dataset draws one weighted position from a fresh generator for each of its items.
func TestRNGComposite(t *testing.T) {
	type vector struct {
		Seed    int64     `json:"seed"`
		Chunk   int64     `json:"chunk"`
		Picks   []int     `json:"picks"`
		Weights []float64 `json:"weights"`
	}
	for _, v := range readGolden[vector](t, "composite.jsonl") {
		if v.Weights == nil {
			v.Weights = []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}
		}
		for i, want := range v.Picks {
			require.Equal(t, want, newRNG(v.Seed+v.Chunk, int64(i)).weighted(v.Weights), "seed %d item %d", v.Seed, i)
		}
	}
}

// The expected values are from CPython 3: random.Random(s).getrandbits(32), and randrange for wide numbers.
func TestRNGWideSeedsAndNumbers(t *testing.T) {
	require.Equal(t, newRNG(7, 0).u32(), newRNG(-9, 2).u32(), "the sign is dropped")
	require.Equal(t, newRNG(7, 0).u32(), newRNG(-2, 9).u32())
	for _, c := range []struct {
		seed, index int64
		u32         uint32
	}{
		{math.MaxInt64, 0, 1359979423}, {math.MaxInt64, 1, 2377109768},
		{math.MaxInt64, math.MaxInt64, 563479156}, {math.MinInt64, 0, 2377109768},
	} {
		require.Equal(t, c.u32, newRNG(c.seed, c.index).u32(), "%d+%d", c.seed, c.index)
	}
	r := newRNG(42, 0)
	var got []int
	for _, n := range []int{1 << 32, 1<<33 + 1, 2_000_000_000_001, math.MaxInt64, 5} {
		got = append(got, r.below(n))
	}
	require.Equal(t, []int{2746317213, 1181241943, 305901360862, 945351111358374057, 4}, got)
}

func TestShuffleOfNothing(t *testing.T) {
	r := newRNG(1, 0)
	r.shuffle(0, func(int, int) { t.Fatal("swap called") })
	r.shuffle(1, func(int, int) { t.Fatal("swap called") })
	require.Equal(t, newRNG(1, 0).u32(), r.u32(), "no draw was used")
}

// weighted returns a position in w, drawn in proportion to its weight.
func (r *rng) weighted(w []float64) int {
	var total float64
	for _, x := range w {
		total += x
	}
	x := r.random() * total
	var running float64
	for i, weight := range w {
		if running += weight; running > x {
			return i
		}
	}
	return len(w) - 1
}
