package runlog

import (
	"context"
	"slices"
	"time"
)

const (
	pollEvery = 200 * time.Millisecond // between checks of growing logs
	pollLog   = time.Millisecond       // added per log, so that a thousand logs cost no more CPU than two hundred
	askEvery  = time.Second            // between checks of whether the run has ended
)

// Merge merges the logs of a run by time. A line without a time stays after the line before it. Run can be called
// once.
type Merge struct {
	Dir    string   // the run's folder
	Logs   []string // names of logs; empty: all, including those that appear later
	Last   int      // newest lines of each log to start with; < 0: all
	Follow bool     // keep reading as logs grow
	Emit   func(Line) error

	PathOf func(name string) string // path of a log in Logs; nil: Path

	open []*logFile
}

// Width returns the length of the longest name among the open logs, in bytes. It may grow between lines.
func (m *Merge) Width() int {
	width := 0
	for _, l := range m.open {
		width = max(width, len(l.name))
	}
	return width
}

// openNew opens the wanted logs that are not open yet.
func (m *Merge) openNew(last int) error {
	names := m.Logs
	if len(names) == 0 {
		names = logNames(m.Dir)
	}
	for _, name := range names {
		if slices.ContainsFunc(m.open, func(l *logFile) bool { return l.name == name }) {
			continue
		}
		path := Path(m.Dir, name)
		if m.PathOf != nil {
			path = m.PathOf(name)
		}
		l, err := openLog(name, path, last, m.Follow)
		if err != nil {
			return err
		}
		m.open = append(m.open, l)
	}
	return nil
}

// Run emits the existing lines. With Follow it also emits later lines until done returns true or ctx ends. When ctx
// ends, the error is the context's cause. Run calls done at most once a second, and only with Follow. An error of
// done or Emit ends Run. Both run on the caller's goroutine.
func (m *Merge) Run(ctx context.Context, done func(context.Context) (bool, error)) error {
	defer func() {
		for _, l := range m.open {
			l.close()
		}
	}()
	over, asked, last := !m.Follow, time.Time{}, m.Last
	for {
		if !over && time.Since(asked) >= askEvery {
			var err error
			if over, err = done(ctx); err != nil {
				return err
			}
			asked = time.Now()
		}
		if err := m.openNew(last); err != nil {
			return err
		}
		last = -1 // a log that appears later is all new
		if err := m.drain(); err != nil {
			return err
		}
		if over {
			return m.end()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(pollEvery, time.Duration(len(m.open))*pollLog)):
		}
	}
}

// drain emits all available lines by time.
func (m *Merge) drain() error {
	heads := make([]*Line, len(m.open))
	fill := func(i int) error {
		line, ok, err := m.open[i].next()
		heads[i] = nil
		if ok {
			heads[i] = &line
		}
		return err
	}
	for i := range m.open {
		if err := fill(i); err != nil {
			return err
		}
	}
	for {
		first := -1
		for i, head := range heads {
			if head != nil && (first < 0 || head.Time.Before(heads[first].Time)) {
				first = i
			}
		}
		if first < 0 {
			return nil
		}
		if err := m.Emit(*heads[first]); err != nil {
			return err
		}
		if err := fill(first); err != nil {
			return err
		}
	}
}

// end emits unfinished last lines.
func (m *Merge) end() error {
	for _, l := range m.open {
		if line, ok := l.rest(); ok {
			if err := m.Emit(line); err != nil {
				return err
			}
		}
	}
	return nil
}
