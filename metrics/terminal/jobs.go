package terminal

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// JobTable returns a table with one row per job.
func JobTable(rows []jobstats.JobRow) *table.Table {
	t := table.New(
		table.Column{Title: "JOB"}, table.Column{Title: "STATE"}, table.Column{Title: "ATTEMPTS", Right: true, Drop: 4}, table.Column{Title: "BATCH", Drop: 2},
		table.Column{Title: "EFFECTIVE", Right: true, Drop: 5}, table.Column{Title: "GPU PEAK", Right: true, Drop: 3},
		table.Column{Title: "HOST PEAK", Right: true, Drop: 6}, table.Column{Title: "TIME", Right: true, Drop: 1}, table.Column{Title: "COMMAND", Drop: 1, Max: 30},
	)
	for _, r := range rows {
		t.Add(cellText(r.Job), cellText(r.State), strconv.Itoa(r.AttemptCount), batchText(r.BatchSize, r.Accumulate),
			optionalText(r.EffectiveBatch, strconv.Itoa), optionalText(r.PeakGPUBytes, units.Bytes), optionalText(r.PeakHostBytes, units.Bytes), units.Elapsed(r.ElapsedSeconds),
			CommandLine(r.Command))
	}
	return t
}

// PrintJob prints one job and its attempts.
func PrintJob(b *table.Page, j jobstats.Job) {
	fmt.Fprintln(b, strings.Join(append([]string{charset.Shown(j.Job)}, jobFacts(j)...), " · "))
	if j.Reason != "" {
		fmt.Fprintln(b, charset.Shown(j.Reason))
	}
	b.Command("command  " + CommandLine(j.Command))
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

// jobFacts returns the facts in the first line of a job.
func jobFacts(j jobstats.Job) []string {
	facts := []string{j.State}
	if j.ExitCode != nil && j.State != store.JobDone {
		facts = append(facts, "exit "+strconv.Itoa(*j.ExitCode))
	}
	if j.State != jobstats.JobLost || j.ElapsedSeconds >= 1 { // otherwise its duration is unknown
		facts = append(facts, units.Elapsed(j.ElapsedSeconds))
	}
	if j.AttemptCount > 0 {
		facts = append(facts, units.Plural(j.AttemptCount, "attempt"))
	}
	if j.Shortages > 0 {
		facts = append(facts, fmt.Sprintf("out of memory %d×", j.Shortages))
	}
	if j.Ended == nil && j.State != jobstats.JobLost {
		facts = append(facts, "pid "+strconv.Itoa(j.PID))
	}
	return facts
}

// savings lists the memory-saving steps other than a smaller batch.
func savings(a jobstats.JobAttempt) string {
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

// placeText names the device of an attempt: its GPU's name, else its kind.
func placeText(gpuName, device string) string { return cellText(cmp.Or(gpuName, device, "–")) }

// endText describes the end of an attempt.
func endText(a jobstats.JobAttempt) string {
	text := a.State
	switch {
	case a.State == jobstats.AttemptOutOfMemory:
		text = "out of memory (" + a.Cause + ")"
	case a.Signal != "":
		text += ", " + a.Signal
	case a.ExitCode != nil && a.State == jobstats.AttemptFailed:
		text += ", exit " + strconv.Itoa(*a.ExitCode)
	}
	return text
}

// attemptNotes describes the change before an attempt, and the memory figures of a shortage.
func attemptNotes(a jobstats.JobAttempt) string {
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

// CommandLine formats a command as its user would type it, in one line that is safe for a terminal.
func CommandLine(words []string) string {
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

// batchText formats batch size and accumulation steps as 32 × 4.
func batchText(batch, accumulate *int) string {
	switch {
	case batch == nil:
		return "–"
	case accumulate == nil:
		return fmt.Sprint(*batch)
	}
	return fmt.Sprintf("%d × %d", *batch, *accumulate)
}

// optionalText formats an optional number. An unknown one is –.
func optionalText[T any](v *T, text func(T) string) string {
	if v == nil {
		return "–"
	}
	return text(*v)
}

// PrintJobComparison prints jobs side by side.
func PrintJobComparison(p *table.Page, c jobstats.JobComparison) {
	p.Table(jobComparison(c.Jobs))
	for i, note := range c.Notes {
		if i == 0 {
			p.Println()
		}
		p.Println(note)
	}
}

// jobComparison returns a table with one row per job.
func jobComparison(rows []jobstats.JobRow) *table.Table {
	t := table.New(
		table.Column{Title: "JOB"}, table.Column{Title: "STATE"}, table.Column{Title: "ATTEMPTS", Right: true, Drop: 4},
		table.Column{Title: "OUT OF MEMORY", Right: true, Drop: 2}, table.Column{Title: "BATCH"}, table.Column{Title: "EFFECTIVE", Right: true, Drop: 5},
		table.Column{Title: "GPU PEAK", Right: true, Drop: 1}, table.Column{Title: "HOST PEAK", Right: true, Drop: 6},
		table.Column{Title: "SUCCEEDED IN", Right: true, Drop: 1}, table.Column{Title: "EXIT", Right: true, Drop: 3}, table.Column{Title: "ON", Drop: 7, Max: 24},
	)
	for _, r := range rows {
		t.Add(cellText(r.Job), r.State, strconv.Itoa(r.AttemptCount), strconv.Itoa(r.Shortages), batchText(r.BatchSize, r.Accumulate),
			optionalText(r.EffectiveBatch, strconv.Itoa), optionalText(r.PeakGPUBytes, units.Bytes), optionalText(r.PeakHostBytes, units.Bytes),
			optionalText(r.Seconds, units.Elapsed), optionalText(r.ExitCode, strconv.Itoa), placeText(r.GPUName, r.Device))
	}
	return t
}

// cellText makes a text safe for a terminal and for a table cell.
func cellText(text string) string { return strings.ReplaceAll(charset.Shown(text), "\t", " ") }
