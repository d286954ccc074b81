package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/jobs"
)

// printStudyPlan writes the plan for people: what is run, what it takes, and where each figure comes from; and with which flags it is run so.
func printStudyPlan(g *globals, s *sweepStudy, x studyPlan, again string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "study     %s: %s\n", x.Study, x.Question)
	if x.Model != "" {
		fmt.Fprintf(&b, "model     %s, %s parameters\n", x.Model, group(s.model.Shape.Parameters))
	}
	fmt.Fprintf(&b, "device    %s\n", deviceOf(x))
	fmt.Fprintf(&b, "runs      %d experiments × %s = %d, one after the other\n\n", len(x.Experiments), some(x.Seeds, "seed"), x.Runs)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "experiment\tnodes\tI/J\trounds\ta round\tevaluations\ta run\tfrom")
	var notes []string
	for _, e := range x.Experiments {
		at := slices.Index(notes, e.From)
		if at < 0 {
			at, notes = len(notes), append(notes, e.From)
		}
		config := e.Config
		if e.Adaptive {
			config += ", adapted"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%s\t[%d]\n", e.Experiment, e.Nodes, config, e.Rounds, shortTime(e.RoundSeconds),
			fmt.Sprintf("%d × %s", e.Evaluations, shortTime(e.EvalSeconds)), runTime(e.Seconds), at+1)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	fmt.Fprintf(&b, "\n%s\n", inAll(x))
	for i, note := range notes {
		fmt.Fprintf(&b, "[%d] %s\n", i+1, strings.ReplaceAll(note, "; ", ";\n    "))
	}
	fmt.Fprintf(&b, "\n%s sweep %s%s\n", g.invocation(), s.flags(), again)
	_, err := io.WriteString(g.stdout, b.String())
	return err
}

// againFlags are the flags that plan --study was given, but for those that name the study, for a shell; each begins with a space.
func againFlags(f *pflag.FlagSet) string {
	var b strings.Builder
	f.Visit(func(flag *pflag.Flag) {
		if slices.Contains([]string{"study", "model", "output", "home"}, flag.Name) {
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			b.WriteString(" " + jobs.ShellWord("--"+flag.Name+"="+value))
		}
	})
	return b.String()
}

func deviceOf(x studyPlan) string {
	if x.Device != fit.DeviceCUDA || len(x.GPUs) == 0 {
		return "CPU"
	}
	var names []string
	for _, gpu := range x.GPUs {
		names = append(names, gpu.Name)
	}
	return strings.Join(names, ", ")
}

// inAll is the sum, with how it was come by: never a bare number.
func inAll(x studyPlan) string {
	if x.Seconds == nil {
		return "in all    not known: do ten rounds of one of these first (swarm up --config 8loc0ext --rounds 10, with the same model), then ask again"
	}
	worst := ""
	for _, e := range x.Experiments {
		if rateRank(e.Source) > rateRank(worst) {
			worst = e.Source
		}
	}
	text := "in all    about " + runTime(x.Seconds)
	if x.Cost != nil {
		text += fmt.Sprintf(", %s at %s", units.Money(*x.Cost, x.PriceCurrency), units.PerHour(*x.PricePerHour, x.PriceCurrency))
	}
	switch worst {
	case rateMeasured:
		return text + ", predicted from rounds measured here"
	case rateProfile:
		return text + ", predicted from a profile, no round of it measured"
	}
	return text + " at least, predicted from first principles, not measured"
}

// shortTime writes the seconds of a round.
func shortTime(seconds *float64) string {
	switch {
	case seconds == nil:
		return "–"
	case *seconds < 10:
		return fmt.Sprintf("%.2f s", *seconds)
	case *seconds < 120:
		return fmt.Sprintf("%.0f s", *seconds)
	}
	return roughly(*seconds)
}

// runTime writes the time of a run: as roughly does, hours to a tenth.
func runTime(seconds *float64) string {
	switch {
	case seconds == nil:
		return "–"
	case *seconds >= 90*60 && *seconds < 48*3600:
		return fmt.Sprintf("%.1f h", *seconds/3600)
	}
	return roughly(*seconds)
}
