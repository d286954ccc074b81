package job

import (
	"io"
	"sync/atomic"

	"github.com/sapo-swarm/swarm/internal/screen"
)

// liner is a writer that records whether its last output ended with a newline. A progress bar's output does not.
type liner struct {
	to   io.Writer
	open *atomic.Bool // shared by the liners of one file
}

func newLiner(to io.Writer) *liner { return &liner{to, new(atomic.Bool)} }

func (l *liner) Write(p []byte) (int, error) {
	n, err := l.to.Write(p)
	if n > 0 {
		l.open.Store(p[n-1] != '\n')
	}
	return n, err
}

// say writes a line, after a newline if the last output did not end with one.
func (l *liner) say(line string) {
	if l.open.Swap(false) {
		line = "\n" + line
	}
	_, _ = l.to.Write([]byte(line)) // the reader may be gone
}

// outputLines returns stdout and stderr, and whether both are one terminal or one file.
func outputLines(s Session) (stdout, stderr *liner, together bool) {
	stdout, stderr = newLiner(s.Stdout), newLiner(s.Stderr)
	if together = s.Announce != nil || screen.Same(s.Stdout, s.Stderr); together { // in the background both are the log
		stdout.open = stderr.open
	}
	return stdout, stderr, together
}
