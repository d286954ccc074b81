package sample

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sort"

	"gonum.org/v1/gonum/stat"

	"github.com/sapo-swarm/swarm/internal/units"
)

// PooledDeviation returns the standard deviation within groups, pooled over them by degrees of freedom, and the number
// of degrees of freedom. A group of fewer than two values adds nothing. The deviation is NaN without any degree of
// freedom.
func PooledDeviation(groups ...[]float64) (deviation float64, freedom int) {
	sum := 0.0
	for _, g := range groups {
		if len(g) < 2 {
			continue
		}
		sum += stat.Variance(g, nil) * float64(len(g)-1)
		freedom += len(g) - 1
	}
	if freedom == 0 {
		return math.NaN(), 0
	}
	return math.Sqrt(sum / float64(freedom)), freedom
}

// PlannedTest is what the power of a comparison depends on, apart from the number of seeds. Values of seeds are normal.
type PlannedTest struct {
	Difference float64 // of the two means
	A, B       float64 // standard deviations of the two sides
	Tests      int     // that share the level by Holm's method; the others show nothing, so that this one needs level / Tests
}

// known reports whether the power has a value.
func (t PlannedTest) known() bool {
	return t.Difference > 0 && units.Finite(t.Difference) && units.Finite(t.A*t.A+t.B*t.B) && t.A*t.A+t.B*t.B > 0
}

// Power returns the chance that both the permutation test and Welch's test decide with n seeds a side. It simulates
// them. Where PermutationTest samples arrangements, it computes that of Welch's test alone. It is NaN for an unknown or
// zero difference or deviation.
func (t PlannedTest) Power(n int) float64 {
	switch {
	case !t.known() || n < 2:
		return math.NaN()
	case !Significant(LeastPermutation(n, n) * float64(max(1, t.Tests))):
		return 0
	case ExactPermutation(n, n):
		return t.simulated(n)
	}
	a, b := t.A*t.A, t.B*t.B
	freedom := (a + b) * (a + b) / (a*a + b*b) * float64(n-1) // Satterthwaite's
	return Power(t.Difference/math.Sqrt((a+b)/float64(n)), freedom, (1-Confidence)/float64(max(1, t.Tests)))
}

// Seeds returns the fewest seeds a side for which Power is at least 0.8. ok is false if that is unknown or above
// MaxSeeds.
func (t PlannedTest) Seeds() (n int, ok bool) {
	if !t.known() {
		return 0, false
	}
	n = SeedsToDecide(t.Tests, 0, 0)
	for ; ExactPermutation(n, n); n++ {
		if t.Power(n) >= power {
			return n, true
		}
	}
	n += sort.Search(MaxSeeds+1-n, func(i int) bool { return t.Power(n+i) >= power })
	return n, n <= MaxSeeds
}

// simulations is the number of simulated samples behind Power. The standard error of a power of 0.8 is 0.009.
const simulations = 2000

// simulated returns the share of simulated samples that both tests decide. It counts arrangements with the first value
// on the first side: their mirror images are as far apart.
func (t PlannedTest) simulated(n int) float64 {
	var masks []uint32
	for mask := uint32(1); mask < 1<<(2*n); mask += 2 {
		if bits.OnesCount32(mask) == n {
			masks = append(masks, mask)
		}
	}
	most := 0 // arrangements that may be as far apart as the observed one
	for Significant(float64((most+1)*max(1, t.Tests)) / float64(len(masks))) {
		most++
	}
	random := rand.New(rand.NewPCG(0x90e4, 0x5eed)) //nolint:gosec // a fixed seed: the same power each time
	values, low, high := make([]float64, 2*n), make([]float64, 1<<n), make([]float64, 1<<n)
	decided := 0
	for range simulations {
		for i := range n {
			values[i], values[n+i] = t.Difference+t.A*random.NormFloat64(), t.B*random.NormFloat64()
		}
		centre := Mean(values)
		for mask := 1; mask < 1<<n; mask++ { // sums of subsets of each half
			bit, rest := bits.TrailingZeros(uint(mask)), mask&(mask-1)
			low[mask], high[mask] = low[rest]+values[bit]-centre, high[rest]+values[n+bit]-centre
		}
		least, extreme := math.Abs(low[1<<n-1])*(1-1e-9), 0
		for _, mask := range masks {
			if math.Abs(low[mask&(1<<n-1)]+high[mask>>n]) >= least {
				if extreme++; extreme > most {
					break
				}
			}
		}
		if extreme <= most && Significant(Welch(values[:n], values[n:]).P*float64(max(1, t.Tests))) {
			decided++
		}
	}
	return float64(decided) / simulations
}
