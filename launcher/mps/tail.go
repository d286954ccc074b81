package mps

import (
	"bytes"
	"io"
	"os"
)

// tail reads what is added to a file.
type tail struct {
	path string
	seen int64
}

// newTail begins at the file's end.
func newTail(path string) *tail {
	t := &tail{path: path}
	if info, err := os.Stat(path); err == nil {
		t.seen = info.Size()
	}
	return t
}

// tells reports whether a text is in what was added since the last call. A file that isn't there, or can't be read,
// tells nothing.
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
	if info.Size() < t.seen { // begun anew
		t.seen = 0
	}
	added, err := io.ReadAll(io.NewSectionReader(file, t.seen, min(info.Size()-t.seen, 1<<20)))
	if err != nil {
		return false
	}
	end := bytes.LastIndexByte(added, '\n') + 1 // whole lines: the rest comes with the next call
	t.seen += int64(end)
	return bytes.Contains(added[:end], text)
}
