package retry

import "fmt"

// candidates bounds the search for a batch that divides the effective batch.
const candidates = 1 << 20

// smaller returns the batch, from least to limit, and the accumulation that together come nearest to an effective
// batch. It prefers the largest batch that divides the effective batch. If none does, it returns the batch of the
// upper half with the nearest multiple.
func smaller(effective, limit, least int) (batch, accumulate int) {
	for b := limit; b >= max(least, limit-candidates); b-- {
		if effective%b == 0 {
			return b, effective / b
		}
	}
	best := -1
	for b := limit; b >= max(least, limit/2+1, limit-candidates); b-- {
		times := max(1, (effective+b/2)/b)
		if off := abs(effective - b*times); best < 0 || off < best {
			batch, accumulate, best = b, times, off
		}
	}
	return batch, accumulate
}

// withBatch returns s with a batch of at most limit, and at least the policy's minimum, and describes the change of
// the effective batch.
func (p Policy) withBatch(s Setting, effective, limit int) (Setting, string) {
	to := s
	if p.CanAccumulate {
		to.BatchSize, to.Accumulate = smaller(effective, limit, min(limit, max(1, p.MinBatchSize)))
	} else {
		to.BatchSize = limit
	}
	words := fmt.Sprintf("batch size %d → %d", s.BatchSize, to.BatchSize)
	if to.Accumulate != s.Accumulate {
		words += fmt.Sprintf(", accumulation %d → %d", max(1, s.Accumulate), to.Accumulate)
	}
	switch {
	case to.Effective() == effective:
		return to, fmt.Sprintf("%s: the effective batch stays %d", words, effective)
	case !p.CanAccumulate:
		return to, fmt.Sprintf("%s: the effective batch changes from %d to %d, because the command does not use {accumulate}",
			words, effective, to.Effective())
	}
	return to, fmt.Sprintf("%s: the effective batch changes from %d to %d, because no batch size from %d to %d divides it",
		words, effective, to.Effective(), min(limit, max(1, p.MinBatchSize)), limit)
}

func abs(n int) int { return max(n, -n) }
