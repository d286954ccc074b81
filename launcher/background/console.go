// Package background keeps a command of this program running after its terminal has closed. It starts the program
// again in its own session, with a log as its output, and reports to its starter that its work has begun. It does
// not depend on what the command does.
package background

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/internal/plainlog"
	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// Console is stdout and stderr of a command in the background. Until its work begins, output goes to the starter's
// streams, and then to a log that is rotated. File descriptors 1 and 2 also go to the log, so that it contains
// panics and messages of C libraries.
type Console struct {
	mu   sync.Mutex
	path string
	log  *supervise.Log // nil: the work has not begun
}

// stream is stdout or stderr of a console.
type stream struct {
	*Console
	before io.Writer
}

// Write implements io.Writer. Once the log is open it never fails.
func (s stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		return s.before.Write(p)
	}
	n, err := s.log.Write(p)
	if s.rotated() {
		_ = s.redirect() // on an error the descriptors keep the rotated file, and the work goes on
	}
	return n, err
}

// Streams returns the console's stdout and stderr. They write to the given streams until the log is open.
func (c *Console) Streams(stdout, stderr io.Writer) (out, err io.Writer) {
	return stream{c, stdout}, stream{c, stderr}
}

// Terminal implements plainlog.Writer. It reports whether a terminal shows the output, which is false once the log
// is open.
func (s stream) Terminal() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log == nil && plainlog.Watched(s.before)
}

// open redirects all output to the log at path.
func (c *Console) open(path string) error {
	log, err := supervise.OpenLog(path, 0)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.path, c.log = path, log
	return c.redirect()
}

// rotated reports whether stderr still goes to the rotated file instead of the current log.
func (c *Console) rotated() bool {
	var now, is unix.Stat_t
	if unix.Stat(c.path, &now) != nil || unix.Fstat(2, &is) != nil {
		return false
	}
	return now.Dev != is.Dev || now.Ino != is.Ino
}

func (c *Console) redirect() error {
	file, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer file.Close()
	for _, fd := range []int{1, 2} {
		if err := unix.Dup2(int(file.Fd()), fd); err != nil {
			return fmt.Errorf("redirect to %s: %w", c.path, err)
		}
	}
	return nil
}
