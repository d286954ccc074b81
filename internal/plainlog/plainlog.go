// Package plainlog writes plain log lines to a terminal and slog's text format elsewhere.
package plainlog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
)

// New returns a logger that writes plain lines for people if w is a terminal, else slog's text format.
func New(w io.Writer, level slog.Level) *slog.Logger {
	records := slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	return slog.New(&plainLog{out: w, records: records, lock: new(sync.Mutex)})
}

// plainLog writes log records for people: `Warning: what happened (where: this, when: that)`.
type plainLog struct {
	out     io.Writer
	records slog.Handler // used if w is not a terminal
	facts   []string     // attributes of all records
	group   string       // prefix of later attributes, ending with a dot
	lock    *sync.Mutex
}

// levelWords starts the line of each level. Information has no prefix.
var levelWords = map[slog.Level]string{slog.LevelDebug: "Debug: ", slog.LevelInfo: "", slog.LevelWarn: "Warning: ", slog.LevelError: "Error: "}

func (p *plainLog) Enabled(ctx context.Context, level slog.Level) bool {
	return p.records.Enabled(ctx, level)
}

func (p *plainLog) Handle(ctx context.Context, r slog.Record) error {
	if !Watched(p.out) {
		return p.records.Handle(ctx, r)
	}
	facts := p.facts
	r.Attrs(func(a slog.Attr) bool {
		facts = append(facts[:len(facts):len(facts)], p.fact(a))
		return true
	})
	line := levelWords[r.Level] + r.Message
	if len(facts) > 0 {
		line += " (" + strings.Join(facts, ", ") + ")"
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	_, err := fmt.Fprintln(p.out, charset.Shown(fail.OneLine(line)))
	return err
}

func (p *plainLog) fact(a slog.Attr) string {
	return p.group + strings.ReplaceAll(a.Key, "_", " ") + ": " + a.Value.Resolve().String()
}

func (p *plainLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *p
	next.records = p.records.WithAttrs(attrs)
	next.facts = p.facts[:len(p.facts):len(p.facts)]
	for _, a := range attrs {
		next.facts = append(next.facts, p.fact(a))
	}
	return &next
}

func (p *plainLog) WithGroup(name string) slog.Handler {
	next := *p
	next.records, next.group = p.records.WithGroup(name), p.group+name+"."
	return &next
}

// Writer is a writer that can report whether a terminal shows its output at the moment.
type Writer interface {
	io.Writer
	Terminal() bool
}

// Watched reports whether w's output appears on a terminal at the moment. For a Writer the answer may change.
func Watched(w io.Writer) bool {
	if s, ok := w.(Writer); ok {
		return s.Terminal()
	}
	return screen.IsTerminal(w)
}
