package main

import (
	"context"
	"path/filepath"
	"slices"
	"time"
)

const (
	logPoll  = 200 * time.Millisecond // between looks at logs that grow
	logState = time.Second            // between looks at whether the run goes on
)

// logMerge puts the logs of a run together by time. A line that tells none belongs to the one before it.
type logMerge struct {
	dir    string
	wanted []string // names of logs; none: all
	last   int
	follow bool
	logs   []*logFile
	emit   func(logLine) error
}

// coordinatorName is how the coordinator's log is called among those of nodes.
const coordinatorName = "coordinator"

// logNames are the logs in a run's folder, the coordinator's first, then nodes in their order.
func logNames(dir string) []string {
	var names []string
	for _, pattern := range []string{"*/log.txt", "*/log.txt.1"} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is a good one
		for _, path := range paths {
			names = append(names, filepath.Base(filepath.Dir(path)))
		}
	}
	slices.SortFunc(names, byLength)
	return append([]string{coordinatorName}, slices.Compact(names)...)
}

// byLength sorts node_2 before node_10.
func byLength(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return slices.Compare([]byte(a), []byte(b))
}

func logPath(dir, name string) string {
	if name == coordinatorName {
		return filepath.Join(dir, coordinatorLog)
	}
	return filepath.Join(dir, name, "log.txt")
}

// open opens the logs that are wanted and not yet open.
func (m *logMerge) open() error {
	names := m.wanted
	if len(names) == 0 {
		names = logNames(m.dir)
	}
	for _, name := range names {
		if slices.ContainsFunc(m.logs, func(l *logFile) bool { return l.name == name }) {
			continue
		}
		l, err := openLog(name, logPath(m.dir, name), m.last, m.follow)
		if err != nil {
			return err
		}
		m.logs = append(m.logs, l)
	}
	return nil
}

// run prints what there is, and with follow what comes, until done tells that nothing more will, or ctx ends.
func (m *logMerge) run(ctx context.Context, done func(context.Context) (bool, error)) error {
	defer func() {
		for _, l := range m.logs {
			l.close()
		}
	}()
	ticker := time.NewTicker(logPoll)
	defer ticker.Stop()
	over, asked := !m.follow, time.Time{}
	for {
		if !over && time.Since(asked) >= logState {
			var err error
			if over, err = done(ctx); err != nil {
				return err
			}
			asked = time.Now()
		}
		if err := m.open(); err != nil {
			return err
		}
		m.last = -1 // a log that appears from now on is all new
		if err := m.drain(); err != nil {
			return err
		}
		if over {
			return m.end()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// drain prints all lines there are, by time.
func (m *logMerge) drain() error {
	heads := make([]*logLine, len(m.logs))
	fill := func(i int) error {
		line, ok, err := m.logs[i].next()
		heads[i] = nil
		if ok {
			heads[i] = &line
		}
		return err
	}
	for i := range m.logs {
		if err := fill(i); err != nil {
			return err
		}
	}
	for {
		first := -1
		for i, head := range heads {
			if head != nil && (first < 0 || head.time.Before(heads[first].time)) {
				first = i
			}
		}
		if first < 0 {
			return nil
		}
		if err := m.emit(*heads[first]); err != nil {
			return err
		}
		if err := fill(first); err != nil {
			return err
		}
	}
}

// end prints the lines whose ends never came.
func (m *logMerge) end() error {
	for _, l := range m.logs {
		if line, ok := l.rest(); ok {
			if err := m.emit(line); err != nil {
				return err
			}
		}
	}
	return nil
}
