package mps

import (
	"bytes"
	"io"
	"os"
)

// tail reads the lines appended to a file.
type tail struct {
	path string
	seen int64
}

// newTail starts at the end of the file.
func newTail(path string) *tail {
	t := &tail{path: path}
	if info, err := os.Stat(path); err == nil {
		t.seen = info.Size()
	}
	return t
}

// tailBytes bounds one call's reading.
const tailBytes = 1 << 20

// tells reports whether the lines appended since the last call contain text. It returns false for a file that is
// missing or unreadable. It reads at most tailBytes, and the next call continues there. A longer line counts in parts
// that overlap, so that text is found in it too.
func (t *tail) tells(text []byte) bool {
	file, err := os.Open(t.path)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false
	}
	if info.Size() < t.seen { // the file was truncated or replaced
		t.seen = 0
	}
	added, err := io.ReadAll(io.NewSectionReader(file, t.seen, min(info.Size()-t.seen, tailBytes)))
	if err != nil {
		return false
	}
	end := bytes.LastIndexByte(added, '\n') + 1 // whole lines; the next call reads the rest
	next := end
	if end == 0 && len(added) == tailBytes {
		end = len(added)
		next = end - min(max(0, len(text)-1), end-1) // a text across the end is found by the next call
	}
	t.seen += int64(next)
	return bytes.Contains(added[:end], text)
}
