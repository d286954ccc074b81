package sample

import (
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/sapo-swarm/swarm/internal/units"
)

// PairedDifference is the mean difference between equal seeds. Equal seeds start with the same weights and draw the
// same questions into the slots that both sides have. Part of the variance between seeds therefore cancels. Nodes train
// on each other's rollouts and diverge within a few rounds, so that the canceled part is not known in advance. The
// paired difference is shown beside Welch's test, which does not assume pairing.
type PairedDifference struct {
	Seeds      int      `json:"seeds"` // in common
	Difference *float64 `json:"difference"`
	CILow      *float64 `json:"ci_low"` // 95 % interval
	CIHigh     *float64 `json:"ci_high"`
	PValue     *float64 `json:"p_value"` // Student's one-sample t-test, two-sided, not corrected; null: the differences do not vary
}

// Paired compares by seed: values of a minus those of b. It returns nil with fewer than two seeds in common.
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
	mean, low, high := MeanInterval(differences)
	out := &PairedDifference{Seeds: n, Difference: &mean}
	if err := stat.StdDev(differences, nil) / math.Sqrt(float64(n)); err > 1e-12*largest && units.Finite(err) { // a smaller error is rounding
		p := 2 * Student(float64(n-1)).Survival(math.Abs(mean)/err)
		out.CILow, out.CIHigh, out.PValue = &low, &high, &p
	}
	return out
}
