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

// InUse says why a run can't be removed now; nil: it can.
func InUse(home layout.Home, r Listed) error {
	if r.State == store.RunRunning {
		where := ""
		if Elsewhere(r.Record.Run) {
			where = " on " + r.Record.Host
		}
		return fail.Hint(fmt.Errorf("%s is running%s", r.Run, where), "swarm down "+r.Run)
	}
	if !store.ValidExperiment(r.Experiment) {
		return nil // nobody can run it
	}
	var other *files.HeldError
	if errors.As(files.LookClaim(LockPath(home, r.Experiment), 0), &other) {
		return fail.Hint(
			fmt.Errorf("%s can't be removed: its experiment %s is running (process %s)", r.Run, r.Experiment, other.Holder), "swarm down "+r.Experiment)
	}
	if errors.As(files.LookClaim(SweepLockPath(home, r.Experiment), 0), &other) {
		return fail.Hint(
			fmt.Errorf("%s can't be removed: a sweep with its experiment %s is running (process %s)", r.Run, r.Experiment, other.Holder),
			"swarm rm "+r.Run+" once the sweep has ended")
	}
	return nil
}

// Removal removes runs of a home: their folders, and their records unless FilesOnly is set.
type Removal struct {
	Home      layout.Home
	FilesOnly bool
	DryRun    bool // remove nothing, and return what would be
	Logger    *slog.Logger
}

// Removed is what became of one run.
type Removed struct {
	Run           string `json:"run"`
	Experiment    string `json:"experiment"`
	State         string `json:"state"`
	Removed       bool   `json:"removed"`
	FreedBytes    *int64 `json:"freed_bytes"`    // of its folder; null: not measured
	DatabaseBytes int64  `json:"database_bytes"` // that later runs can use in the database, whose file does not shrink
}

// Remove returns what became of each run, in their order. It stops at the first failure, and between runs where ctx
// ends.
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

// remove removes a run while nobody else can have its experiment. Its files go first: a disk that is full has room for
// the database then, and a removal that is interrupted leaves a run that is still listed, which rm removes.
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
	if errors.Is(err, store.ErrNotFound) || err == nil && now.Run.Run != r.Run { // another rm was sooner
		return nil
	}
	if err != nil {
		return err
	}
	if now.Run.Attempts != r.Record.Attempts || now.Run.State == store.RunRunning && Alive(now, event.Now()) {
		return fail.Hint(errors.New("another process has worked on it meanwhile"), "swarm ls "+r.Run)
	}
	if root != nil && store.ValidRun(r.Run) {
		if !Elsewhere(now.Run) {
			if _, err := SweepRun(ctx, o.Home.Run(r.Run)); err != nil {
				return fmt.Errorf("end what it left behind: %w", err)
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

// records is the database, read until a run's record is removed: one on a full disk can be written to only once files
// are gone.
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
