package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// removal is what rm and prune have in common.
type removal struct {
	files  bool // the records stay
	dryRun bool
	yes    bool
	output string
}

func (o *removal) add(f *pflag.FlagSet) {
	f.BoolVar(&o.files, "files", false, "remove folders only (checkpoints, journals, logs) and keep the records: compare, curve and report still show the runs")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be removed, and remove nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	addOutputFlag(f, &o.output)
}

// removeDocument is `-o json` of rm and prune.
type removeDocument struct {
	DryRun     bool         `json:"dry_run"`
	FilesOnly  bool         `json:"files_only"`
	Runs       []removedRun `json:"runs"`
	Left       []leftRun    `json:"left"`        // that were meant and can't be removed now
	FreedBytes int64        `json:"freed_bytes"` // of files; with dry_run what would be
	Remaining  int          `json:"remaining"`   // runs that stay recorded
}

type removedRun struct {
	Run           string `json:"run"`
	Experiment    string `json:"experiment"`
	State         string `json:"state"`
	Removed       bool   `json:"removed"`
	FreedBytes    *int64 `json:"freed_bytes"`    // of its folder; null: not measured
	DatabaseBytes int64  `json:"database_bytes"` // that later runs can use in the database, whose file does not shrink
}

// leftRun is a run that is in use.
type leftRun struct {
	Run    string `json:"run"`
	Reason string `json:"reason"`
}

// inUse says why a run can't be removed now; nil: it can.
func (g *globals) inUse(r listedRun) error {
	if r.State == store.RunRunning {
		where := ""
		if elsewhere(r.record.Run) {
			where = " on " + r.record.Host
		}
		return fail.Hint(fmt.Errorf("%s is running%s", r.Run, where), "swarm down "+r.Run)
	}
	if !store.ValidExperiment(r.Experiment) {
		return nil // nobody can run it
	}
	var other *files.HeldError
	if errors.As(files.LookClaim(lockPath(g.home, r.Experiment), 0), &other) {
		return fail.Hint(
			fmt.Errorf("%s can't be removed: its experiment %s is running (process %s)", r.Run, r.Experiment, other.Holder), "swarm down "+r.Experiment)

	}
	if errors.As(files.LookClaim(sweepLockPath(g.home, r.Experiment), 0), &other) {
		return fail.Hint(
			fmt.Errorf("%s can't be removed: a sweep with its experiment %s is running (process %s)", r.Run, r.Experiment, other.Holder),
			"swarm rm "+r.Run+" once the sweep has ended")

	}
	return nil
}

// remove shows what would go, asks, and removes runs, one after the other. left are those that were meant and are in use.
func (o *removal) remove(ctx context.Context, g *globals, reader *store.Reader, command string, runs []listedRun, left []leftRun) error {
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	if err := g.measure(runs); err != nil {
		return err
	}
	if o.files {
		runs = slices.DeleteFunc(runs, func(r listedRun) bool { return r.Folder == nil })
	}
	d := removeDocument{DryRun: o.dryRun, FilesOnly: o.files, Runs: []removedRun{}, Left: append([]leftRun{}, left...)}
	if !o.dryRun && len(runs) > 0 {
		if err := o.agree(ctx, g, command, runs); err != nil {
			return interrupt.Exit(ctx, err)
		}
	}
	err := o.removeAll(ctx, g, runs, &d)
	if all, readErr := reader.Runs(context.WithoutCancel(ctx), store.Filter{}); readErr == nil {
		d.Remaining = len(all)
		if o.dryRun && !o.files {
			d.Remaining -= len(runs)
		}
	}
	return interrupt.Exit(ctx, errors.Join(d.show(g, o, runs), err))
}

// agree asks on a terminal, and elsewhere wants --yes.
func (o *removal) agree(ctx context.Context, g *globals, command string, runs []listedRun) error {
	if o.yes {
		return nil
	}
	if !screen.IsTerminal(g.stdin) || !screen.IsTerminal(g.stderr) {
		return fail.Usage(
			fmt.Errorf("%s asks before it removes %s, and here is no terminal to answer at", strings.Fields(command)[0], units.Plural(len(runs), "run")),
			"swarm "+command+" --yes, or --dry-run to see what would go")

	}
	p := screen.Page(g.stderr)
	p.Table(runsTable(runs))
	if err := p.Flush(); err != nil {
		return err
	}
	what := fmt.Sprintf("Remove %s with records and files, %s?", units.Plural(len(runs), "run"), sizeOf(runs))
	if o.files {
		what = fmt.Sprintf("Remove the files of %s, %s? The records stay; the runs cannot go on.", units.Plural(len(runs), "run"), sizeOf(runs))
	}
	agreed, err := ask(ctx, g.stdin, g.stderr, what+" [y/N] ")
	if err == nil && !agreed {
		fmt.Fprintln(g.stderr, "Nothing was removed.")
		err = fail.Exit(fail.ExitFailed)
	}
	return err
}

// sizeOf is what the folders of runs take, for people.
func sizeOf(runs []listedRun) string {
	bytes, more := int64(0), ""
	for _, r := range runs {
		switch {
		case r.SizeBytes != nil:
			bytes += *r.SizeBytes
		case r.Folder != nil:
			more = "at least "
		}
	}
	return more + gb(bytes)
}

// removeAll fills in d with what became of each run. It stops at the first failure and between runs where ctx ends.
func (o *removal) removeAll(ctx context.Context, g *globals, runs []listedRun, d *removeDocument) (err error) {
	root, err := g.runsRoot()
	if err != nil {
		return g.home.Error(err)
	}
	if root != nil {
		defer root.Close()
		if !o.dryRun {
			if err := files.EmptyAside(root); err != nil {
				return g.home.Error(err)
			}
		}
	}
	records := &records{g: g}
	defer func() { err = errors.Join(err, records.close()) }()
	for _, r := range runs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		x := removedRun{Run: r.Run, Experiment: r.Experiment, State: r.State, FreedBytes: r.SizeBytes}
		if r.Folder == nil {
			x.FreedBytes = new(int64)
		}
		if !o.dryRun {
			if err := o.removeOne(ctx, g, root, records, r, &x); err != nil {
				return fmt.Errorf("remove %s: %w", r.Run, err)
			}
		}
		d.Runs = append(d.Runs, x)
		if x.FreedBytes != nil {
			d.FreedBytes += *x.FreedBytes
		}
	}
	return nil
}

// removeOne removes a run while nobody else can have its experiment. Its files go first: a disk that is full has room for the database then, and a
// removal that is interrupted leaves a run that is still listed, which rm removes.
func (o *removal) removeOne(ctx context.Context, g *globals, root *os.Root, records *records, r listedRun, x *removedRun) error {
	if store.ValidExperiment(r.Experiment) {
		lock, err := lockExperiment(g.home, r.Experiment)
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
	if now.Run.Attempts != r.record.Attempts || now.Run.State == store.RunRunning && coordinatorAlive(now, event.Now()) {
		return fail.Hint(errors.New("another process has worked on it meanwhile"), "swarm ls "+r.Run)
	}
	if root != nil && store.ValidRun(r.Run) {
		if !elsewhere(now.Run) {
			if _, err := sweepRun(ctx, g.home.Run(r.Run)); err != nil {
				return fmt.Errorf("end what it left behind: %w", err)
			}
		}
		if err := files.Remove(root, r.Run); err != nil {
			return g.home.Error(err)
		}
	}
	if x.Removed = o.files; o.files {
		return nil
	}
	x.DatabaseBytes, err = records.remove(ctx, r.Run)
	x.Removed = err == nil
	return err
}

// records is the database, read until a run's record is removed: one on a full disk can be written to only once files are gone.
type records struct {
	g      *globals
	reader *store.Reader
	store  *store.Store
}

func (r *records) open(ctx context.Context) (_ *store.Reader, err error) {
	if r.reader == nil {
		r.reader, err = store.OpenReader(ctx, r.g.home.Database())
	}
	return r.reader, err
}

func (r *records) remove(ctx context.Context, run string) (freed int64, err error) {
	if r.store == nil {
		if r.store, err = store.Open(ctx, r.g.home.Database(), store.Options{Warn: databaseNews(r.g.logger)}); err != nil {
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

// show tells what was removed, what is freed and what stays.
func (d removeDocument) show(g *globals, o *removal, runs []listedRun) error {
	if o.output == "json" {
		return writeJSON(g.stdout, d)
	}
	p := screen.Page(g.stdout)
	if o.dryRun && len(runs) > 0 {
		p.Table(runsTable(runs))
	}
	removed, room := 0, int64(0)
	for _, r := range d.Runs {
		if room += r.DatabaseBytes; r.Removed {
			removed++
		}
	}
	what, verb, done := "", "Removed ", "freed"
	if o.files {
		what = "the files of "
	}
	if o.dryRun {
		removed, verb, done = len(runs), "Would remove ", "to be freed"
	}
	switch {
	case removed > 0:
		freed := fmt.Sprintf(": %s %s.", sizeOf(runs[:len(d.Runs)]), done)
		if d.FreedBytes == 0 && !slices.ContainsFunc(runs, func(r listedRun) bool { return r.Folder != nil }) {
			freed = ", without files."
		}
		p.Printf("%s%s%s%s", verb, what, units.Plural(removed, "run"), freed)
		if room > 0 {
			p.Printf(" The database has room for %s more in its file, which does not shrink.", gb(room))
		}
		p.Println()
	case len(runs) == 0 && len(d.Left) == 0:
		p.Println("Nothing to remove.")
	}
	for _, l := range d.Left {
		p.Printf("Left: %s\n", l.Reason)
	}
	switch stay := units.Plural(d.Remaining, "run"); {
	case o.files && removed > 0 && o.dryRun:
		p.Printf("The records of all %s would stay.\n", stay)
	case o.files && removed > 0:
		p.Printf("The records of all %s stay. A run without files cannot go on: swarm up --fresh begins a new one.\n", stay)
	case o.dryRun:
		p.Printf("%s would stay.\n", stay)
	default:
		p.Printf("%s left. swarm ls lists runs.\n", stay)
	}
	return p.Flush()
}

// removable are the states that rm and prune may find a run in.
func removable() []string {
	var states []string
	for _, s := range runStates {
		if s != store.RunRunning {
			states = append(states, s)
		}
	}
	return states
}

// checkRemovable refuses states that no run to be removed has.
func checkRemovable(states []string) error {
	for _, s := range states {
		if s == store.RunRunning {
			return &configs.Error{Key: "state", Value: s, Allowed: strings.Join(removable(), ", "), Source: "--state"}
		}
	}
	return checkStates(states)
}
