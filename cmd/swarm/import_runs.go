package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// predecessorFlags tell of a predecessor's folder what it doesn't.
var predecessorFlags = []string{"name", "model", "num-train-samples", "num-transplant-trees", "num-generations", "max-rounds", "seed"}

// importRuns takes over the runs of another home's database, or of an export of it.
func importRuns(ctx context.Context, g *globals, path string, o *importOptions, flags *pflag.FlagSet) error {
	for _, name := range predecessorFlags {
		if flags.Changed(name) {
			return &usageError{fmt.Errorf("--%s is for the predecessor's folders: %s is a database, whose runs say it themselves", name, path),
				"swarm import " + shellWord(path)}
		}
	}
	from, err := store.OpenFile(ctx, path)
	if err != nil {
		var reason *fs.PathError
		if errors.As(err, &reason) {
			err = fmt.Errorf("can't read %s: %w", path, reason.Err)
		}
		return &usageError{err, importable}
	}
	defer from.Close()
	if from.Reads(g.database()) {
		return &usageError{fmt.Errorf("%s is the database of this home itself", path), "swarm import --help"}
	}
	ctx, interrupts := watchSignals(ctx, g.stderr, "Stopping.")
	defer interrupts.close()
	runs, err := recordRuns(ctx, g, from, o.dryRun)
	var bad *store.Error
	switch {
	case ctx.Err() != nil:
		return stoppedBy(ctx, err)
	case errors.As(err, &bad):
		return &usageError{err, "another file"}
	case err != nil:
		return err
	}
	if o.output == "json" {
		if err := writeJSON(g.stdout, runs); err != nil {
			return err
		}
	} else {
		fmt.Fprint(g.stdout, importedText(runs, o.dryRun))
	}
	if len(runs) == 0 {
		return &hintError{fmt.Errorf("import %s: it has no run", path), "swarm export --format sqlite, in the home that has them"}
	}
	return nil
}

func recordRuns(ctx context.Context, g *globals, from *store.Reader, dry bool) (runs []store.ImportedRun, err error) {
	database := g.database()
	if _, missing := os.Stat(database); dry && errors.Is(missing, fs.ErrNotExist) {
		dir, err := os.MkdirTemp("", "swarm-import-")
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		defer os.RemoveAll(dir)
		database = dir + "/swarm.db" // a dry run leaves no home behind
	}
	s, err := store.Open(ctx, database, store.Options{Warn: databaseNews(g.logger)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.ImportRuns(ctx, from, dry)
}

// importedText is a line a run, and what to do with them.
func importedText(runs []store.ImportedRun, dry bool) string {
	var b strings.Builder
	taken := map[string]int{}
	for _, r := range runs {
		what := map[string]string{
			store.ImportNew: "imported", store.ImportReplaced: "has gone on since, imported anew", store.ImportUnchanged: "imported before",
			store.ImportOwn: "recorded here", store.ImportOlder: "imported before from a newer file, which stays",
			store.ImportGoing: "left out: it had not ended",
		}[r.Outcome]
		taken[r.Outcome]++
		if dry && (r.Outcome == store.ImportNew || r.Outcome == store.ImportReplaced) {
			what = "would be " + what
		}
		name := r.Run
		if r.Source != r.Run && name != "" {
			name += " (there " + printable(r.Source) + ")"
		} else if name == "" {
			name = printable(r.Source)
		}
		fmt.Fprintf(&b, "%s: seed %d, %d nodes, %d of %d rounds, %s: %s\n", name, r.Seed, r.Nodes, r.RoundsDone, r.Rounds, r.State, what)
	}
	verb := "imported"
	if dry {
		verb = "to import"
	}
	fmt.Fprintf(&b, "%s %d of %d runs\n", verb, taken[store.ImportNew]+taken[store.ImportReplaced], len(runs))
	return b.String()
}
