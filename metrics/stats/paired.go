package stats

import (
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// PairedDifference is the mean of the differences of equal seeds. Equal seeds begin with the same weights and draw the
// same questions into the slots that both have, so that some of what varies between seeds cancels; but nodes train on
// one another's rollouts and part ways within rounds, so that how much cancels isn't known beforehand. It is shown
// beside Welch's test, which takes no such thing for granted.
type PairedDifference struct {
	Seeds      int      `json:"seeds"` // in common
	Difference *float64 `json:"difference"`
	CILow      *float64 `json:"ci_low"` // 95 % interval
	CIHigh     *float64 `json:"ci_high"`
	PValue     *float64 `json:"p_value"` // Student's one-sample t-test, two-sided, not corrected; null: the differences don't vary
}

// Paired compares by seed: a's values less b's. It is nil with fewer than two seeds in common.
func Paired(a, b map[int64]float64) *PairedDifference {
	var differences []float64
	for _, seed := range slices.Sorted(maps.Keys(a)) {
		if other, ok := b[seed]; ok && units.Finite(a[seed]-other) {
			differences = append(differences, a[seed]-other)
		}
	}
	n := len(differences)
	largest := 0.0
	for seed := range a {
		largest = max(largest, math.Abs(a[seed]), math.Abs(b[seed]))
	}
	if n < 2 {
		return nil
	}
	mean, low, high := sample.MeanInterval(differences)
	out := &PairedDifference{Seeds: n, Difference: optional(mean)}
	if err := stat.StdDev(differences, nil) / math.Sqrt(float64(n)); err > 1e-12*largest && units.Finite(err) { // what is less is rounding
		out.CILow, out.CIHigh = optional(low), optional(high)
		out.PValue = optional(2 * sample.Student(float64(n-1)).Survival(math.Abs(mean)/err))
	}
	return out
}
