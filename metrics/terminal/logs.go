package terminal

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sapo-swarm/swarm/internal/charset"
)

const (
	logLength  = 3000 // lines of logs kept for a page
	leastLines = 10   // of each log to begin with, however many there are
	logsEvery  = time.Second / framesPerSecond
)

// bookMsg tells that a book has new lines; ctx ends with whoever shows them.
type bookMsg struct {
	ctx  context.Context //nolint:containedctx // as model's
	book *book
}

// logsMsg tells that no lines will come into a book any more, err why if that is no good reason.
type logsMsg struct {
	book *book
	err  error
}

// openLog opens the log of a node, or with no node those of the run.
func (m *model) openLog(node string) tea.Cmd {
	if m.cfg.Logs == nil {
		return nil
	}
	ctx, stop := context.WithCancel(m.ctx)
	p := &pager{title: "logs of " + m.screen.status.Run, book: newBook(logLength), grows: true, follow: true, stop: stop}
	last := max(leastLines, logLength/(1+len(m.screen.status.Nodes)))
	if node != "" {
		p.title, last = "log of "+node, logLength
	}
	m.open(p)
	return m.tail(ctx, p.book, node, last)
}

// tail writes a log, its newest last lines first, into a book until ctx ends.
func (m *model) tail(ctx context.Context, b *book, node string, last int) tea.Cmd {
	name := len("coordinator")
	for _, n := range m.screen.status.Nodes {
		name = max(name, len(n.ID))
	}
	emit := func(l LogLine) {
		text := charset.Line(brief(l.Text, m.cfg.Location))
		if node == "" {
			text = fmt.Sprintf("%-*s | ", name, charset.Line(l.Log)) + text
		}
		b.add(text)
	}
	read := func() tea.Msg { return logsMsg{b, m.cfg.Logs(ctx, node, last, emit)} }
	return tea.Batch(read, await(ctx, b, 0))
}

// brief is a log line with what slog wrote first made short: `09:30:01 INFO "round done" round=12`. Other lines stay as
// they are.
func brief(line string, location *time.Location) string {
	rest, ok := strings.CutPrefix(line, "time=")
	if !ok {
		return line
	}
	stamp, rest, _ := strings.Cut(rest, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return line
	}
	level, message, ok := strings.Cut(rest, " msg=")
	if level, found := strings.CutPrefix(level, "level="); ok && found {
		rest = level + " " + message
	}
	return at.In(location).Format(time.TimeOnly) + " " + rest
}

// await tells of new lines in a book, not before some time has passed.
func await(ctx context.Context, b *book, after time.Duration) tea.Cmd {
	return func() tea.Msg {
		select {
		case <-time.After(after):
		case <-ctx.Done():
		}
		select {
		case <-b.changed:
			return bookMsg{ctx, b}
		case <-ctx.Done():
			return nil
		}
	}
}

// logged notes on the pages that show a book why nothing more comes.
func (m *model) logged(msg logsMsg) {
	why := "ended"
	if msg.err != nil {
		why = charset.Line(msg.err.Error())
	}
	for _, shown := range m.pages {
		switch p := shown.(type) {
		case *pager:
			if p.book == msg.book {
				p.status, p.grows = why, false
			}
		case *nodePage:
			if p.log == msg.book && msg.err != nil {
				p.logTrouble = why
			}
		}
	}
}
