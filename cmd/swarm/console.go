package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// console is stdout and stderr of a command in the background: those of whoever started it until its work has begun, from then on a log that
// is rotated. File descriptors 1 and 2 follow the log, so that a panic or a C library's last words are found in it too.
type console struct {
	mu   sync.Mutex
	path string
	log  *supervise.Log // nil: not begun
}

// stream is one of a console's two, before it begins.
type stream struct {
	*console
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
		_ = s.redirect() // the descriptors stay with the rotated file, which is no reason to stop
	}
	return n, err
}

// take makes the console what a command prints and logs to.
func (c *console) take(g *globals) {
	g.console, g.stdout, g.stderr = c, stream{c, g.stdout}, stream{c, g.stderr}
	g.logger = newLogger(g.stderr, g.logLevel())
}

// open moves everything to the log at path.
func (c *console) open(path string) error {
	log, err := supervise.OpenLog(path, 0)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.path, c.log = path, log
	return c.redirect()
}

// rotated tells whether stderr still goes to a file that is no longer the log.
func (c *console) rotated() bool {
	var now, is unix.Stat_t
	if unix.Stat(c.path, &now) != nil || unix.Fstat(2, &is) != nil {
		return false
	}
	return now.Dev != is.Dev || now.Ino != is.Ino
}

func (c *console) redirect() error {
	file, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
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
