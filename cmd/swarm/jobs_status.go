package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// Of the jobs that have ended, swarm status lists those of the last days, and so many.
const (
	listedDays = 3
	listedJobs = 20
)

// overview is what swarm status without a name prints as JSON: the newest run's document, and jobs where there are any.
type overview struct {
	*stats.Status                // nil: there is no run
	OthersRunning []string       `json:"others_running,omitempty"` // runs that go on beside it
	Jobs          []stats.JobRow `json:"jobs,omitempty"`

	after afterwards // of Status
}

// showOverview shows the newest run and the jobs of the last days; without either it says what there could be.
func showOverview(ctx context.Context, g *globals, reader *store.Reader, o *statusOptions) error {
	options := job.QueryOptions()
	jobs, err := query.RecentJobs(ctx, reader, options.Now-(listedDays*24*time.Hour).Seconds(), listedJobs, options)
	if err != nil {
		return err
	}
	var all overview
	for _, j := range jobs {
		all.Jobs = append(all.Jobs, j.JobRow)
	}
	status, err := lifecycle.Status(ctx, reader, "")
	switch {
	case err == nil:
		all.Status = &status
	case !errors.Is(err, store.ErrNotFound) || len(jobs) == 0:
		return lifecycle.NotFound(err, "")
	}
	running, err := lifecycle.Running(ctx, reader, "")
	if err != nil {
		return err
	}
	for _, s := range running {
		if s.Run.Run != status.Run {
			all.OthersRunning = append(all.OthersRunning, s.Run.Run)
		}
	}
	if o.output == "json" {
		return writeJSON(g.stdout, all)
	}
	if all.Status != nil {
		if all.after, err = g.afterwards(ctx, reader, status); err != nil {
			return err
		}
	}
	return screen.Print(g.stdout, func(p *table.Page) { printOverview(p, all) })
}

func printOverview(p *table.Page, all overview) {
	if all.Status != nil {
		terminal.PrintStatus(p, *all.Status)
		all.after.print(p)
		if text := othersText(all.OthersRunning); text != "" {
			p.Printf("\n%s\n", text)
		}
		if len(all.Jobs) > 0 {
			p.Println()
		}
	}
	if len(all.Jobs) > 0 {
		p.Table(jobTable(all.Jobs))
	}
}

// othersNamed is how many of the other runs that go on are named.
const othersNamed = 3

// othersText says which other runs go on; nothing where none does.
func othersText(runs []string) string {
	if len(runs) == 0 {
		return ""
	}
	names := strings.Join(runs[:min(othersNamed, len(runs))], ", ")
	if more := len(runs) - othersNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return charset.Shown(fmt.Sprintf("%s %s running, too: %s. swarm ls lists all runs.", units.Plural(len(runs), "other run"), units.Verb(len(runs), "be"), names))
}

// jobTable has a row a job.
func jobTable(rows []stats.JobRow) *table.Table {
	t := table.New(
		table.Column{Title: "JOB"}, table.Column{Title: "STATE"}, table.Column{Title: "ATTEMPTS", Right: true, Drop: 4}, table.Column{Title: "BATCH", Drop: 2},
		table.Column{Title: "EFFECTIVE", Right: true, Drop: 5}, table.Column{Title: "GPU PEAK", Right: true, Drop: 3},
		table.Column{Title: "HOST PEAK", Right: true, Drop: 6}, table.Column{Title: "TIME", Right: true, Drop: 1}, table.Column{Title: "COMMAND", Drop: 1, Max: 30},
	)
	for _, r := range rows {
		t.Add(cellText(r.Job), cellText(r.State), strconv.Itoa(r.AttemptCount), batchText(r.BatchSize, r.Accumulate),
			optionalText(r.EffectiveBatch, strconv.Itoa), optionalText(r.PeakGPUBytes, units.Bytes), optionalText(r.PeakHostBytes, units.Bytes), units.Elapsed(r.ElapsedSeconds),
			commandLine(r.Command))
	}
	return t
}

// showJob shows one job and each of its attempts.
func showJob(g *globals, j store.Job, o *statusOptions) error {
	if o.watch {
		return fail.Usage(fmt.Errorf("--watch shows runs of swarm up, and %s is a job", j.Job), "swarm logs "+j.Job+" -f")
	}
	job := job.Describe(j)
	if o.output == "json" {
		return writeJSON(g.stdout, job)
	}
	return screen.Print(g.stdout, func(p *table.Page) { printJobStatus(p, job) })
}

func printJobStatus(b *table.Page, j stats.Job) {
	fmt.Fprintln(b, strings.Join(append([]string{charset.Shown(j.Job)}, jobFacts(j)...), " · "))
	if j.Reason != "" {
		fmt.Fprintln(b, charset.Shown(j.Reason))
	}
	b.Command("command  " + commandLine(j.Command))
	fmt.Fprintf(b, "in       %s\n", charset.Shown(j.Dir))
	if j.Log != "" {
		fmt.Fprintf(b, "log      %s\n", charset.Shown(j.Log))
	}
	if len(j.Attempts) == 0 {
		return
	}
	fmt.Fprintln(b)
	t := table.New(
		table.Column{Title: "ATTEMPT", Right: true}, table.Column{Title: "BATCH"}, table.Column{Title: "EFFECTIVE", Right: true, Drop: 3},
		table.Column{Title: "SAVES MEMORY BY", Drop: 2}, table.Column{Title: "ON", Drop: 5, Max: 24}, table.Column{Title: "GPU PEAK", Right: true, Drop: 1},
		table.Column{Title: "HOST PEAK", Right: true, Drop: 4}, table.Column{Title: "TIME", Right: true, Drop: 1}, table.Column{Title: "ENDED", Wrap: true},
	)
	for _, a := range j.Attempts {
		t.Add(strconv.Itoa(a.Attempt), batchText(a.BatchSize, a.Accumulate), optionalText(a.EffectiveBatch, strconv.Itoa), savings(a),
			placeText(a.GPUName, a.Device), optionalText(a.PeakGPUBytes, units.Bytes), optionalText(a.PeakHostBytes, units.Bytes), optionalText(a.Seconds, units.Elapsed),
			cellText(endText(a)))
	}
	b.Table(t)
	for _, a := range j.Attempts {
		if notes := attemptNotes(a); notes != "" {
			fmt.Fprintf(b, "%d: %s\n", a.Attempt, charset.Shown(notes))
		}
	}
}

func jobFacts(j stats.Job) []string {
	facts := []string{j.State}
	if j.ExitCode != nil && j.State != store.JobDone {
		facts = append(facts, "exit "+strconv.Itoa(*j.ExitCode))
	}
	if j.State != stats.JobLost || j.ElapsedSeconds >= 1 { // else nobody knows how long it ran
		facts = append(facts, units.Elapsed(j.ElapsedSeconds))
	}
	if j.AttemptCount > 0 {
		facts = append(facts, units.Plural(j.AttemptCount, "attempt"))
	}
	if j.Shortages > 0 {
		facts = append(facts, fmt.Sprintf("out of memory %d×", j.Shortages))
	}
	if j.Ended == nil && j.State != stats.JobLost {
		facts = append(facts, "pid "+strconv.Itoa(j.PID))
	}
	return facts
}

// savings are the steps beyond a smaller batch.
func savings(a stats.JobAttempt) string {
	var steps []string
	if a.GradientCheckpointing {
		steps = append(steps, "checkpointing")
	}
	if a.Offload {
		steps = append(steps, "offload")
	}
	if steps == nil {
		return "–"
	}
	return strings.Join(steps, ", ")
}

// placeText is where an attempt ran: its GPU's name, else its device.
func placeText(gpuName, device string) string { return cellText(cmp.Or(gpuName, device, "–")) }

func endText(a stats.JobAttempt) string {
	text := a.State
	switch {
	case a.State == stats.AttemptOutOfMemory:
		text = "out of memory (" + a.Cause + ")"
	case a.Signal != "":
		text += ", " + a.Signal
	case a.ExitCode != nil && a.State == stats.AttemptFailed:
		text += ", exit " + strconv.Itoa(*a.ExitCode)
	}
	return text
}

// attemptNotes say what was changed before an attempt, and what memory there was when it ran out.
func attemptNotes(a stats.JobAttempt) string {
	var facts []string
	for _, fact := range []struct {
		what  string
		bytes *int64
	}{{"asked for", a.AskedBytes}, {"free", a.FreeBytes}, {"allocated", a.AllocatedBytes}} {
		if fact.bytes != nil {
			facts = append(facts, fact.what+" "+units.Bytes(*fact.bytes))
		}
	}
	var notes []string
	for _, note := range []string{a.Step, strings.Join(facts, ", "), a.Message} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	return strings.Join(notes, "; ")
}

// commandLine is a command as its user would type it, in one line that a terminal can show.
func commandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		word = strings.ReplaceAll(charset.Shown(word), "\t", " ")
		if word == "" || strings.ContainsAny(word, " '\"\\$&|;<>()*?[]#~`!") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted[i] = word
	}
	return strings.Join(quoted, " ")
}

// batchText is 32 × 4: batch size and accumulation steps.
func batchText(batch, accumulate *int) string {
	switch {
	case batch == nil:
		return "–"
	case accumulate == nil:
		return fmt.Sprint(*batch)
	}
	return fmt.Sprintf("%d × %d", *batch, *accumulate)
}

// optionalText is a number, – where nobody knows it.
func optionalText[T any](v *T, text func(T) string) string {
	if v == nil {
		return "–"
	}
	return text(*v)
}
