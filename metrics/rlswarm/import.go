package rlswarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Outcomes of an import in addition to those of the store.
const dryRun, Nothing = "dry_run", "nothing"

// Imported reports the import of one experiment.
type Imported struct {
	Outcome string `json:"outcome"` // new, unchanged, replaced, dry_run, nothing
	*Report
}

// Import reads an experiment's folder and records it in the database, except in a dry run. It shows progress on stderr.
func Import(ctx context.Context, folder string, options Options, dry bool, database string, logger *slog.Logger, stderr io.Writer) (Imported, error) {
	done := showFiles(stderr, filepath.Base(folder), &options)
	x, report, err := Read(ctx, folder, options)
	done()
	switch {
	case errors.Is(err, ErrNothing):
		return Imported{Nothing, report}, nil
	case err != nil:
		return Imported{}, err
	case dry:
		return Imported{dryRun, report}, nil
	}
	s, err := store.Open(ctx, database, store.Options{Warn: func(err error) { logger.Warn("database", "error", err) }})
	if err != nil {
		return Imported{}, err
	}
	outcome, err := s.Import(ctx, x)
	if errors.Is(err, store.ErrNotImported) {
		err = fail.Hint(err, "another --name")
	}
	if closed := s.Close(); err == nil {
		err = closed
	}
	return Imported{outcome, report}, err
}

// showFiles shows the number of files read so far on a terminal, because reading from Google Drive is slow. The
// returned function ends the display.
func showFiles(stderr io.Writer, name string, o *Options) (done func()) {
	if !screen.IsTerminal(stderr) {
		return func() {}
	}
	shown := false
	o.Progress = func(files int) {
		shown = true
		fmt.Fprintf(stderr, "\r%s: %s", charset.Shown(name), units.Plural(files, "file"))
	}
	return func() {
		if shown {
			fmt.Fprint(stderr, "\r\x1b[K")
		}
	}
}

// Warnings prints skipped files and assumptions.
func (d Imported) Warnings(w io.Writer) {
	r := d.Report
	for _, p := range r.Problems {
		fmt.Fprintf(w, "Skipped %s\n", p)
	}
	if n := r.Skipped - len(r.Problems); n > 0 {
		fmt.Fprintf(w, "Skipped %d more\n", n)
	}
	for _, text := range r.Assumed {
		fmt.Fprintf(w, "Assumed: %s\n", charset.Shown(text))
	}
}

// Print prints what was recorded.
func (d Imported) Print(w io.Writer) {
	r := d.Report
	if d.Outcome == Nothing {
		fmt.Fprintf(w, "%s: nothing to import, because it records no round\n", charset.Shown(filepath.Base(r.Folder)))
		return
	}
	what := map[string]string{
		store.ImportNew: "imported", store.ImportUnchanged: "unchanged, imported before", store.ImportReplaced: "has changed, imported again",
		dryRun: "would be imported",
	}[d.Outcome]
	fmt.Fprintf(w, "%s: %s as run %s\n", charset.Shown(r.Experiment), what, r.Run)
	fmt.Fprintf(w, "  %s, %s planned, %s recorded: %s\n", units.Plural(r.Nodes, "node"), units.Plural(r.Rounds, "round"),
		units.Plural(r.NodeRounds, "node-round"), r.State)
	fmt.Fprintf(w, "  sums converted to means (sums kept); %d duplicate records counted once", r.Doubled)
	for _, x := range []struct {
		n    int
		text string
	}{
		{r.Replaced, "replaced by newer ones"}, {r.Disagreements, "where rewards/ and logs/ differ (the log is used)"},
		{r.FromSums, "known only from the growth of cumulative_reward"}, {r.NotNumbers, "not a number"}, {r.Untimed, "without a time"},
		{r.Errors, "errors logged by nodes"}, {r.Skipped, "files or lines skipped"},
	} {
		if x.n > 0 {
			fmt.Fprintf(w, "; %d %s", x.n, x.text)
		}
	}
	fmt.Fprintln(w)
}
