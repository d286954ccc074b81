package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/export"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

type exportOptions struct {
	study  studyFlags
	format string
	out    string
	tables []string
	force  bool
	output string
}

// exportDocument is `export -o json`.
type exportDocument struct {
	Path   string        `json:"path"`
	Format string        `json:"format"`
	Runs   int           `json:"runs"`
	Files  []export.File `json:"files"`
}

func newExportCommand(g *globals) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export [EXPERIMENT, RUN or JOB...]",
		Short: "Write what is recorded as CSV, JSON lines, TensorBoard event files or a small database",
		Long: "export writes the recorded runs and jobs (all, or those named) for other programs. csv and jsonl write one file for each table, with\n" +
			"the columns and units of docs/METRICS.md and every digit:\n" + strings.Join(store.Tables(), ", ") + ".\n" +
			"What isn't a number is an empty cell, or null. In csv, text that begins with = + - @ ' a tab or CR has one ' before it, for spreadsheets\n" +
			"would run it as a formula; take that ' away to have the text itself. tensorboard writes a log folder for each node, RUN/NODE, and\n" +
			"RUN/swarm for the mean over nodes and the held-out evaluations; steps are rounds, tags are TRL's where it has them. sqlite writes one file,\n" +
			"compressed where its name ends in .gz: a database with what statistics and figures of the runs need, which report, compare and curve\n" +
			"read with --database. Runs may be going on.",
		Example: "  swarm export --out results\n" +
			"  swarm export 4loc4ext --format jsonl --table rounds | jq .reward\n" +
			"  swarm export --format tensorboard --out tb && tensorboard --logdir tb\n" +
			"  swarm export 8loc0ext 4loc4ext --format sqlite --out sharing.db.gz && swarm report --database sharing.db.gz",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExport(cmd.Context(), g, args, &o, cmd.Flags())
		},
	}
	f := cmd.Flags()
	o.study.add(f)
	f.StringVar(&o.format, "format", export.FormatCSV, strings.Join(export.Formats(), ", "))
	f.StringVar(&o.out, "out", "", "`folder` to write to; of one table also a file that ends like its format, or - for stdout (default: stdout for one table); of sqlite a file")
	f.StringSliceVar(&o.tables, "table", nil, "`tables` to write (default: all), such as rounds,tasks,evals")
	f.BoolVar(&o.force, "force", false, "write into a folder that isn't empty and no export; what it holds stays, but for files of the same names; of sqlite replace the file")
	addOutputFlag(f, &o.output)
	return cmd
}

// toFile tells whether --out names a file rather than a folder.
func (o *exportOptions) toFile() bool {
	return o.oneTable() && (o.out == "-" || strings.EqualFold(filepath.Ext(o.out), "."+o.format))
}

// oneTable tells whether a single table is written, as text.
func (o *exportOptions) oneTable() bool {
	return len(o.tables) == 1 && (o.format == export.FormatCSV || o.format == export.FormatJSONL)
}

// namesFile tells whether --out looks like a file where only a folder can be written: nobody wants a folder named rounds.csv.
func (o *exportOptions) namesFile() bool {
	if o.toFile() || o.format == export.FormatSQLite {
		return false
	}
	if info, err := os.Stat(o.out); err == nil && info.IsDir() {
		return false
	}
	return slices.Contains([]string{".csv", ".json", ".jsonl"}, strings.ToLower(filepath.Ext(o.out)))
}

// written names what is written, in a few words.
func (o *exportOptions) written() string {
	switch o.format {
	case export.FormatSQLite:
		return "database"
	case export.FormatTensorBoard:
		return "event files"
	}
	return "tables"
}

// elsewhere is the command that names a place to write to.
func (o *exportOptions) elsewhere() string {
	switch o.format {
	case export.FormatSQLite:
		return "swarm export --format sqlite --out swarm-export.db.gz"
	case export.FormatCSV:
		return "swarm export --out swarm-export"
	}
	return "swarm export --format " + o.format + " --out swarm-export"
}

func (o *exportOptions) check() error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	switch {
	case !slices.Contains(export.Formats(), o.format):
		return &configs.Error{Key: "format", Value: o.format, Allowed: strings.Join(export.Formats(), ", ")}
	case o.format == export.FormatSQLite && len(o.tables) > 0:
		return fail.Usage(errors.New("--table is for csv and jsonl: a database has the tables that statistics need"), "swarm export --format sqlite without it")
	case o.format == export.FormatTensorBoard && len(o.tables) > 0:
		return fail.Usage(errors.New("--table is for csv and jsonl: event files hold curves"), "swarm export --format tensorboard without it")
	case o.out == "":
		return fail.Usage(fmt.Errorf("--out is missing: it says where to write the %s", o.written()), o.elsewhere())
	case o.out == "-" && !o.toFile():
		return fail.Usage(errors.New("--out - writes one table, as csv or jsonl"), "swarm export --table rounds --out -")
	case o.namesFile():
		return fail.Usage(fmt.Errorf("--out %s is a file's name: a file holds one table, and ends like its format, %s", o.out, o.format),
			"--table rounds --out rounds."+strings.Replace(o.format, export.FormatTensorBoard, "csv", 1)+", or --out FOLDER")

	case o.out == "-" && o.output == "json":
		return fail.Usage(errors.New("--out - and -o json both want stdout"), "--out FILE -o json")
	}
	var err error
	if o.tables, err = export.Tables(o.tables); err != nil {
		return &configs.Error{Key: "table", Value: strings.Join(o.tables, ","), Allowed: strings.Join(store.Tables(), ", ") + ", tasks, questions"}
	}
	return nil
}

func runExport(ctx context.Context, g *globals, names []string, o *exportOptions, flags *pflag.FlagSet) error {
	var study stats.CompareOptions
	if err := o.study.apply(&study, names, flags, "swarm export"); err != nil {
		return err
	}
	if !flags.Changed("out") && o.oneTable() && o.output != "json" {
		o.out = "-"
	}
	toFile := o.toFile()
	asked := o.tables
	if err := o.check(); err != nil {
		var bad *configs.Error
		if errors.As(err, &bad) && bad.Key == "table" {
			bad.Value = strings.Join(asked, ",")
		}
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	if study.Study != nil {
		if names, err = recordedOf(ctx, reader, study.Study.Experiments()); err != nil {
			return err
		}
		if len(names) == 0 {
			return o.study.none()
		}
	}
	runs, jobs, err := chosenRuns(ctx, reader, names)
	if err != nil {
		return err
	}
	if (o.format == export.FormatTensorBoard || o.format == export.FormatSQLite) && len(runs) == 0 {
		return fail.Usage(fmt.Errorf("%s holds runs, and these are jobs", o.format), "swarm export --format csv")
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	if o.out == "-" {
		_, err := export.Table(ctx, reader, g.stdout, o.format, o.tables[0], runs, jobs...)
		return interrupt.Exit(ctx, err)
	}
	var files []export.File
	switch {
	case toFile:
		files, err = export.TableFile(ctx, reader, o.out, o.format, o.tables[0], runs, jobs...)
	case o.format == export.FormatSQLite:
		files, err = export.Database(ctx, reader, o.out, runs, o.force)
	default:
		files, err = export.Folder(ctx, reader, o.out, export.Options{Format: o.format, Runs: runs, Jobs: jobs, Tables: o.tables, Force: o.force})
	}
	var foreign *export.ForeignError
	var reason *fs.PathError
	switch {
	case errors.As(err, &foreign) && foreign.File != "":
		return fail.Hint(err, "another --out, or --force to replace it; the database that is read is never replaced")
	case errors.As(err, &foreign):
		return fail.Hint(err, "another --out, or --force to write beside what is there")
	case errors.As(err, &reason):
		return fail.Hint(fmt.Errorf("can't write %s: %w", o.out, reason.Err), "another --out")
	case err != nil:
		return interrupt.Exit(ctx, err)
	}
	return tellExport(g.stdout, o, files, len(runs))
}

// recordedOf are those of the experiments that have a run.
func recordedOf(ctx context.Context, reader *store.Reader, experiments []string) ([]string, error) {
	runs, err := reader.Runs(ctx, store.Filter{Experiments: experiments})
	return slices.DeleteFunc(slices.Clone(experiments), func(name string) bool {
		return !slices.ContainsFunc(runs, func(t store.Totals) bool { return t.Experiment == name })
	}), err
}

// chosenRuns are the runs of those names, experiments' or their own, and the keys of the jobs of those names, oldest first; of no name all.
func chosenRuns(ctx context.Context, reader *store.Reader, names []string) (runs []store.Run, jobs []string, err error) {
	all, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return nil, nil, err
	}
	allJobs, err := reader.Jobs(ctx, store.JobFilter{Names: names})
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		isRun := slices.ContainsFunc(all, func(t store.Totals) bool { return name == t.Run.Run || name == t.Experiment })
		isJob := slices.ContainsFunc(allJobs, func(j store.Job) bool { return name == j.Job || name == j.Name })
		if !isRun && !isJob {
			return nil, nil, lifecycle.NotFound(store.ErrNotFound, name)
		}
	}
	if len(all) == 0 && len(allJobs) == 0 {
		return nil, nil, lifecycle.NotFound(store.ErrNotFound, "")
	}
	for _, t := range all {
		if len(names) == 0 || slices.Contains(names, t.Run.Run) || slices.Contains(names, t.Experiment) {
			runs = append(runs, t.Run)
		}
	}
	for _, j := range slices.Backward(allJobs) {
		jobs = append(jobs, j.Job)
	}
	return runs, jobs, nil
}

func tellExport(w io.Writer, o *exportOptions, files []export.File, runs int) error {
	if o.output == "json" {
		path, err := filepath.Abs(o.out)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		return writeJSON(w, exportDocument{path, o.format, runs, files})
	}
	var text bytes.Buffer
	rows, size := 0, int64(0)
	for _, f := range files {
		rows += f.Rows
		size += f.Bytes
		if o.format != export.FormatTensorBoard {
			fmt.Fprintf(&text, "%-24s %8d rows\n", f.Path, f.Rows)
		}
	}
	what := "rows"
	if o.format == export.FormatTensorBoard {
		what = "events"
	}
	fmt.Fprintf(&text, "wrote %s: runs %d, files %d, %s %d, %d kB\n", o.out, runs, len(files), what, rows, (size+500)/1000)
	_, err := w.Write(text.Bytes())
	return err
}
