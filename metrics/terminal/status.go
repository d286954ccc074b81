package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// statusWidth is how wide PrintStatus writes, whatever it writes to.
const statusWidth = 100

// PrintStatus writes a run's status once: the live view's header and table, without colour or control sequences.
func PrintStatus(w io.Writer, x stats.Status) error {
	x = cleanStatus(x)
	s := screen{status: x, known: true, width: statusWidth, cursor: none}
	if x.Message != "" {
		s.lines = []string{x.Message}
	}
	if _, err := fmt.Fprintln(w, ansi.Strip(strings.Join(s.renderAll(newStyles(false)), "\n"))); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// renderAll is render with room for every node.
func (s *screen) renderAll(st styles) []string {
	s.height = 2*len(s.status.Nodes) + 40
	return s.render(st)
}
