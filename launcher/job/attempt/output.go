package attempt

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

const (
	chunk      = 64 << 10
	heldBack   = 16 << 10 // most bytes of an incomplete line
	drainPause = 200 * time.Millisecond
	drainMost  = 1 << 20 // a pipe holds at most this
)

// sink receives both streams in addition to their writers. It writes them to the log and the scanner.
type sink struct {
	mu      sync.Mutex
	log     io.Writer // nil: none
	scanner *shortage.Scanner
}

// stream is one of the command's output streams.
type stream struct {
	name string
	from *os.File
	to   io.Writer // nil: no writer, or the writer has failed
	sink *sink
	warn func(string)
	line []byte // held back for the scanner, so that the streams don't mix within a line
}

// pump passes all output on until the stream ends.
func (s *stream) pump() {
	buffer := make([]byte, chunk)
	for rest, draining := drainMost, false; rest > 0; {
		n, err := s.from.Read(buffer)
		s.pass(buffer[:n])
		if draining {
			rest -= n
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// All processes of the command are gone, so only an unrelated process can keep the pipe open. Read the
			// rest of its content.
			if draining && n == 0 {
				break
			}
			draining = true
			s.from.SetReadDeadline(time.Now().Add(poll))
			continue
		}
		if err != nil {
			break
		}
		if draining {
			s.from.SetReadDeadline(time.Now().Add(poll))
		}
	}
	s.from.Close()
	s.scan(s.line)
}

// drain limits the time for the rest of the stream. Call it when all writers of the command are gone.
func (s *stream) drain() { s.from.SetReadDeadline(time.Now().Add(drainPause)) }

// pass passes bytes on. The log and the scanner, which never block, come first.
func (s *stream) pass(p []byte) {
	if len(p) == 0 {
		return
	}
	s.record(p)
	if s.to == nil {
		return
	}
	if _, err := s.to.Write(p); err != nil {
		s.to = nil
		if errors.Is(err, syscall.EPIPE) {
			s.warn("the reader of the command's " + s.name + " has closed it; the command continues")
		} else {
			s.warn("the command's " + s.name + " can no longer be passed on; the command continues: " + err.Error())
		}
	}
}

func (s *stream) record(p []byte) {
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	if s.sink.log != nil {
		_, _ = s.sink.log.Write(p)
	}
	end := bytes.LastIndexAny(p, "\n\r") + 1
	if end == 0 && len(s.line)+len(p) > heldBack {
		end = len(p)
	}
	if end > 0 {
		_, _ = s.sink.scanner.Write(s.line)
		_, _ = s.sink.scanner.Write(p[:end])
		s.line = s.line[:0]
	}
	s.line = append(s.line, p[end:]...)
}

func (s *stream) scan(p []byte) {
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	_, _ = s.sink.scanner.Write(p)
}
