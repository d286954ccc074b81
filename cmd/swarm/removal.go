package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
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
	DryRun     bool                `json:"dry_run"`
	FilesOnly  bool                `json:"files_only"`
	Runs       []lifecycle.Removed `json:"runs"`
	Left       []leftRun           `json:"left"`        // that were meant and can't be removed now
	FreedBytes int64               `json:"freed_bytes"` // of files; with dry_run what would be
	Remaining  int                 `json:"remaining"`   // runs that stay recorded
}

// leftRun is a run that is in use.
type leftRun struct {
	Run    string `json:"run"`
	Reason string `json:"reason"`
}

// remove shows what would go, asks, and removes runs, one after the other. left are those that were meant and are in use.
func (o *removal) remove(ctx context.Context, g *globals, reader *store.Reader, command string, runs []lifecycle.Listed, left []leftRun) error {
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	if err := lifecycle.Measure(g.home, runs); err != nil {
		return err
	}
	if o.files {
		runs = slices.DeleteFunc(runs, func(r lifecycle.Listed) bool { return r.Folder == nil })
	}
	d := removeDocument{DryRun: o.dryRun, FilesOnly: o.files, Runs: []lifecycle.Removed{}, Left: append([]leftRun{}, left...)}
	if !o.dryRun && len(runs) > 0 {
		if err := o.agree(ctx, g, command, runs); err != nil {
			return interrupt.Exit(ctx, err)
		}
	}
	removed, err := lifecycle.Removal{Home: g.home, FilesOnly: o.files, DryRun: o.dryRun, Logger: g.logger}.Remove(ctx, runs)
	d.Runs = append(d.Runs, removed...)
	for _, r := range removed {
		if r.FreedBytes != nil {
			d.FreedBytes += *r.FreedBytes
		}
	}
	if all, readErr := reader.Runs(context.WithoutCancel(ctx), store.Filter{}); readErr == nil {
		d.Remaining = len(all)
		if o.dryRun && !o.files {
			d.Remaining -= len(runs)
		}
	}
	return interrupt.Exit(ctx, errors.Join(d.show(g, o, runs), err))
}

// agree asks on a terminal, and elsewhere wants --yes.
func (o *removal) agree(ctx context.Context, g *globals, command string, runs []lifecycle.Listed) error {
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
	agreed, err := screen.Ask(ctx, g.stdin, g.stderr, what+" [y/N] ")
	if err == nil && !agreed {
		fmt.Fprintln(g.stderr, "Nothing was removed.")
		err = fail.Exit(fail.ExitFailed)
	}
	return err
}

// sizeOf is what the folders of runs take, for people.
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

// show tells what was removed, what is freed and what stays.
func (d removeDocument) show(g *globals, o *removal, runs []lifecycle.Listed) error {
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
		if d.FreedBytes == 0 && !slices.ContainsFunc(runs, func(r lifecycle.Listed) bool { return r.Folder != nil }) {
			freed = ", without files."
		}
		p.Printf("%s%s%s%s", verb, what, units.Plural(removed, "run"), freed)
		if room > 0 {
			p.Printf(" The database has room for %s more in its file, which does not shrink.", units.Bytes(room))
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
	for _, s := range lifecycle.States {
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
	return lifecycle.CheckStates(states)
}
