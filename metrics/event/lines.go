package event

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxLine bounds an event or command in bytes.
const MaxLine = 4 << 20

// ErrLineTooLong is returned by Reader.Read for a line above its limit. The stream is unusable afterwards.
var ErrLineTooLong = errors.New("line too long")

// Writer writes one JSON object per line. It is safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter returns a Writer on w. Each Write is one call of w.Write, so that lines never interleave.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes v as one line.
func (w *Writer) Write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode line: %w", err)
	}
	line = append(line, '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.w.Write(line); err != nil {
		return fmt.Errorf("write line: %w", err)
	}
	return nil
}

// Reader reads one JSON object per line.
type Reader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

// NewReader returns a Reader that refuses lines longer than limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 16<<10), max: limit}
}

// Read decodes the next line into v. It returns io.EOF at the end. It drops a last line without a newline, because its
// writer died while writing it.
func (r *Reader) Read(v any) error {
	r.buf = r.buf[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		if len(r.buf)+len(part) > r.max {
			return ErrLineTooLong
		}
		r.buf = append(r.buf, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if err := json.Unmarshal(r.buf, v); err != nil {
		return fmt.Errorf("decode line: %w", err)
	}
	return nil
}
