package study

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sweep"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// tellStart reports which run starts, and the sweep's progress.
func (s *Sweep) tellStart(n int, item *Item, status sweep.Status) {
	if s.lines != nil {
		s.lines.tell(Event{
			Type: event.TypeRunStarted, Index: n + 1, Runs: len(s.items), Attempt: item.tried + 1, Row: &status.Rows[n], Sweep: &status,
		})
		return
	}
	again := ""
	if item.tried > 0 {
		again = " once more"
	}
	fmt.Fprintf(s.host.Stdout, "%s: run %d of %d: %s%s; %s\n", s.command(), n+1, len(s.items), item, again, progressOf(status))
}

// tellEnd reports how a run ended. As text it reports only failures, because the run itself has printed the rest.
func (s *Sweep) tellEnd(n int, item *Item, status sweep.Status) {
	if s.lines != nil {
		s.lines.tell(Event{
			Type: event.TypeRunEnded, Index: n + 1, Runs: len(s.items), Attempt: item.tried, ExitCode: &item.code, Message: item.why,
			Row: &status.Rows[n], Sweep: &status,
		})
		return
	}
	if item.alarmed {
		fmt.Fprintf(s.host.Stderr, "%s: %s was %s\n", s.command(), item, store.AlarmStop)
		return
	}
	if item.code != fail.ExitDone && item.code < fail.ExitSignal {
		why := item.why
		if why == "" {
			why = fmt.Sprintf("exit code %d", item.code)
		}
		fmt.Fprintf(s.host.Stderr, "%s: %s did not finish (%s)\n", s.command(), item, why)
	}
}

// progressOf returns a text such as `done 2, failed 0; about 14 h left, $7.20 so far of about $31.00`.
func progressOf(x sweep.Status) string {
	text := fmt.Sprintf("done %d, failed %d", x.Done, x.Failed)
	if x.StoppedByAlarm > 0 {
		text += fmt.Sprintf(", stopped by the alarm %d", x.StoppedByAlarm)
	}
	var more []string
	if x.ETASeconds != nil {
		more = append(more, "about "+units.Roughly(*x.ETASeconds)+" left")
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

// Summary is the last line of sweep -o json, and the document for the webhook.
type Summary struct {
	Type     event.Type `json:"type"`
	Time     float64    `json:"time"`
	State    string     `json:"state"` // done, stopped, lost (some runs are not done), failed (none is)
	ExitCode int        `json:"exit_code"`
	sweep.Status
	Study *stats.Study `json:"study,omitempty"` // the verdict of a study or a grid
}

func (s *Sweep) tellSummary(ctx context.Context, x Summary) error {
	switch {
	case s.pilots != nil:
		return s.tellAdvice(ctx, x)
	case s.lines != nil:
		return s.lines.write(x)
	}
	return screen.Print(s.host.Stdout, func(p *table.Page) {
		p.Printf("\nsweep %s: %d of %s done\n\n", x.State, x.Done, units.Plural(x.Runs, "run"))
		p.Table(Table(x.Status, false))
		switch {
		case x.State == store.RunStopped:
			p.Println("\nThe same command continues it.")
		case x.Failed > 0:
			p.Printf("\nThe same command repeats the unfinished runs; %s logs RUN says why they failed.\n", s.host.Program)
		}
		if n := x.StoppedByAlarm; n > 0 {
			p.Printf("\n%s stopped by the alarm %s in no mean. --on-alarm warn continues such runs.\n", units.Plural(n, "run"), units.Verb(n, "count"))
		}
		if x.Done > 0 {
			p.Println()
			s.printOutcome(p, x.Study)
		}
	})
}

// printOutcome prints the verdict and the planned comparisons if they are known, and the commands that show more.
func (s *Sweep) printOutcome(p *table.Page, verdict *stats.Study) {
	if s.judge == nil {
		p.Command(fmt.Sprintf("%s compare %s", s.host.Program, strings.Join(s.comparison(), " ")))
		return
	}
	if verdict != nil {
		p.Printf("%s\n", charset.Shown(verdict.Verdict))
		for _, c := range verdict.Contrasts {
			p.Printf("%s\n", charset.Shown(c.Verdict))
		}
		p.Println()
	}
	if s.judge.report == "" {
		p.Command(fmt.Sprintf("%s compare %s", s.host.Program, s.judge.flags))
		return
	}
	p.Printf("%[1]s compare %[2]s   the details of this verdict\n%[1]s report %[3]s    the same with all figures\n", s.host.Program, s.judge.flags, s.judge.report)
}

// comparison returns the arguments of swarm compare for the sweep. The baseline is the first experiment without
// externals.
func (s *Sweep) comparison() []string {
	args := s.Experiments()
	for _, item := range s.items {
		if item.p.Config.NumTransplantTrees == 0 && len(args) > 1 {
			return append(args, "--baseline", item.experiment())
		}
	}
	return args
}

// Table returns a table with a row per run. With planned it shows the time left, else the time used.
func Table(x sweep.Status, planned bool) *table.Table {
	last := "time"
	if planned {
		last = "time left"
	}
	t := table.New(
		table.Column{Title: "experiment"}, table.Column{Title: "seed", Right: true}, table.Column{Title: "state"},
		table.Column{Title: "rounds", Right: true, Drop: 2}, table.Column{Title: "cumulative", Right: true, Drop: 3},
		table.Column{Title: last, Right: true, Drop: 1}, table.Column{Title: "cost", Right: true, Drop: 1, Optional: true},
	)
	for _, r := range x.Rows {
		took, price, cost := (*float64)(nil), r.Cost, ""
		if r.ActiveSeconds > 0 {
			took = &r.ActiveSeconds
		}
		if planned {
			took, price = r.ETASeconds, costOf(r.ETASeconds, x.PricePerHour)
		}
		if x.PricePerHour != nil {
			cost = moneyOr(price, x.PriceCurrency)
		}
		state := r.State
		if r.StoppedByAlarm {
			state = store.AlarmStop
		}
		t.Add(r.Experiment, strconv.FormatInt(r.Seed, 10), state, fmt.Sprintf("%d/%d", r.Round, r.Rounds), reached(r), timeOr(took), cost)
	}
	return t
}

func reached(r sweep.Row) string {
	if r.Run == "" {
		return "–"
	}
	return fmt.Sprintf("%.2f", r.CumulativeReward)
}

// timeOr formats a time to the second.
func timeOr(seconds *float64) string {
	if seconds == nil {
		return "–"
	}
	return units.Exactly(*seconds)
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

// DryRun prints the sweep and starts nothing.
func (s *Sweep) DryRun(ctx context.Context) error {
	reader, err := store.OpenReader(ctx, s.host.Home.Database())
	if err == nil {
		s.reader = reader
	} // without a database, nothing is known
	status, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if s.pilots != nil && s.pilots.lines != nil {
		return s.tellAdvice(ctx, Summary{State: pilotsPlanned, Status: status})
	}
	s.tellPilots(status)
	if s.lines != nil {
		return s.lines.write(Event{Type: Planned, Time: event.Now(), Runs: status.Runs, Sweep: &status})
	}
	return screen.Print(s.host.Stdout, func(p *table.Page) {
		p.Table(Table(status, true))
		p.Printf("\n%s; %s\n", units.Plural(status.Runs, "run"), progressOf(status))
		if status.ETASeconds == nil {
			p.Println("The duration is unknown until one of these runs, or a similar one, has done two rounds here.")
		}
	})
}
