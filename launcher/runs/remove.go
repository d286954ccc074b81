package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Removal removes runs, for swarm rm and swarm prune.
type Removal struct {
	Home   layout.Home
	Logger *slog.Logger
	Stdin  io.Reader // for the confirmation, with Stderr
	Stderr io.Writer

	Files  bool // keep the records
	DryRun bool
	Yes    bool // do not ask
}

// Removed is the output of rm and prune with -o json.
type Removed struct {
	DryRun     bool                `json:"dry_run"`
	FilesOnly  bool                `json:"files_only"`
	Runs       []lifecycle.Removed `json:"runs"`
	Left       []LeftRun           `json:"left"`        // selected runs that cannot be removed at the moment
	FreedBytes int64               `json:"freed_bytes"` // bytes of files; with dry_run, what a removal would free
	Remaining  int                 `json:"remaining"`   // runs that stay recorded

	meant []lifecycle.Listed // runs selected for removal
}

// LeftRun is a run that is in use.
type LeftRun struct {
	Run    string `json:"run"`
	Reason string `json:"reason"`
}

// Remove removes the runs with these names. It fails if one of them is in use.
func (o *Removal) Remove(ctx context.Context, reader *store.Reader, names []string) (*Removed, error) {
	runs, err := namedForRemoval(ctx, reader, names)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if err := lifecycle.InUse(o.Home, r); err != nil {
			return nil, err
		}
	}
	command := "rm"
	for _, name := range names {
		command += " " + shell.Quote(name)
	}
	if o.Files {
		command += " --files"
	}
	return o.remove(ctx, reader, command, runs, nil)
}

// namedForRemoval returns the runs with these names. A name that is both a run's and an experiment's means only
// that run.
func namedForRemoval(ctx context.Context, reader *store.Reader, names []string) ([]lifecycle.Listed, error) {
	for _, name := range names {
		found, ok, err := job.Named(ctx, reader, name)
		if err != nil {
			return nil, err
		}
		if ok {
			return nil, fail.Usage(errors.New(strings.TrimSpace(charset.Shown(found.Job))+" is a job of swarm run, but rm removes only runs of swarm up"), "swarm ls")
		}
	}
	all, err := lifecycle.List(ctx, reader, names, nil)
	if err != nil {
		return nil, err
	}
	isRun, wanted := map[string]bool{}, map[string]bool{}
	for _, r := range all {
		isRun[r.Run] = true
	}
	for _, name := range names {
		wanted[name] = true
	}
	var runs []lifecycle.Listed
	for _, r := range all {
		if wanted[r.Run] || wanted[r.Experiment] && !isRun[r.Experiment] {
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// remove shows the selected runs, asks, and removes them one after another. left are the selected runs that are in
// use. It may return a result together with an error. Callers must show both.
func (o *Removal) remove(ctx context.Context, reader *store.Reader, command string, runs []lifecycle.Listed, left []LeftRun) (*Removed, error) {
	ctx, interrupts := interrupt.Notify(ctx, o.Stderr, "Stopping.")
	defer interrupts.Close()
	if err := lifecycle.Measure(o.Home, runs); err != nil {
		return nil, err
	}
	if o.Files {
		runs = slices.DeleteFunc(runs, func(r lifecycle.Listed) bool { return r.Folder == nil })
	}
	d := &Removed{DryRun: o.DryRun, FilesOnly: o.Files, Runs: []lifecycle.Removed{}, Left: append([]LeftRun{}, left...)}
	if !o.DryRun && len(runs) > 0 {
		if err := o.agree(ctx, command, runs); err != nil {
			return nil, interrupt.Exit(ctx, err)
		}
	}
	removed, err := lifecycle.Removal{Home: o.Home, FilesOnly: o.Files, DryRun: o.DryRun, Logger: o.Logger}.Remove(ctx, runs)
	d.Runs = append(d.Runs, removed...)
	for _, r := range removed {
		if r.FreedBytes != nil {
			d.FreedBytes += *r.FreedBytes
		}
	}
	if all, readErr := reader.Runs(context.WithoutCancel(ctx), store.Filter{}); readErr == nil {
		d.Remaining = len(all)
		if o.DryRun && !o.Files {
			d.Remaining -= len(runs)
		}
	}
	d.meant = runs
	return d, interrupt.Exit(ctx, err)
}

// agree asks for confirmation on a terminal. Without a terminal it requires --yes.
func (o *Removal) agree(ctx context.Context, command string, runs []lifecycle.Listed) error {
	if o.Yes {
		return nil
	}
	if !screen.IsTerminal(o.Stdin) || !screen.IsTerminal(o.Stderr) {
		return fail.Usage(
			fmt.Errorf("%s asks before it removes %s, but there is no terminal to answer on", strings.Fields(command)[0], units.Plural(len(runs), "run")),
			"swarm "+command+" --yes, or --dry-run to see what would be removed")

	}
	p := screen.Page(o.Stderr)
	p.Table(Table(runs))
	if err := p.Flush(); err != nil {
		return err
	}
	what := fmt.Sprintf("Remove %s with records and files, %s?", units.Plural(len(runs), "run"), sizeOf(runs))
	if o.Files {
		what = fmt.Sprintf("Remove the files of %s, %s? The records stay, but the runs cannot continue.", units.Plural(len(runs), "run"), sizeOf(runs))
	}
	agreed, err := screen.Ask(ctx, o.Stdin, o.Stderr, what+" [y/N] ")
	if err == nil && !agreed {
		fmt.Fprintln(o.Stderr, "Nothing was removed.")
		err = fail.Exit(fail.ExitFailed)
	}
	return err
}

// sizeOf returns the total size of the runs' folders, for people.
func sizeOf(runs []lifecycle.Listed) string {
	bytes, more := int64(0), ""
	for _, r := range runs {
		switch {
		case r.SizeBytes != nil:
			bytes += *r.SizeBytes
		case r.Folder != nil:
			more = "at least "
		}
	}
	return more + units.Bytes(bytes)
}

// Print prints what was removed, what that freed and what remains.
func (d *Removed) Print(p *table.Page) {
	runs := d.meant
	if d.DryRun && len(runs) > 0 {
		p.Table(Table(runs))
	}
	removed, room := 0, int64(0)
	for _, r := range d.Runs {
		if room += r.DatabaseBytes; r.Removed {
			removed++
		}
	}
	what, verb, done := "", "Removed ", "freed"
	if d.FilesOnly {
		what = "the files of "
	}
	if d.DryRun {
		removed, verb, done = len(runs), "Would remove ", "to be freed"
	}
	switch {
	case removed > 0:
		freed := fmt.Sprintf(": %s %s.", sizeOf(runs[:len(d.Runs)]), done)
		if d.FreedBytes == 0 && !slices.ContainsFunc(runs, func(r lifecycle.Listed) bool { return r.Folder != nil }) {
			freed = ", without files."
		}
		p.Printf("%s%s%s%s", verb, what, units.Plural(removed, "run"), freed)
		if room > 0 {
			p.Printf(" The database file does not shrink, but has room for another %s.", units.Bytes(room))
		}
		p.Println()
	case len(runs) == 0 && len(d.Left) == 0:
		p.Println("Nothing to remove.")
	}
	for _, l := range d.Left {
		p.Printf("Left: %s\n", l.Reason)
	}
	switch stay := units.Plural(d.Remaining, "run"); {
	case d.FilesOnly && removed > 0 && d.DryRun:
		p.Printf("The records of all %s would stay.\n", stay)
	case d.FilesOnly && removed > 0:
		p.Printf("The records of all %s stay. A run without files cannot continue: swarm up --fresh begins a new one.\n", stay)
	case d.DryRun:
		p.Printf("%s would stay.\n", stay)
	default:
		p.Printf("%s left. swarm ls lists runs.\n", stay)
	}
}

// Removable returns the states in which rm and prune can remove a run.
func Removable() []string {
	var states []string
	for _, s := range lifecycle.States {
		if s != store.RunRunning {
			states = append(states, s)
		}
	}
	return states
}

// CheckRemovable rejects states in which no run can be removed.
func CheckRemovable(states []string) error {
	for _, s := range states {
		if s == store.RunRunning {
			return &configs.Error{Key: "state", Value: s, Allowed: strings.Join(Removable(), ", "), Source: "--state"}
		}
	}
	return lifecycle.CheckStates(states)
}
