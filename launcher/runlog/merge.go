package runlog

import (
	"context"
	"slices"
	"time"
)

const (
	pollEvery = 200 * time.Millisecond // between looks at logs that grow
	pollLog   = time.Millisecond       // more for each log: a thousand take no more of a core than two hundred
	askEvery  = time.Second            // between looks at whether the run goes on
)

// Merge puts the logs of a run together by time. A line that tells none belongs to the one before it. It is run once.
type Merge struct {
	Dir    string   // the run's folder
	Logs   []string // names of logs; none: all there are, and those that appear
	Last   int      // newest lines of each log to begin with; < 0: all
	Follow bool     // go on with what is written
	Emit   func(Line) error

	PathOf func(name string) string // where a log of Logs is; nil: as Path has it

	open []*logFile
}

// Width is the length of the longest name among the logs that are open, in bytes. It may grow from one line to the
// next.
func (m *Merge) Width() int {
	width := 0
	for _, l := range m.open {
		width = max(width, len(l.name))
	}
	return width
}

// openNew opens the logs that are wanted and not yet open.
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

// Run emits what there is, and with Follow what comes, until done tells that nothing more will, or ctx ends; then the
// error is the context's cause. It asks done at most once a second, and only with Follow; what done and Emit return as
// an error ends it. Both are called on the caller's goroutine.
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
		last = -1 // a log that appears from now on is all new
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

// drain emits all lines there are, by time.
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

// end emits the lines whose ends never came.
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
