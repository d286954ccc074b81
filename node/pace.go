package node

// quietRounds is the number of rounds that a phase must complete without trouble before its limit rises.
const quietRounds = 50

// pace is the number of sequences that a phase computes at a time: as many as requested, or a limit learned from
// memory. The limit falls by halves and rises by doublings. After a call ran out of memory, the limit stays below
// the size that failed until the node's budget rises. If other processes held the memory, it stays down for
// quietRounds good rounds instead. A limit lowered by a prediction waits for either. So a size that fails costs one
// failed call in many rounds, and the noise of one round does not decide the size of the next.
type pace struct {
	Limit  int `json:"limit"`  // 0: none
	Failed int `json:"failed"` // smallest size that ran out of memory through its own use; 0: none

	quiet int // successful rounds under the limit
}

// size is the number of sequences that a call computes at a time when it requests asked.
func (p *pace) size(asked int) int {
	if p.Limit > 0 {
		return min(asked, p.Limit)
	}
	return asked
}

// fail records that a call of this size ran out of memory. If passing is set, other processes held the memory, so
// that the same size may fit later.
func (p *pace) fail(size int, passing bool) {
	p.Limit, p.quiet = max(1, size/2), 0
	if !passing && (p.Failed == 0 || size < p.Failed) {
		p.Failed = size
	}
}

// pass records a successful call.
func (p *pace) pass() { p.quiet++ }

// relieve records that more memory is available than when a size failed. The next call may try a larger size.
func (p *pace) relieve() { p.Failed, p.quiet = 0, quietRounds }

// fit halves the limit until holds reports that a call's size fits. After quietRounds good rounds it doubles the
// limit while roomy reports that twice the limit fits. It reports whether the limit changed.
func (p *pace) fit(asked int, holds, roomy func(size int) bool) bool {
	before := p.Limit
	for size := p.size(asked); size > 1 && !holds(size); {
		size /= 2
		p.Limit, p.quiet = size, 0
	}
	if p.quiet < quietRounds {
		return p.Limit != before
	}
	for p.Limit > 0 && p.Limit < asked {
		next := 2 * p.Limit
		if p.Failed > 0 && next >= p.Failed || !roomy(min(next, asked)) {
			break
		}
		p.Limit, p.quiet = next, 0
	}
	return p.Limit != before
}
