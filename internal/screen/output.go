package screen

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

const (
	outputQueue    = 2 << 20               // bytes that wait for a slow reader
	outputPause    = 20 * time.Millisecond // text waits for more, because a write per line costs more than making the line
	outputPatience = 5 * time.Second       // how long Flush waits for a reader
)

// Output writes to a stream in the background, so that the caller never waits for the stream's reader: a terminal
// after Ctrl-S, less, or a program that hangs. If the reader is too slow, text is left out, and a notice gives its
// number of lines. It is safe for concurrent use.
type Output struct {
	to     io.Writer
	notice func(lines int) string

	mu      sync.Mutex
	waiting []byte
	dropped int           // lines left out since the newest text in waiting
	idle    chan struct{} // closed once nothing waits; nil: nothing waits
	stuck   bool          // a Flush has waited in vain for the current write
	err     error         // of the last write
}

// NewOutput returns an Output that writes to a stream. notice returns the line about lines that were left out.
func NewOutput(to io.Writer, notice func(lines int) string) *Output {
	return &Output{to: to, notice: notice}
}

// Write queues text. The error is an earlier write's.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) > 0 && len(o.waiting)+len(text) > outputQueue {
		o.dropped += max(1, bytes.Count(text, []byte{'\n'}))
		return len(text), o.err
	}
	o.waiting = append(o.waiting, text...)
	if o.idle == nil {
		o.idle = make(chan struct{})
		go o.write()
	}
	return len(text), o.err
}

// write writes until nothing waits.
func (o *Output) write() {
	time.Sleep(outputPause)
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting) > 0 {
		text := o.waiting
		o.waiting = nil
		if o.dropped > 0 {
			o.waiting, o.dropped = []byte(o.notice(o.dropped)), 0
		}
		o.mu.Unlock()
		_, err := o.to.Write(text)
		o.mu.Lock()
		o.err, o.stuck = err, false
	}
	close(o.idle)
	o.idle = nil
}

// Flush waits until everything is written, but not longer than outputPatience, and only once for a reader that has
// stopped. It returns the last write's error.
func (o *Output) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if idle := o.idle; idle != nil && !o.stuck {
		o.mu.Unlock()
		stuck := false
		select {
		case <-idle:
		case <-time.After(outputPatience):
			stuck = true
		}
		o.mu.Lock()
		o.stuck = stuck
	}
	return o.err
}

// Flush flushes those of the writers that are an Output.
func Flush(writers ...io.Writer) error {
	failures := make([]error, len(writers))
	var group sync.WaitGroup
	for i, w := range writers {
		if o, ok := w.(*Output); ok {
			group.Go(func() { failures[i] = o.Flush() })
		}
	}
	group.Wait()
	return errors.Join(failures...)
}

// Stream returns an Output's stream, and any other writer as it is.
func Stream(w io.Writer) io.Writer {
	if o, ok := w.(*Output); ok {
		return o.to
	}
	return w
}

// Same reports whether two writers write to one file.
func Same(a, b io.Writer) bool {
	one, ok := Stream(a).(*os.File)
	other, also := Stream(b).(*os.File)
	if !ok || !also {
		return false
	}
	first, err := one.Stat()
	second, otherErr := other.Stat()
	return err == nil && otherErr == nil && os.SameFile(first, second)
}
