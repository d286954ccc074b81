package heldout

import "math"

// PassAtK is an unbiased estimate of the probability that at least one of k completions is right, given that c of n
// completions are: 1 - C(n-c, k)/C(n, k) (Chen et al. 2021, arXiv:2107.03374), computed as a product to avoid overflow.
// c is clamped to 0..n. The result is NaN for k outside 1..n.
func PassAtK(n, c, k int) float64 {
	if k < 1 || k > n {
		return math.NaN()
	}
	c = min(max(0, c), n)
	if n-c < k {
		return 1
	}
	if k < c { // the formula is symmetric in c and k: the fewer factors
		c, k = k, c
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}
