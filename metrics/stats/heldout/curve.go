// Package heldout relates held-out pass@1 to its cost: it computes curves of pass@1 against a cost, and compares the
// arms of a study on these curves. It is pure, and knows neither runs nor axes of the database.
package heldout

import (
	"math"
	"slices"
)

// Curve is a run's held-out pass@1 against its cost: one point per evaluation, places ascending.
type Curve struct {
	Place []float64 // cost until the evaluation
	Pass  []float64
}

// last returns the place and the value of the newest evaluation.
func (c Curve) last() (place, pass float64) {
	n := len(c.Place) - 1
	return c.Place[n], c.Pass[n]
}

// Around returns the first evaluation at or after a place, and its weight in the linear interpolation there. If the
// weight is below 1, the previous evaluation has the rest. ok is false before the first and after the last evaluation.
func (c Curve) Around(place float64) (next int, share float64, ok bool) {
	next, exact := slices.BinarySearch(c.Place, place)
	switch {
	case exact:
		return next, 1, true
	case next == 0 || next == len(c.Place):
		return 0, 0, false
	}
	return next, (place - c.Place[next-1]) / (c.Place[next] - c.Place[next-1]), true
}

// At returns the value at a place. ok is false where Around has none.
func (c Curve) At(place float64) (pass float64, ok bool) {
	next, share, ok := c.Around(place)
	switch {
	case !ok:
		return 0, false
	case share == 1:
		return c.Pass[next], true
	}
	return c.Pass[next-1] + (c.Pass[next]-c.Pass[next-1])*share, true
}

// Area returns the mean value from 0 to a place: the integral divided by the place. ok is false if the curve does not
// cover that range.
func (c Curve) Area(place float64) (mean float64, ok bool) {
	end, ok := c.At(place)
	if !ok || c.Place[0] != 0 || !(place > 0) {
		return 0, false
	}
	sum := 0.0
	for i := 1; i < len(c.Place) && c.Place[i-1] < place; i++ {
		x, y := c.Place[i], c.Pass[i]
		if x > place {
			x, y = place, end
		}
		sum += (x - c.Place[i-1]) * (c.Pass[i-1] + y) / 2
	}
	return sum / place, true
}

// Reach returns the first place at which the value is at least pass, +Inf if it never is.
func (c Curve) Reach(pass float64) float64 {
	for i, y := range c.Pass {
		switch {
		case y < pass:
		case i == 0:
			return c.Place[0]
		default:
			return c.Place[i-1] + (c.Place[i]-c.Place[i-1])*(pass-c.Pass[i-1])/(y-c.Pass[i-1])
		}
	}
	return math.Inf(1)
}
