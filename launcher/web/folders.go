package web

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/dashboard"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// runFolders reads the files in runs' folders for the dashboard. It serves one request at a time, because journals
// and logs are large.
type runFolders struct {
	home layout.Home

	mu    sync.Mutex
	texts map[string]*runText // of recently requested runs
}

// run returns a run from the database. If its folder cannot be read, note gives the reason.
func (f *runFolders) run(ctx context.Context, name string) (snapshot store.Snapshot, note string, err error) {
	reader, err := lifecycle.OpenReader(ctx, f.home)
	if err != nil {
		return snapshot, "", err
	}
	defer reader.Close()
	if snapshot, err = reader.Snapshot(ctx, name); err != nil {
		return snapshot, "", err
	}
	dir := f.home.Run(snapshot.Run.Run)
	switch _, err := os.Stat(dir); {
	case err == nil:
	case lifecycle.Elsewhere(snapshot.Run):
		note = fmt.Sprintf("the folder of %s is on %s, not here", snapshot.Run.Run, snapshot.Run.Host)
	case errors.Is(err, os.ErrNotExist):
		note = fmt.Sprintf("the folder of %s is missing", snapshot.Run.Run)
	default:
		note = fmt.Sprintf("the folder of %s can't be read: %v", snapshot.Run.Run, err)
	}
	return snapshot, note, nil
}

// errEnoughLines stops the reading of logs.
var errEnoughLines = errors.New("enough lines")

// logs implements dashboard.Options.Logs. It returns the newest lines, or those around a time, half of them before
// it.
func (f *runFolders) logs(ctx context.Context, q dashboard.LogQuery) (dashboard.Logs, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out dashboard.Logs
	snapshot, note, err := f.run(ctx, q.Run)
	if err != nil || note != "" {
		out.Note = note
		return out, err
	}
	window := &logWindow{ctx: ctx, query: q}
	merge := &runlog.Merge{Dir: f.home.Run(snapshot.Run.Run), Last: q.Lines, Emit: window.take}
	if q.Around != 0 {
		merge.Last = -1
	}
	if q.Node != "" {
		merge.Logs = []string{filepath.Base(q.Node)}
	}
	if err := merge.Run(ctx, nil); err != nil && !errors.Is(err, errEnoughLines) {
		return out, err
	}
	window.trim(q.Lines)
	if out.Lines = window.lines; len(out.Lines) == 0 {
		out.Note = "the log is empty"
	}
	return out, nil
}

// logWindow keeps a window of the lines that it receives.
type logWindow struct {
	ctx   context.Context
	query dashboard.LogQuery
	lines []dashboard.LogLine
	after int // lines later than Around
	seen  int
}

func (w *logWindow) take(line runlog.Line) error {
	if w.seen++; w.seen%1000 == 0 && w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	out := dashboard.LogLine{Node: line.Log, Text: charset.Shown(line.Text)}
	later := false
	if !line.Time.IsZero() {
		at := float64(line.Time.UnixMilli()) / 1e3
		out.Time, later = &at, w.query.Around != 0 && at > w.query.Around
	}
	w.lines = append(w.lines, out)
	if !later {
		keep := w.query.Lines
		if w.query.Around != 0 {
			keep = (w.query.Lines + 1) / 2
		}
		if len(w.lines) > 2*keep+64 { // drop the oldest lines only now and then
			w.lines = append(w.lines[:0], w.lines[len(w.lines)-keep:]...)
		}
		return nil
	}
	if w.after++; w.after == 1 {
		w.trim((w.query.Lines+1)/2 + 1)
	}
	if len(w.lines) >= w.query.Lines {
		return errEnoughLines
	}
	return nil
}

func (w *logWindow) trim(keep int) { w.lines = w.lines[max(0, len(w.lines)-keep):] }
