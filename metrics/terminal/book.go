package terminal

import "sync"

// book stores lines of clean, unstyled text. Each line keeps the number that it gets on arrival, and the oldest lines
// are dropped. It is safe for concurrent use.
type book struct {
	limit   int
	changed chan struct{} // holds a value if there are lines that no reader was notified of

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
	if over := len(b.lines) - b.limit; over > b.limit/4 { // not for every line, because dropping moves all kept lines
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

// span returns the number of the first line and one past the last.
func (b *book) span() (first, end int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first, b.first + len(b.lines)
}

// read returns the stored lines with numbers from..to-1.
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

// find returns the number of the next line that contains query, searching from a line in steps of 1 or -1 and wrapping
// around; -1: none.
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
