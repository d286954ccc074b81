package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// InUse returns why a run cannot be removed at the moment, or nil if it can.
func InUse(home layout.Home, r Listed) error {
	if r.State == store.RunRunning {
		where := ""
		if Elsewhere(r.Record.Run) {
			where = " on " + r.Record.Host
		}
		return fail.Hint(fmt.Errorf("%s is running%s", r.Run, where), "swarm down "+r.Run)
	}
	if !store.ValidExperiment(r.Experiment) {
		return nil // no process can run it
	}
	var other *files.HeldError
	if errors.As(files.LookClaim(LockPath(home, r.Experiment), 0), &other) {
		return fail.Hint(
			fmt.Errorf("%s cannot be removed: its experiment %s is running (process %s)", r.Run, r.Experiment, other.Holder), "swarm down "+r.Experiment)
	}
	if errors.As(files.LookClaim(SweepLockPath(home, r.Experiment), 0), &other) {
		return fail.Hint(
			fmt.Errorf("%s cannot be removed: a sweep with its experiment %s is running (process %s)", r.Run, r.Experiment, other.Holder),
			"swarm rm "+r.Run+" once the sweep has ended")
	}
	return nil
}

// Removal removes runs of a home: their folders, and their records unless FilesOnly is set.
type Removal struct {
	Home      layout.Home
	FilesOnly bool
	DryRun    bool // remove nothing, but return what would be removed
	Logger    *slog.Logger
}

// Removed is the result for one run.
type Removed struct {
	Run        string `json:"run"`
	Experiment string `json:"experiment"`
	State      string `json:"state"`
	Removed    bool   `json:"removed"`
	FreedBytes *int64 `json:"freed_bytes"` // size of its folder; null: not measured
	// freed for later runs within the database file, which does not shrink
	DatabaseBytes int64 `json:"database_bytes"`
}

// Remove removes the runs and returns the results in their order. It stops at the first failure, and between runs
// when ctx ends.
func (o Removal) Remove(ctx context.Context, runs []Listed) (done []Removed, err error) {
	root, err := RunsRoot(o.Home)
	if err != nil {
		return nil, o.Home.Error(err)
	}
	if root != nil {
		defer root.Close()
		if !o.DryRun {
			if err := files.EmptyAside(root); err != nil {
				return nil, o.Home.Error(err)
			}
		}
	}
	records := &records{home: o.Home, logger: o.Logger}
	defer func() { err = errors.Join(err, records.close()) }()
	for _, r := range runs {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		x := Removed{Run: r.Run, Experiment: r.Experiment, State: r.State, FreedBytes: r.SizeBytes}
		if r.Folder == nil {
			x.FreedBytes = new(int64)
		}
		if !o.DryRun {
			if err := o.remove(ctx, root, records, r, &x); err != nil {
				return done, fmt.Errorf("remove %s: %w", r.Run, err)
			}
		}
		done = append(done, x)
	}
	return done, nil
}

// remove removes a run while it holds the experiment's lock. It removes the files first: on a full disk the
// database needs the space. An interrupted removal leaves a run that is still listed, and rm can remove it again.
func (o Removal) remove(ctx context.Context, root *os.Root, records *records, r Listed, x *Removed) error {
	if store.ValidExperiment(r.Experiment) {
		lock, err := LockExperiment(o.Home, r.Experiment)
		if err != nil {
			return err
		}
		defer lock.Release()
	}
	s, err := records.open(ctx)
	if err != nil {
		return err
	}
	now, err := s.Snapshot(ctx, r.Run)
	if errors.Is(err, store.ErrNotFound) || err == nil && now.Run.Run != r.Run { // another rm removed it first
		return nil
	}
	if err != nil {
		return err
	}
	if now.Run.Attempts != r.Record.Attempts || now.Run.State == store.RunRunning && Alive(now, event.Now()) {
		return fail.Hint(errors.New("another process has changed it in the meantime"), "swarm ls "+r.Run)
	}
	if root != nil && store.ValidRun(r.Run) {
		if !Elsewhere(now.Run) {
			if _, err := SweepRun(ctx, o.Home.Run(r.Run)); err != nil {
				return fmt.Errorf("end its leftover processes: %w", err)
			}
		}
		if err := files.Remove(root, r.Run); err != nil {
			return o.Home.Error(err)
		}
	}
	if x.Removed = o.FilesOnly; o.FilesOnly {
		return nil
	}
	x.DatabaseBytes, err = records.remove(ctx, r.Run)
	x.Removed = err == nil
	return err
}

// records is the database. It stays open for reading only until the first removal of a record: on a full disk it
// can be written only after files are gone.
type records struct {
	home   layout.Home
	logger *slog.Logger
	reader *store.Reader
	store  *store.Store
}

func (r *records) open(ctx context.Context) (_ *store.Reader, err error) {
	if r.reader == nil {
		r.reader, err = store.OpenReader(ctx, r.home.Database())
	}
	return r.reader, err
}

func (r *records) remove(ctx context.Context, run string) (freed int64, err error) {
	if r.store == nil {
		if r.store, err = store.Open(ctx, r.home.Database(), store.Options{Warn: store.LogNews(r.logger)}); err != nil {
			return 0, err
		}
	}
	freed, err = r.store.RemoveRun(ctx, run)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return freed, err
}

func (r *records) close() (err error) {
	if r.reader != nil {
		err = r.reader.Close()
	}
	if r.store != nil {
		err = errors.Join(err, r.store.Close())
	}
	return err
}
