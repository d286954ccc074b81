package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// tellStart says which run is next, and how far the sweep is.
func (s *sweep) tellStart(n int, item *sweepItem, status stats.SweepStatus) {
	if s.lines != nil {
		s.lines.tell(sweepEvent{
			Type: event.TypeRunStarted, Index: n + 1, Runs: len(s.items), Attempt: item.tried + 1, SweepRow: &status.Rows[n], Sweep: &status,
		})
		return
	}
	again := ""
	if item.tried > 0 {
		again = " once more"
	}
	fmt.Fprintf(s.g.stdout, "sweep: run %d of %d: %s%s; %s\n", n+1, len(s.items), item, again, progressOf(status))
}

// tellEnd says how a run ended where it hasn't been told.
func (s *sweep) tellEnd(n int, item *sweepItem, status stats.SweepStatus) {
	if s.lines != nil {
		s.lines.tell(sweepEvent{
			Type: event.TypeRunEnded, Index: n + 1, Runs: len(s.items), Attempt: item.tried, ExitCode: &item.code, Message: item.why,
			SweepRow: &status.Rows[n], Sweep: &status,
		})
		return
	}
	if item.code != exitDone && item.code < exitSignal {
		why := item.why
		if why == "" {
			why = fmt.Sprintf("exit code %d", item.code)
		}
		fmt.Fprintf(s.g.stderr, "sweep: %s did not get done (%s)\n", item, why)
	}
}

// progressOf is such as `done 2, failed 0; about 14 h left, $7.20 so far of about $31.00`.
func progressOf(x stats.SweepStatus) string {
	text := fmt.Sprintf("done %d, failed %d", x.Done, x.Failed)
	var more []string
	if x.ETASeconds != nil {
		more = append(more, "about "+roughly(*x.ETASeconds)+" left")
	}
	switch {
	case x.Cost != nil && x.ProjectedCost != nil:
		more = append(more, fmt.Sprintf("%s so far of about %s", units.Money(*x.Cost, x.PriceCurrency), units.Money(*x.ProjectedCost, x.PriceCurrency)))
	case x.Cost != nil:
		more = append(more, units.Money(*x.Cost, x.PriceCurrency)+" so far")
	}
	if more == nil {
		return text
	}
	return text + "; " + strings.Join(more, ", ")
}

// roughly writes a time as people guess it: 40 s, 12 min, 14 h, 3 days.
func roughly(seconds float64) string {
	switch {
	case seconds < 90:
		return fmt.Sprintf("%.0f s", max(0, seconds))
	case seconds < 90*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%.0f h", seconds/3600)
	}
	return fmt.Sprintf("%.0f days", seconds/86400)
}

// sweepSummary is the last line of sweep -o json, and what the webhook gets.
type sweepSummary struct {
	Type     event.Type `json:"type"`
	Time     float64    `json:"time"`
	State    string     `json:"state"` // done, stopped, lost (some runs are not done), failed (none is)
	ExitCode int        `json:"exit_code"`
	stats.SweepStatus
	Study *stats.Study `json:"study,omitempty"` // what a study's runs say
}

func (s *sweep) tellSummary(x sweepSummary) error {
	if s.lines != nil {
		return s.lines.write(x)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nsweep %s: %d of %d runs done\n\n", x.State, x.Done, x.Runs)
	if err := printSweep(&b, x.SweepStatus, false); err != nil {
		return err
	}
	switch {
	case x.State == store.RunStopped:
		b.WriteString("\nThe same command goes on with it.\n")
	case x.Failed > 0:
		fmt.Fprintf(&b, "\nThe same command tries again what is not done; %s logs RUN says why.\n", s.g.invocation())
	}
	if x.Done > 0 {
		b.WriteString("\n" + s.outcome(x.Study))
	}
	_, err := io.WriteString(s.g.stdout, b.String())
	return err
}

// outcome says what the runs say, as far as that is known, and how to see more.
func (s *sweep) outcome(verdict *stats.Study) string {
	if s.study == nil {
		return fmt.Sprintf("%s compare %s\n", s.g.invocation(), strings.Join(s.comparison(), " "))
	}
	text := ""
	if verdict != nil {
		text = printable(verdict.Verdict) + "\n\n"
	}
	return text + fmt.Sprintf("%[1]s compare %[2]s   what that rests on\n%[1]s report %[2]s    the same with every figure\n",
		s.g.invocation(), s.study.flags())
}

// comparison are the arguments of swarm compare for the sweep: against the first experiment without externals.
func (s *sweep) comparison() []string {
	args := s.experiments()
	for _, item := range s.items {
		if item.p.config.NumTransplantTrees == 0 && len(args) > 1 {
			return append(args, "--baseline", item.experiment())
		}
	}
	return args
}

// printSweep is a table of the runs. Where planned is set it shows what is to come, else what was.
func printSweep(out io.Writer, x stats.SweepStatus, planned bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	last, priced := "time", x.PricePerHour != nil
	if planned {
		last = "time left"
	}
	fmt.Fprint(w, "experiment\tseed\tstate\trounds\tcumulative\t"+last)
	if priced {
		fmt.Fprint(w, "\tcost")
	}
	fmt.Fprintln(w)
	for _, r := range x.Rows {
		took := (*float64)(nil)
		if r.ActiveSeconds > 0 {
			took = &r.ActiveSeconds
		}
		price := r.Cost
		if planned {
			took, price = r.ETASeconds, costOf(r.ETASeconds, x.PricePerHour)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d/%d\t%s\t%s", r.Experiment, r.Seed, r.State, r.Round, r.Rounds, reached(r), timeOr(took))
		if priced {
			fmt.Fprintf(w, "\t%s", moneyOr(price, x.PriceCurrency))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

func reached(r stats.SweepRow) string {
	if r.Run == "" {
		return "–"
	}
	return fmt.Sprintf("%.2f", r.CumulativeReward)
}

// timeOr writes a time exactly to the second.
func timeOr(seconds *float64) string {
	if seconds == nil {
		return "–"
	}
	return (time.Duration(math.Round(*seconds)) * time.Second).String()
}

func moneyOr(amount *float64, currency string) string {
	if amount == nil {
		return "–"
	}
	return units.Money(*amount, currency)
}

func costOf(seconds, perHour *float64) *float64 {
	if seconds == nil || perHour == nil {
		return nil
	}
	cost := *seconds / 3600 * *perHour
	return &cost
}

// dryRun shows the sweep and starts nothing.
func (s *sweep) dryRun(ctx context.Context) error {
	reader, err := store.OpenReader(ctx, s.g.database())
	if err == nil {
		s.reader = reader
	} // without a database nothing is known
	status, err := s.status(ctx)
	if err != nil {
		return err
	}
	if s.lines != nil {
		return s.lines.write(sweepEvent{Type: sweepPlanned, Time: event.Now(), Runs: status.Runs, Sweep: &status})
	}
	var b strings.Builder
	if err := printSweep(&b, status, true); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%d runs; %s\n", status.Runs, progressOf(status))
	if status.ETASeconds == nil {
		b.WriteString("How long they take isn't known before one of them, or one like them, has done two rounds here.\n")
	}
	_, err = io.WriteString(s.g.stdout, b.String())
	return err
}
