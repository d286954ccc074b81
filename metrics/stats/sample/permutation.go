package sample

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/combin"

	"github.com/sapo-swarm/swarm/internal/units"
)

// maxArrangements bounds the arrangements of a permutation test: it enumerates all of them up to this number, else it
// draws this many at random.
const maxArrangements = 20_000

// Permutation is the result of a permutation test.
type Permutation struct {
	P            float64 // two-sided
	Arrangements int     // arrangements tested
	Exact        bool    // all arrangements were tested
	Error        float64 // standard error of P; 0 if the test is exact
}

// PermutationTest returns the p-value of the difference of means of a and b: the probability of a difference at least
// as large if values are assigned to the two sides at random. It enumerates all arrangements if there are few.
// Otherwise it draws random arrangements with a fixed seed and counts the observed one (Phipson and Smyth 2010). The
// order of values and sides does not matter. P is NaN if a or b has fewer than two
// values, or if the difference is not finite.
func PermutationTest(a, b []float64) Permutation {
	if len(a) < 2 || len(b) < 2 || !units.Finite(Mean(a)-Mean(b)) {
		return Permutation{P: math.NaN()}
	}
	if len(b) < len(a) || len(a) == len(b) && slices.Compare(slices.Sorted(slices.Values(b)), slices.Sorted(slices.Values(a))) < 0 {
		a, b = b, a
	}
	all := slices.Concat(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	x := arranging{all: all, first: len(a), centre: Mean(all)}
	seen := slices.Collect(func(yield func(int) bool) {
		for i := range len(a) {
			yield(i)
		}
	})
	least := x.distance(seen) - x.rounding()
	if ExactPermutation(len(a), len(b)) {
		return x.exact(least)
	}
	return x.sampled(least)
}

// ExactPermutation reports whether PermutationTest looks at all arrangements of samples of these sizes.
func ExactPermutation(a, b int) bool {
	return combin.LogGeneralizedBinomial(float64(a+b), float64(a)) < math.Log(maxArrangements+0.5)
}

// arranging holds the values of both sides. The field first is the number of values of the first side.
type arranging struct {
	all    []float64
	first  int
	centre float64
}

// distance is proportional to the difference of means if side holds the indices of the first side's values.
func (x arranging) distance(side []int) float64 {
	sum := 0.0
	for _, i := range side {
		sum += x.all[i] - x.centre
	}
	return math.Abs(sum)
}

// rounding bounds the rounding error between two equal distances that are summed in a different order.
func (x arranging) rounding() float64 {
	largest, spread := 0.0, 0.0
	for _, v := range x.all {
		largest, spread = max(largest, math.Abs(v)), spread+math.Abs(v-x.centre)
	}
	return 1e-12*spread + 1e-15*float64(len(x.all))*largest
}

func (x arranging) exact(least float64) Permutation {
	total, extreme := 0, 0
	side := make([]int, x.first)
	for g := combin.NewCombinationGenerator(len(x.all), x.first); g.Next(); total++ {
		if x.distance(g.Combination(side)) >= least {
			extreme++
		}
	}
	return Permutation{P: float64(extreme) / float64(total), Arrangements: total, Exact: true}
}

func (x arranging) sampled(least float64) Permutation {
	random := rand.New(rand.NewPCG(0x5a90, 0x5eed)) //nolint:gosec // a fixed seed: the same p-value each time
	extreme := 1
	for range maxArrangements {
		if x.distance(random.Perm(len(x.all))[:x.first]) >= least {
			extreme++
		}
	}
	p := float64(extreme) / (maxArrangements + 1)
	return Permutation{P: p, Arrangements: maxArrangements, Error: math.Sqrt(p * (1 - p) / maxArrangements)}
}
