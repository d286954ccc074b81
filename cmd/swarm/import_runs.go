package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// predecessorFlags tell of a predecessor's folder what it doesn't.
var predecessorFlags = []string{"name", "model", "num-train-samples", "num-transplant-trees", "num-generations", "max-rounds", "seed"}

// importRuns takes over the runs of another home's database, or of an export of it.
func importRuns(ctx context.Context, g *globals, path string, o *importOptions, flags *pflag.FlagSet) error {
	for _, name := range predecessorFlags {
		if flags.Changed(name) {
			return fail.Usage(fmt.Errorf("--%s is for the predecessor's folders: %s is a file, whose runs say it themselves", name, path),
				"swarm import "+shell.Quote(path))

		}
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	from, err := openDatabaseFile(ctx, path)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	defer from.Close()
	if from.Reads(g.home.Database()) {
		return fail.Usage(fmt.Errorf("%s is the database of this home itself", path), "swarm import --help")
	}
	runs, err := recordRuns(ctx, g, from, o.dryRun)
	var bad *store.Error
	if errors.As(err, &bad) && bad.Path == from.Name() { // the file's fault, and not this home's
		return fail.Usage(errors.New(bad.Error()), importable)
	}
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if o.output == "json" {
		err = writeJSON(g.stdout, append([]store.ImportedRun{}, runs...))
	} else {
		_, err = fmt.Fprint(g.stdout, importedText(runs, o.dryRun))
	}
	if err == nil && len(runs) == 0 {
		return fail.Hint(fmt.Errorf("import %s: it has no run", path), "swarm export --format sqlite, in the home that has them")
	}
	return err
}

func recordRuns(ctx context.Context, g *globals, from *store.Reader, dry bool) (runs []store.ImportedRun, err error) {
	database := g.home.Database()
	if _, missing := os.Stat(database); dry && errors.Is(missing, fs.ErrNotExist) { // a dry run leaves no home behind
		dir, err := os.MkdirTemp("", "swarm-import-")
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		defer os.RemoveAll(dir)
		database = filepath.Join(dir, "swarm.db")
	}
	s, err := store.Open(ctx, database, store.Options{Warn: store.LogNews(g.logger)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.ImportRuns(ctx, from, dry)
}

// importOutcomes are words for people.
var importOutcomes = map[string]string{
	store.ImportNew: "imported", store.ImportReplaced: "imported anew, for it is not as it was before", store.ImportUnchanged: "imported before",
	store.ImportOwn: "recorded here", store.ImportOlder: "imported before from a newer file, which stays",
	store.ImportGoing: "left out: it had not ended",
}

// importedText is a line a run, and how many were taken.
func importedText(runs []store.ImportedRun, dry bool) string {
	var b strings.Builder
	taken, would, did := 0, "", "imported"
	if dry {
		would, did = "would be ", "would import"
	}
	for _, r := range runs {
		what := importOutcomes[r.Outcome]
		if r.Outcome == store.ImportNew || r.Outcome == store.ImportReplaced {
			what = would + what
			taken++
		}
		name := r.Run
		switch {
		case name == "":
			name = charset.Shown(r.Source)
		case name != r.Source:
			name += " (there " + charset.Shown(r.Source) + ")"
		}
		fmt.Fprintf(&b, "%s: seed %d, %s, %d of %s, %s: %s\n", name, r.Seed, units.Plural(r.Nodes, "node"), r.RoundsDone,
			units.Plural(r.Rounds, "round"), r.State, what)
	}
	fmt.Fprintf(&b, "%s %d of %s\n", did, taken, units.Plural(len(runs), "run"))
	return b.String()
}
