package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
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
}

// showOverview shows the newest run and the jobs of the last days; without either it says what there could be.
func showOverview(ctx context.Context, g *globals, reader *store.Reader, o *statusOptions) error {
	options := jobOptions()
	jobs, err := query.RecentJobs(ctx, reader, options.Now-(listedDays*24*time.Hour).Seconds(), listedJobs, options)
	if err != nil {
		return err
	}
	var all overview
	for _, j := range jobs {
		all.Jobs = append(all.Jobs, j.JobRow)
	}
	status, err := readStatus(ctx, reader, "")
	switch {
	case err == nil:
		all.Status = &status
	case !errors.Is(err, store.ErrNotFound) || len(jobs) == 0:
		return notFound(err, "")
	}
	running, err := runsNow(ctx, reader, "")
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
		if err := terminal.PrintStatus(g.stdout, status); err != nil {
			return err
		}
		if text := othersText(all.OthersRunning); text != "" {
			fmt.Fprintf(g.stdout, "\n%s\n", text)
		}
		if len(jobs) > 0 {
			fmt.Fprintln(g.stdout)
		}
	}
	return printJobRows(g.stdout, all.Jobs)
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
	verb := "is"
	if len(runs) > 1 {
		verb = "are"
	}
	return printable(fmt.Sprintf("%s %s running, too: %s. swarm ls lists all runs.", units.Plural(len(runs), "other run"), verb, names))
}

// printJobRows writes a line a job.
func printJobRows(out io.Writer, rows []stats.JobRow) error {
	if len(rows) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tSTATE\tATTEMPTS\tBATCH\tEFFECTIVE\tGPU PEAK\tHOST PEAK\tTIME\tCOMMAND")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", cellText(r.Job), cellText(r.State), r.AttemptCount,
			batchText(r.BatchSize, r.Accumulate), optionalText(r.EffectiveBatch, strconv.Itoa), optionalText(r.PeakGPUBytes, gb),
			optionalText(r.PeakHostBytes, gb), timeText(r.ElapsedSeconds), shortened(commandLine(r.Command), 60))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the jobs: %w", err)
	}
	return nil
}

// showJob shows one job and each of its attempts.
func showJob(g *globals, j store.Job, o *statusOptions) error {
	if o.watch {
		return &usageError{fmt.Errorf("--watch shows runs of swarm up, and %s is a job", j.Job), "swarm logs " + j.Job + " -f"}
	}
	job := describeJob(j)
	if o.output == "json" {
		return writeJSON(g.stdout, job)
	}
	var b bytes.Buffer
	printJobStatus(&b, job)
	_, err := g.stdout.Write(b.Bytes())
	return err
}

func printJobStatus(b *bytes.Buffer, j stats.Job) {
	fmt.Fprintln(b, strings.Join(append([]string{printable(j.Job)}, jobFacts(j)...), " · "))
	if j.Reason != "" {
		fmt.Fprintln(b, printable(j.Reason))
	}
	fmt.Fprintf(b, "command  %s\n", commandLine(j.Command))
	fmt.Fprintf(b, "in       %s\n", printable(j.Dir))
	if j.Log != "" {
		fmt.Fprintf(b, "log      %s\n", printable(j.Log))
	}
	if len(j.Attempts) == 0 {
		return
	}
	fmt.Fprintln(b)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ATTEMPT\tBATCH\tEFFECTIVE\tSAVES MEMORY BY\tON\tGPU PEAK\tHOST PEAK\tTIME\tENDED")
	for _, a := range j.Attempts {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Attempt, batchText(a.BatchSize, a.Accumulate),
			optionalText(a.EffectiveBatch, strconv.Itoa), savings(a), placeText(a.GPUName, a.Device), optionalText(a.PeakGPUBytes, gb),
			optionalText(a.PeakHostBytes, gb), optionalText(a.Seconds, timeText), cellText(endText(a)))
	}
	_ = w.Flush() // into memory
	for _, a := range j.Attempts {
		if notes := attemptNotes(a); notes != "" {
			fmt.Fprintf(b, "%d: %s\n", a.Attempt, printable(notes))
		}
	}
}

func jobFacts(j stats.Job) []string {
	facts := []string{j.State}
	if j.ExitCode != nil && j.State != store.JobDone {
		facts = append(facts, "exit "+strconv.Itoa(*j.ExitCode))
	}
	if j.State != stats.JobLost || j.ElapsedSeconds >= 1 { // else nobody knows how long it ran
		facts = append(facts, timeText(j.ElapsedSeconds))
	}
	if j.AttemptCount > 0 {
		facts = append(facts, some(j.AttemptCount, "attempt"))
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
			facts = append(facts, fact.what+" "+gb(*fact.bytes))
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

// timeText is a duration in seconds, for people.
func timeText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// shortened cuts text to so many characters.
func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}
