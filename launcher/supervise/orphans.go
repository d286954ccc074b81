package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Record writes at path that a process of this launcher's runs, for SweepOrphans. Whoever waits for the process removes
// the file.
func Record(path string, pid int) error {
	var record pidFile
	var err error
	if record.Process, err = Identify(pid); err != nil {
		return err
	}
	if record.Parent, err = Identify(os.Getpid()); err != nil {
		return err
	}
	return record.write(path)
}

// Orphan is a process that a dead launcher left behind and SweepOrphans ended.
type Orphan struct {
	PID int
	Dir string // the node's folder
}

// SweepOrphans ends the processes that launchers which are no longer alive left running, by the pid files in and below
// dir, and removes those files, no others: a file of that name with another content is somebody else's, and what a
// launcher in another PID namespace recorded stays as it is: that launcher may live. A node exits by itself when its
// launcher dies, and its engine when the node does, so that this finds only the ones that hang or are stopped.
// Processes are named by pid, start time and boot, never by pid alone; those of a living launcher are left alone. Each
// node gets SIGTERM, after term SIGKILL; then what it had started gets SIGKILL. The folders are worked on side by side.
// The error, with the orphans found so far, says which of them did not die or what could not be read.
func SweepOrphans(ctx context.Context, dir string, term time.Duration) ([]Orphan, error) {
	records, failure := findRecords(ctx, dir)
	orphans := make([][]Orphan, len(records))
	failures := make([]error, len(records), len(records)+1)
	var group sync.WaitGroup
	for i, r := range records {
		group.Go(func() { orphans[i], failures[i] = r.sweep(ctx, term) })
	}
	group.Wait()
	var all []Orphan
	for _, found := range orphans {
		all = append(all, found...)
	}
	return all, errors.Join(append(failures, failure)...)
}

// found is a pid file of a dead launcher.
type found struct {
	path   string
	record pidFile
}

// sweepDepth is how many folders below the one that is swept a pid file lies at most: runs/RUN/NODE/pid.json.
const sweepDepth = 2

// findRecords returns those in and below dir, without following links. A file of that name that this package didn't
// write is not touched.
func findRecords(ctx context.Context, dir string) ([]found, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sweep orphans: %w", err)
	}
	defer root.Close()
	var records []found
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != "." && strings.Count(path, "/") >= sweepDepth {
			return fs.SkipDir
		}
		if name != PIDFileName && name != PIDFileName+temporary || !entry.Type().IsRegular() {
			return ctx.Err()
		}
		record, err := openPIDFile(root.OpenFile, path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errTorn), err == nil && (record.Parent.Alive() || record.Parent.Elsewhere()):
			return nil
		case err != nil:
			return fmt.Errorf("sweep orphans: %w", err)
		}
		records = append(records, found{filepath.Join(dir, path), record})
		return nil
	})
	return records, err
}

// sweep ends what a record names, then removes it.
func (f found) sweep(ctx context.Context, term time.Duration) ([]Orphan, error) {
	dir := filepath.Dir(f.path)
	var orphans []Orphan
	var failures []error
	if node := f.record.Process; node.Alive() {
		orphans = append(orphans, Orphan{node.PID, dir})
		failures = append(failures, End(ctx, node, term))
	}
	for _, id := range f.record.Also {
		if id.Alive() {
			orphans = append(orphans, Orphan{id.PID, dir})
			failures = append(failures, End(ctx, id, 0))
		}
	}
	if err := errors.Join(failures...); err != nil {
		return orphans, err
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return orphans, fmt.Errorf("sweep orphans: %w", err)
	}
	return orphans, nil
}

// End ends a process that is no child of ours and can't be waited for: SIGTERM to its group, unless it is given no time
// to obey, and SIGKILL.
func End(ctx context.Context, id Identity, term time.Duration) error {
	if term > 0 {
		id.SignalGroup(syscall.SIGTERM)
		id.SignalGroup(syscall.SIGCONT)
		if err := awaitGone(ctx, id, term); err == nil || ctx.Err() != nil {
			return err
		}
	}
	id.SignalGroup(syscall.SIGKILL)
	id.Signal(syscall.SIGKILL)
	return awaitGone(ctx, id, 5*time.Second)
}

// awaitGone polls for the end of a process.
func awaitGone(ctx context.Context, id Identity, limit time.Duration) error {
	timer, tick := time.NewTimer(limit), time.NewTicker(kinPoll)
	defer timer.Stop()
	defer tick.Stop()
	for id.Alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("end orphan %d: %w", id.PID, context.Cause(ctx))
		case <-timer.C:
			return fmt.Errorf("end orphan %d: %w", id.PID, ErrUnkillable)
		case <-tick.C:
		}
	}
	return nil
}
