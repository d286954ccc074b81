package notify

import (
	"bytes"
	"sync"
	"time"
)

// patience bounds the wait for an expected event.
const patience = time.Minute

// lockedBuffer is a buffer that allows concurrent reads and writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
