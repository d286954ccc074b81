// Package sapo holds the pure parts of Swarm sAmpling Policy Optimization (arXiv:2509.08721): advantages, the
// zero-advantage filter, the draw of external rollouts, and the seeds of all random draws. It computes numbers from
// numbers: no I/O, no clock, no goroutine.
package sapo

import (
	"fmt"
	"math"
)

// Ways to scale advantages, by TRL's names.
const (
	ScaleGroup = "group" // divide by the group's standard deviation
	ScaleNone  = "none"  // subtract the mean only (Dr. GRPO)
)

// Mean returns the arithmetic mean, 0 for no values.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Std returns the standard deviation with ddof 1. It is exactly 0 for equal values, regardless of rounding in the
// mean, and for fewer than two values.
func Std(values []float64) float64 {
	if AllEqual(values) {
		return 0
	}
	mean := Mean(values)
	var sum float64
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

// AllEqual reports whether a group's rewards are all equal, so that every advantage is zero.
func AllEqual(rewards []float64) bool {
	for _, r := range rewards {
		if r != rewards[0] {
			return false
		}
	}
	return true
}

// Advantages returns the group-relative advantages of one group's rewards (paper §2, GRPO): the mean subtracted,
// divided by the standard deviation (ddof 1) unless scale is ScaleNone. A group of equal rewards has exactly zero
// advantages.
func Advantages(rewards []float64, scale string) ([]float64, error) {
	if scale != ScaleGroup && scale != ScaleNone {
		return nil, fmt.Errorf("scale_rewards %q is not %s or %s", scale, ScaleGroup, ScaleNone)
	}
	out := make([]float64, len(rewards))
	std := Std(rewards)
	if std == 0 {
		return out, nil
	}
	mean := Mean(rewards)
	for i, r := range rewards {
		out[i] = r - mean
		if scale == ScaleGroup {
			out[i] /= std
		}
	}
	return out, nil
}

// Positive replaces advantages below zero with zero, so that completions worse than their group's mean do not
// contribute. It changes its argument and returns it.
func Positive(advantages []float64) []float64 {
	for i, a := range advantages {
		advantages[i] = max(a, 0)
	}
	return advantages
}
