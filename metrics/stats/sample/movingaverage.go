package sample

import (
	"math"

	"github.com/sapo-swarm/swarm/internal/units"
)

// MovingAverage returns for each i the mean of the finite values of xs[i-window+1..i], or NaN if there are none. The
// window trails and is shorter at the start. The paper's figures use window 100. It panics if window < 1.
func MovingAverage(xs []float64, window int) []float64 {
	if window < 1 {
		panic("sample: window below 1")
	}
	window = max(1, min(window, len(xs)))
	out := make([]float64, len(xs))
	// Window i is the end of one block of window values and the start of the next. Sums within a block, never
	// differences of sums, keep the mean exact at any window length.
	tails := make([]partial, len(xs)+1)
	for i := len(xs) - 1; i >= 0; i-- {
		tails[i] = tails[i+1].plus(xs[i])
		if i%window == window-1 {
			tails[i] = partial{}.plus(xs[i])
		}
	}
	var head partial
	for i, x := range xs {
		if i%window == 0 {
			head = partial{}
		}
		head = head.plus(x)
		sum, from := head, i-window+1
		if from > 0 && from%window != 0 {
			sum = partial{head.sum + tails[from].sum, head.n + tails[from].n}
		}
		out[i] = sum.mean()
	}
	return out
}

// partial is a sum of finite values.
type partial struct {
	sum float64
	n   int
}

func (p partial) plus(x float64) partial {
	if !units.Finite(x) {
		return p
	}
	return partial{p.sum + x, p.n + 1}
}

func (p partial) mean() float64 {
	if p.n == 0 {
		return math.NaN()
	}
	return p.sum / float64(p.n)
}
