package node

// quietRounds is how many rounds a phase must have gone well before it takes more sequences at a time again.
const quietRounds = 50

// pace is how many sequences a phase takes at a time: as many as asked for, or a limit that memory taught it. A pace
// goes down by halves and up by doublings. What went down because a call ran out of memory stays below that size until
// the node's budget rises or, where others had taken the memory, until quietRounds rounds have gone well; what went
// down by prediction waits for either, too. So a size that fails costs one failed call in many rounds, and no round
// takes its size from the noise of the last one.
type pace struct {
	Limit  int `json:"limit"`  // 0: none
	Failed int `json:"failed"` // the smallest that ran out of memory of its own making; 0: none

	quiet int // rounds that went well under the limit
}

// size is how many sequences at a time a call takes of those it has.
func (p *pace) size(asked int) int {
	if p.Limit > 0 {
		return min(asked, p.Limit)
	}
	return asked
}

// fail notes that so many at a time ran out of memory. passing says that others had taken it, so that the same size may
// fit later.
func (p *pace) fail(size int, passing bool) {
	p.Limit, p.quiet = max(1, size/2), 0
	if !passing && (p.Failed == 0 || size < p.Failed) {
		p.Failed = size
	}
}

// pass notes a call that went well.
func (p *pace) pass() { p.quiet++ }

// relieve notes that there is more room than when a size failed: the next call may try.
func (p *pace) relieve() { p.Failed, p.quiet = 0, quietRounds }

// fit brings the limit down until holds says that a call's size fits, and up where it has been quiet for long and roomy
// says that twice the limit fits. It tells whether the limit has changed.
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
