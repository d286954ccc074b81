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
	logLength  = 3000 // log lines kept per page
	leastLines = 10   // minimum initial lines per log, for any number of logs
	logsEvery  = time.Second / framesPerSecond
)

// bookMsg reports new lines in a book. ctx ends when the page that shows them is left.
type bookMsg struct {
	ctx  context.Context //nolint:containedctx // as model's
	book *book
}

// logsMsg reports that a book is complete. err is the reason if the log could not be read.
type logsMsg struct {
	book *book
	err  error
}

// openLog opens the log of a node. An empty node opens all logs of the run.
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

// tail copies a log into a book until ctx ends, starting with its newest last lines.
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

// brief shortens the prefix that slog writes: `09:30:01 INFO "round done" round=12`. It returns other lines unchanged.
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

// await returns a command that reports new lines in a book after at least the given time.
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

// logged shows on all pages of a book why it is complete.
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
