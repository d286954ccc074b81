package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/figures"
	"github.com/sapo-swarm/swarm/metrics/query"
	htmlreport "github.com/sapo-swarm/swarm/metrics/report"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

type reportOptions struct {
	htmlreport.Options
	study   studyFlags
	out     string
	figures string // folder; empty: no figures
	output  string
}

func newReportCommand(g *globals) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report [EXPERIMENT...]",
		Short: "Write verdicts, curves and figures into one HTML file",
		Long: "report writes an HTML file about the recorded experiments, all or those named: the verdict, the\n" +
			"comparison with the paper's figures, rewards of every node, held-out evaluation, memory, round\n" +
			"times, out-of-memory and other events, the I/J path, differences in the configurations, the exchange\n" +
			"between nodes, time, money and energy, and how the numbers are computed. The file opens without a\n" +
			"network and can be printed. Runs may still be running: the report shows its time.\n\n" +
			"--study reports on the runs of a study and prints its verdict: which experiment is best, by how\n" +
			"much, how certain. With --per the verdict is at equal completions, tokens, time or money, also that\n" +
			"of two or more named experiments. It then needs held-out evaluations.\n\n" +
			"--figures draws the paper's figures of these runs. With --study it prints the verdict also without\n" +
			"--out.",
		Example: "  swarm report\n  swarm report 8loc0ext 4loc4ext --baseline 8loc0ext --title 'Does sharing help?' --out sharing.html\n" +
			"  swarm report --study paper\n  swarm report --measure eval --out - > report.html",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Names = args
			return runReport(cmd.Context(), g, &o, cmd.Flags())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "report.html", "`file` to write, or - for stdout; an existing file is replaced")
	f.StringVar(&o.Title, "title", "", "the report's `title` (default: the experiments' names)")
	f.StringVar(&o.Baseline, "baseline", "", baselineHelp)
	f.StringSliceVar(&o.Despite, "despite", nil, despiteHelp)
	f.StringVar(&o.By, "by", stats.ByExperiment, "what one row is: experiment, or config (runs with the same configuration except seed and name)")
	f.StringVar(&o.Measure, "measure", stats.MeasureAuto, measureHelp)
	o.study.add(f)
	f.IntVar(&o.Options.Window, "window", stats.PaperWindow, "`rounds` of the moving average of smoothed curves")
	f.StringVar(&o.Per, "per", stats.PerRounds, perHelp+"; the page can switch.\n"+
		"With --study or named experiments also what the verdict holds equal")
	f.BoolVar(&o.Single, "runs", false, "draw each run's line beside the mean over seeds; the page can switch")
	f.StringVar(&o.figures, "figures", "", "draw the paper's figures of these runs as SVG files in this `folder`; HTML is then written only with --out")
	addDatabaseFlag(f, g)
	addOutputFlag(f, &o.output)
	return cmd
}

// reportDocument is the output of `report -o json`.
type reportDocument struct {
	Path        string   `json:"path"`
	Bytes       int      `json:"bytes"`
	Experiments []string `json:"experiments"`
	Runs        int      `json:"runs"`

	Study   *stats.Study   `json:"study,omitempty"`   // with --study, or --per of named experiments
	Figures []figures.File `json:"figures,omitempty"` // with --figures
}

func (o *reportOptions) check(flags *pflag.FlagSet) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if err := checkMeasure(&o.Measure); err != nil {
		return err
	}
	switch {
	case o.out == "":
		return &configs.Error{Key: "out", Value: "", Allowed: "a file's path, or - for stdout"}
	case o.figures == "" && flags.Changed("figures"):
		return &configs.Error{Key: "figures", Value: "", Allowed: "a folder"}
	case o.out == "-" && o.output == "json":
		return fail.Usage(errors.New("--out - and -o json both write to stdout"), "swarm report --out report.html -o json")
	case !slices.Contains([]string{stats.ByExperiment, stats.ByConfig}, o.By):
		return &configs.Error{Key: "by", Value: o.By, Allowed: "experiment or config"}
	case o.Options.Window < 1 || o.Options.Window > 1_000_000:
		return &configs.Error{Key: "window", Value: fmt.Sprint(o.Options.Window), Allowed: "a whole number from 1 to 1000000"}
	}
	return query.CheckDespite(o.Despite)
}

func runReport(ctx context.Context, g *globals, o *reportOptions, flags *pflag.FlagSet) error {
	if err := o.check(flags); err != nil {
		return err
	}
	if err := o.study.apply(&o.CompareOptions.CompareOptions, o.Names, flags, "swarm report"); err != nil {
		return err
	}
	if err := perOfReport(&o.CompareOptions.CompareOptions, o.Options.Per, flags); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	o.Now, o.Alive, o.Version = event.Now(), lifecycle.Alive, version
	o.CompareOptions.Alive = func(s store.Snapshot) bool { return o.Alive(s, o.Now) }
	var drawn []figures.File
	if o.figures != "" {
		if drawn, err = writeFigures(ctx, reader, o); err != nil {
			return err
		}
		if !flags.Changed("out") {
			return o.tellFigures(ctx, g.stdout, reader, drawn)
		}
	}
	if err := o.armsPer(flags); err != nil {
		return err
	}
	made, err := htmlreport.Read(ctx, reader, o.Options)
	if err != nil {
		return o.unreadable(ctx, reader, err)
	}
	if o.study.name == "" && made.Comparison.Study != nil {
		if err := unknownArm(ctx, reader, *made.Comparison.Study); err != nil {
			return err
		}
	}
	var page bytes.Buffer
	if err := made.Write(&page); err != nil {
		return err
	}
	if o.out == "-" {
		_, err := g.stdout.Write(page.Bytes())
		return err
	}
	if err := htmlreport.Save(o.out, page.Bytes()); err != nil {
		return err
	}
	if o.output == "json" {
		path, err := filepath.Abs(o.out)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		return writeJSON(g.stdout, reportDocument{path, page.Len(), made.Experiments(), len(made.Runs), made.Comparison.Study, drawn})
	}
	if err := printFigures(g.stdout, drawn); err != nil {
		return err
	}
	if err := terminal.PrintStudy(g.stdout, made.Comparison.Study); err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.stdout, "wrote %s: runs %d, %d kB\n", o.out, len(made.Runs), (page.Len()+500)/1000)
	return err
}

// unreadable explains an error about the names of the requested runs.
func (o *reportOptions) unreadable(ctx context.Context, reader *store.Reader, err error) error {
	var unknown *query.UnknownError
	switch {
	case errors.As(err, &unknown):
		return lifecycle.UnknownExperiment(ctx, reader, unknown.Name)
	case errors.Is(err, store.ErrNotFound) && o.study.name != "":
		return o.study.none()
	case errors.Is(err, store.ErrNotFound):
		return lifecycle.NotFound(err, "")
	}
	return err
}
