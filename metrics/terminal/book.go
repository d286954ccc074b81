package terminal

import "sync"

// book is lines that come, clean and styled by nobody: one is numbered as it comes and keeps its number, the oldest are
// forgotten. It is safe for concurrent use.
type book struct {
	limit   int
	changed chan struct{} // holds one where there are lines that nobody has been told of

	mu    sync.Mutex
	first int // number of lines[0]
	lines []string
}

func newBook(limit int, lines ...string) *book {
	return &book{limit: limit, changed: make(chan struct{}, 1), lines: lines}
}

func (b *book) add(lines ...string) {
	if len(lines) == 0 {
		return
	}
	b.mu.Lock()
	b.lines = append(b.lines, lines...)
	if over := len(b.lines) - b.limit; over > b.limit/4 { // not at every line: what is kept is moved
		b.first += over
		n := copy(b.lines, b.lines[over:])
		clear(b.lines[n:])
		b.lines = b.lines[:n]
	}
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// span is the number of the first line and that after the last.
func (b *book) span() (first, end int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first, b.first + len(b.lines)
}

// read returns the lines from one number to before another, as far as they are there.
func (b *book) read(from, to int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	from, to = max(from-b.first, 0), min(to-b.first, len(b.lines))
	if from >= to {
		return nil
	}
	return append([]string(nil), b.lines[from:to]...)
}

// last returns the newest n lines.
func (b *book) last(n int) []string {
	_, end := b.span()
	return b.read(end-n, end)
}

// find is the number of the next line with that text from one number on, down the book or up it, round its end; -1:
// none has it.
func (b *book) find(query string, from, step int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.lines)
	for i := range n {
		at := ((from-b.first+i*step)%n + n) % n
		if index(b.lines[at], query) >= 0 {
			return b.first + at
		}
	}
	return -1
}
