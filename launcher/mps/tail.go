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

// tells reports whether the lines appended since the last call contain text. It returns false for a file that is
// missing or unreadable.
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
	added, err := io.ReadAll(io.NewSectionReader(file, t.seen, min(info.Size()-t.seen, 1<<20)))
	if err != nil {
		return false
	}
	end := bytes.LastIndexByte(added, '\n') + 1 // whole lines; the next call reads the rest
	t.seen += int64(end)
	return bytes.Contains(added[:end], text)
}
