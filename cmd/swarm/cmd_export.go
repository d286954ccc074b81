package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/export"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

type exportOptions struct {
	study   studyFlags
	request export.Request
	output  string
}

func newExportCommand(g *globals) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export [EXPERIMENT, RUN or JOB...]",
		Short: "Export runs as CSV, JSON lines, TensorBoard files or a database",
		Long: strings.Join(table.Wrap("export writes the recorded runs and jobs, all or those named, for other programs. csv and jsonl "+
			"write one file for each table, with the columns and units of docs/METRICS.md and every digit: "+strings.Join(store.Tables(), ", ")+". A "+
			"value that is not a number is an empty cell, or null.", 100), "\n") + "\n\n" +
			"In csv, text that begins with = + - @ ' a tab or CR is prefixed with ' so that spreadsheets do not\n" +
			"evaluate it. Remove that ' to get the text.\n\n" +
			"tensorboard writes a log folder for each node, RUN/NODE, and RUN/swarm for the mean over nodes and\n" +
			"the held-out evaluations. Steps are rounds, tags are TRL's names if it has them.\n\n" +
			"sqlite writes one file, compressed if its name ends in .gz: a database with what statistics and\n" +
			"figures need, which report, compare and curve read with --database. Runs may be running.",
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
	f.StringVar(&o.request.Format, "format", export.FormatCSV, strings.Join(export.Formats(), ", "))
	f.StringVar(&o.request.Out, "out", "", "`folder` to write to. For one table also a file with the format's ending, or - for stdout (the default for one table). For sqlite a file")
	f.StringSliceVar(&o.request.Tables, "table", nil, "`tables` to write (default: all), such as rounds,tasks,evals")
	f.BoolVar(&o.request.Force, "force", false, "write into a folder that is not empty and not an export, replacing files of the same names; with sqlite replace the file")
	addOutputFlag(f, &o.output)
	return cmd
}

func runExport(ctx context.Context, g *globals, names []string, o *exportOptions, flags *pflag.FlagSet) error {
	var study stats.CompareOptions
	if err := o.study.apply(&study, names, flags, "swarm export"); err != nil {
		return err
	}
	r := &o.request
	if !flags.Changed("out") && r.OneTable() && o.output != "json" {
		r.Out = "-"
	}
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if r.Out == "-" && r.ToFile() && o.output == "json" {
		return fail.Usage(errors.New("--out - and -o json both write to stdout"), "--out FILE -o json")
	}
	if err := r.Check(); err != nil {
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
	runs, jobs, unknown, err := export.Chosen(ctx, reader, names)
	if err != nil {
		return lifecycle.NotFound(err, unknown)
	}
	if (r.Format == export.FormatTensorBoard || r.Format == export.FormatSQLite) && len(runs) == 0 {
		return fail.Usage(fmt.Errorf("format %s contains only runs, but all names are jobs", r.Format), "swarm export --format csv")
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	files, err := r.Write(ctx, reader, g.stdout, runs, jobs)
	switch {
	case err != nil:
		return interrupt.Exit(ctx, err)
	case r.Out == "-":
		return nil
	case o.output == "json":
		document, err := r.Document(files, len(runs))
		if err != nil {
			return err
		}
		return writeJSON(g.stdout, document)
	}
	return r.Print(g.stdout, files, len(runs))
}

// recordedOf returns those experiments that have a run.
func recordedOf(ctx context.Context, reader *store.Reader, experiments []string) ([]string, error) {
	runs, err := reader.Runs(ctx, store.Filter{Experiments: experiments})
	return slices.DeleteFunc(slices.Clone(experiments), func(name string) bool {
		return !slices.ContainsFunc(runs, func(t store.Totals) bool { return t.Experiment == name })
	}), err
}
