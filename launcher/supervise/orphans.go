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

// Record writes a pid file at path for a process of this launcher, for SweepOrphans. The caller removes the file
// after the process has ended.
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

// Orphan is a process of a dead launcher that SweepOrphans ended.
type Orphan struct {
	PID int
	Dir string // the node's folder
}

// SweepOrphans ends the processes of dead launchers that are named in the pid files in and below dir, and removes
// these files. Normally a node exits when its launcher dies, and its engine when the node does, so SweepOrphans
// finds only processes that hang or are suspended.
//
// It leaves alone the processes of living launchers, files with that name and other content, and records from
// another PID namespace, whose launcher may be alive. It identifies processes by pid, start time and boot, never by
// pid alone.
//
// Each node gets SIGTERM, and SIGKILL after term. Then the processes that the node had started get SIGKILL. The folders
// are handled in parallel. With an error, SweepOrphans returns the orphans found so far. The error names those that did
// not die and what could not be read.
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

// sweepDepth is the maximum depth of a pid file below the swept folder, as in runs/RUN/NODE/pid.json.
const sweepDepth = 2

// findRecords returns the pid files of dead launchers in and below dir. It does not follow links, and ignores files
// that this package did not write.
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

// sweep ends the processes in a record, then removes it.
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

// End ends a process that is not our child, so we cannot wait for it. If term is above 0, its group first gets
// SIGTERM. Then it gets SIGKILL.
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

// awaitGone polls until a process has ended.
func awaitGone(ctx context.Context, id Identity, limit time.Duration) error {
	timer, tick := time.NewTimer(limit), time.NewTicker(detachedPoll)
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
