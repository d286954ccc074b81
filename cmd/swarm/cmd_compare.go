package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// Exit codes of `compare --gate`.
const (
	exitWorse     = 5
	exitUndecided = 6
)

type compareOptions struct {
	query.CompareOptions
	study   studyFlags
	per     perFlags
	seeds   string
	target  float64
	window  int
	min     string
	columns []string
	csv     string
	gate    bool
	despite []string
	output  string
}

func newCompareCommand(g *globals) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare [EXPERIMENT... or JOB...]",
		Short: "Say which experiment is better, by how much, and how certain",
		Long: "compare shows the recorded experiments, all or those named: cumulative reward, improvement over the\n" +
			"baseline beside the paper's figures for the same I/J, and a verdict: better, worse, undecided with\n" +
			"what is missing, or not comparable. The baseline is --baseline, else the experiment that\n" +
			"trains alone (docs/METRICS.md has the order). Without a baseline rows are ranked and nothing is\n" +
			"decided.\n\n" +
			"Verdicts and 95 % intervals are over seeds, never over the nodes of one swarm. A permutation test\n" +
			"(exact up to eight seeds a side) and Welch's test must both decide, corrected by Holm's method for\n" +
			"several comparisons. One comparison takes four seeds a side, or three against four. Six take five. If\n" +
			"an experiment has finished runs, its other runs do not count. A second interval is over seeds and held-out questions.\n\n" +
			"Two rows are compared over the rounds that all runs of both have. Each verdict names the settings in\n" +
			"which they differ. If a setting other than the one under study could explain the result, the rows\n" +
			"are not comparable, unless --despite names it. docs/METRICS.md has the rule.\n\n" +
			"--target R shows how long, and for how much money, experiments took until the moving average of the\n" +
			"reward reached R: medians over runs. Runs that never reached it count as slowest.\n\n" +
			"--gate is for scripts. With two experiments the exit code is 0 if the other is better than the\n" +
			"baseline, 5 if it is worse, 6 if that is undecided or they are not comparable, 2 without two\n" +
			"experiments or a baseline, 1 on failure.\n\n" +
			"--study compares the runs of a study, each with each. Its verdict comes first: which is best, by how\n" +
			"much, how certain. Failed, unfinished and missing runs are listed and do not count.\n\n" +
			"--seeds 45,46,47,48 compares only these seeds. After a look at a verdict only fresh seeds decide, and\n" +
			"a study can name the explored ones: they are shown and decide nothing.\n\n" +
			"--per completions, tokens, engine-seconds, seconds or money compares held-out pass@K of a study, or of\n" +
			"named experiments, at equal cost: at the largest amount that all runs reached. It also prints pass@K\n" +
			"and the differences at the places of --at, or at default ones. --target R is then a pass@K, and the\n" +
			"cost of reaching it. Times are comparable only for runs made side by side on one machine.\n\n" +
			"Named jobs of `swarm run` are put side by side: attempts, batch size, memory peaks, time.\n\nColumns: " + terminal.ComparisonColumns() + ".",
		Example: "  swarm compare\n  swarm compare 8loc0ext 4loc4ext --baseline 8loc0ext --gate\n  swarm compare --by config --measure eval\n" +
			"  swarm compare --study paper\n  swarm compare --study corrected --per completions --at 12.8k,38.4k\n  swarm compare --target 0.3 --top 3 --csv compare.csv",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), g, args, &o, cmd.Flags())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Baseline, "baseline", "", baselineHelp)
	f.StringVar(&o.By, "by", stats.ByExperiment, "what one row is: experiment, or config (runs with the same configuration except seed and name)")
	f.StringVar(&o.seeds, "seeds", "", "compare only these `seeds`: 45,46,47,48")
	f.StringVar(&o.Measure, "measure", stats.MeasureAuto, measureHelp)
	o.study.add(f)
	o.per.add(f)
	f.Float64Var(&o.target, "target", 0, "show the rounds, hours, money and energy until the moving average reached this `reward` per node and round.\n"+
		"With --study: the cost of this held-out pass@1 on the axis of --per")
	f.IntVar(&o.window, "window", stats.PaperWindow, "`rounds` of the moving average that must reach --target")
	f.StringVar(&o.min, "min", "", "leave out rows with less `improvement` over the baseline: 0.1 or 10%")
	f.IntVar(&o.Top, "top", 0, "show only the `N` best rows, best first, below the baseline")
	f.BoolVar(&o.Pairs, "pairs", false, "a verdict on every pair, not only against the baseline")
	f.BoolVar(&o.Tasks, "tasks", false, "also show rewards and held-out pass@1 by task")
	f.StringSliceVar(&o.columns, "columns", nil, "`names` of the columns to show, or to write")
	f.StringVar(&o.csv, "csv", "", "write the rows as CSV to a `file`, - for stdout, all columns unless --columns chooses")
	f.BoolVar(&o.gate, "gate", false, "exit with the verdict on two experiments: 0 better, 5 worse, 6 undecided or not comparable")
	f.StringSliceVar(&o.despite, "despite", nil, despiteHelp)
	addDatabaseFlag(f, g)
	addOutputFlag(f, &o.output)
	return cmd
}

// Help texts of flags that report has, too.
const (
	baselineHelp = "`experiment` to compare with (default: the one that trains alone)"
	despiteHelp  = "compare rows despite differences in these `settings`, such as nodes,model"
)

// measureHelp is the help of --measure.
const measureHelp = "what decides: auto (pass where every seed of both sides has it, else reward), reward (while training),\n" +
	"or on held-out questions: eval (mean reward), pass (pass@1), pass@K, swarm-pass@K\n(of all nodes' completions together)"

// checkMeasure checks the value of --measure, and replaces pass@1 by pass.
func checkMeasure(measure *string) error {
	parsed, ok := stats.ParseMeasure(*measure)
	if !ok {
		return &configs.Error{Key: "measure", Value: *measure, Allowed: wording.MeasureNames}
	}
	*measure = parsed
	return nil
}

func runCompare(ctx context.Context, g *globals, names []string, o *compareOptions, flags *pflag.FlagSet) error {
	if err := o.check(flags); err != nil {
		return err
	}
	if err := o.study.apply(&o.CompareOptions.CompareOptions, names, flags, "swarm compare"); err != nil {
		return err
	}
	if err := o.per.asArms(&o.CompareOptions.CompareOptions, names, flags); err != nil {
		return err
	}
	if err := o.chooseSeeds(); err != nil {
		return err
	}
	if err := o.per.apply(&o.CompareOptions.CompareOptions, o.study.name, flags); err != nil {
		return err
	}
	o.Names = names
	o.Bootstrap, o.Questions = true, true
	o.Alive = func(s store.Snapshot) bool { return lifecycle.Alive(s, event.Now()) }
	reader, err := g.openReader(ctx)
	if o.gate && errors.Is(err, store.ErrNoDatabase) {
		return fail.Usage(err, fail.Remedy(err)) // there are no two experiments
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	jobs, err := job.ToCompare(ctx, reader, names)
	if err != nil {
		return err
	}
	if len(jobs) > 0 {
		return o.compareJobs(g, jobs, flags)
	}
	comparison, err := query.Compare(ctx, reader, o.CompareOptions)
	var unknown *query.UnknownError
	if errors.As(err, &unknown) {
		return lifecycle.UnknownExperiment(ctx, reader, unknown.Name)
	}
	if err != nil {
		return err
	}
	if o.study.name == "" && comparison.Study != nil {
		err = unknownArm(ctx, reader, *comparison.Study)
	} else {
		err = o.study.nothingOf(comparison.Study)
	}
	if err != nil {
		return err
	}
	if err := o.checkRows(comparison); err != nil {
		return err
	}
	if err := o.write(g.stdout, comparison); err != nil {
		return err
	}
	if o.gate {
		return gate(comparison)
	}
	return nil
}

// unknownArm returns an error for the first named experiment that has no run.
func unknownArm(ctx context.Context, reader *store.Reader, s stats.Study) error {
	for _, arm := range s.Arms {
		of := func(r stats.StudyRun) bool { return r.Name == arm.Name }
		if arm.Runs == 0 && !slices.ContainsFunc(slices.Concat(s.Failed, s.Unfinished), of) {
			return lifecycle.UnknownExperiment(ctx, reader, arm.Name)
		}
	}
	return nil
}

// chooseSeeds sets the seeds of --seeds. It refuses seeds that the study names as explored: their results were known
// before they were chosen.
func (o *compareOptions) chooseSeeds() error {
	if o.seeds == "" {
		return nil
	}
	seeds, err := study.ParseSeeds(o.seeds)
	if err == nil && seeds.List() == nil {
		err = &configs.Error{Key: "seeds", Value: o.seeds, Source: "--seeds", Allowed: "a list of seeds such as 45,46,47,48, for one seed 45,"}
	}
	if err != nil {
		return err
	}
	o.Seeds = slices.Sorted(slices.Values(seeds.List()))
	if o.Study == nil {
		return nil
	}
	for _, seed := range o.Seeds {
		if slices.Contains(o.Study.Explored, seed) {
			return &configs.Error{Key: "seeds", Value: o.seeds, Source: "--seeds",
				Allowed: fmt.Sprintf("fresh seeds, because the results of seed %d were looked at before (key explored of study %s)", seed, o.Study.Name)}
		}
	}
	return nil
}

// write writes the rows as CSV if --csv is given. It prints the comparison unless the CSV goes to stdout.
func (o *compareOptions) write(stdout io.Writer, c stats.Comparison) error {
	if o.csv != "" {
		if err := o.writeCSV(stdout, c); err != nil {
			return err
		}
	}
	switch {
	case o.output == "json":
		return writeJSON(stdout, c)
	case o.csv == "-":
		return nil
	}
	p := screen.Page(stdout)
	if err := terminal.PrintComparison(p, c, o.columns); err != nil {
		return err
	}
	return p.Flush()
}

func (o *compareOptions) writeCSV(stdout io.Writer, c stats.Comparison) (err error) {
	if o.csv == "-" {
		return terminal.WriteComparisonCSV(stdout, c, o.columns)
	}
	file, err := os.Create(o.csv)
	if err != nil {
		return fail.Hint(fmt.Errorf("write the rows: %w", err), "another file with --csv, in an existing folder")
	}
	return errors.Join(terminal.WriteComparisonCSV(file, c, o.columns), file.Close())
}

// checkRows refuses --gate and --min without a baseline, and --gate unless there are exactly two rows.
func (o *compareOptions) checkRows(c stats.Comparison) error {
	if o.gate && len(c.Rows) != 2 {
		return fail.Usage(fmt.Errorf("--gate takes exactly two experiments, not %d", len(c.Rows)), "swarm compare --gate NEW --baseline OLD")
	}
	if c.Baseline != "" || len(c.Rows) == 0 || !o.gate && !o.HasMin {
		return nil
	}
	flag := "--gate"
	if !o.gate {
		flag = "--min"
	}
	return fail.Usage(fmt.Errorf("%s needs a baseline, and no row is the baseline", flag), "swarm compare --baseline NAME")
}

// gate returns the exit code of the single verdict.
func gate(c stats.Comparison) error {
	switch c.Pairs[0].Outcome {
	case stats.OutcomeBetter:
		return nil
	case stats.OutcomeWorse:
		return fail.Exit(exitWorse)
	}
	return fail.Exit(exitUndecided)
}

// check converts flags to options. A bad flag is a usage error that lists the allowed values.
func (o *compareOptions) check(flags *pflag.FlagSet) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if !slices.Contains([]string{stats.ByExperiment, stats.ByConfig}, o.By) {
		return &configs.Error{Key: "by", Value: o.By, Allowed: "experiment or config"}
	}
	if err := checkMeasure(&o.Measure); err != nil {
		return err
	}
	if flags.Changed("target") && !(o.target > 0 && o.target <= math.MaxFloat32) {
		return &configs.Error{Key: "target", Value: fmt.Sprint(o.target), Allowed: "a reward above 0"}
	}
	if o.window < 1 || o.window > 1_000_000 {
		return &configs.Error{Key: "window", Value: fmt.Sprint(o.window), Allowed: "a whole number from 1 to 1000000"}
	}
	if o.Top < 0 || flags.Changed("top") && o.Top < 1 {
		return &configs.Error{Key: "top", Value: fmt.Sprint(o.Top), Allowed: "a whole number above 0"}
	}
	if err := terminal.CheckComparisonColumns(o.columns); err != nil {
		return err
	}
	if err := query.CheckDespite(o.despite); err != nil {
		return err
	}
	if o.csv == "-" && o.output == "json" {
		return fail.Usage(errors.New("--csv - and -o json both write to stdout"), "--csv FILE")
	}
	if o.gate && (o.Top > 0 || flags.Changed("min")) {
		return fail.Usage(errors.New("--gate judges two experiments: --top and --min would leave one out"), "swarm compare --gate without them")
	}
	o.Target, o.Window, o.Despite = o.target, o.window, o.despite
	if flags.Changed("min") {
		var err error
		o.HasMin = true
		o.Min, err = ratio(o.min)
		return err
	}
	return nil
}

// ratio parses 0.1 or 10%.
func ratio(text string) (float64, error) {
	digits, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !units.Finite(v) {
		return 0, &configs.Error{Key: "min", Value: text, Allowed: "a ratio such as 0.1, or 10%"}
	}
	if isPercent {
		v /= 100
	}
	return v, nil
}
