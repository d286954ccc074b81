package supervise

import (
	"fmt"
	"io"
	"os"
	"sync"
)

const (
	defaultLogLimit = 32 << 20
	tailSize        = 8 << 10
)

// Log is a child's stderr on disk. It is appended to, and rotated when it is large. Its end stays in memory for the
// classification of the exit. Write errors must not stop the child, so they only leave gaps in the file.
type Log struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File // nil after a failure to rotate
	size int64
	tail []byte // at most 2 × tailSize
}

// OpenLog opens a log for appending. limit = 0 means 32 MiB.
func OpenLog(path string, limit int64) (*Log, error) {
	if limit <= 0 {
		limit = defaultLogLimit
	}
	l := &Log{path: path, limit: limit}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return fmt.Errorf("open log: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 { // created by an earlier version
		_ = file.Chmod(0o600) // fails if the file belongs to another user
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write appends p. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p...)
	if len(l.tail) > 2*tailSize {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-tailSize:]...)
	}
	if l.size > 0 && l.size+int64(len(p)) > l.limit {
		l.rotate()
	}
	if l.file != nil {
		n, _ := l.file.Write(p)
		l.size += int64(n)
	}
	return len(p), nil
}

// rotate moves the log to path.1. If that fails, it removes the log, so that its size stays bounded.
func (l *Log) rotate() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		os.Remove(l.path)
	}
	if err := l.open(); err != nil {
		l.size = 0 // try again after as many bytes
	}
}

// Tail returns the end of the log, at most 8 KiB.
func (l *Log) Tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.tail[max(0, len(l.tail)-tailSize):])
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// drain copies r to its end.
func (l *Log) drain(r io.Reader) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := r.Read(buffer)
		l.Write(buffer[:n])
		if err != nil {
			return
		}
	}
}
