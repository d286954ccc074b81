package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// jobsToCompare returns the jobs that the names mean; nil where they mean none, and then experiments are meant. Jobs and others at once is a
// usage error.
func jobsToCompare(ctx context.Context, reader *store.Reader, names []string) ([]stats.Job, error) {
	var jobs []stats.Job
	var others []string
	for _, name := range names {
		job, ok, err := jobNamed(ctx, reader, name)
		if err != nil {
			return nil, err
		}
		if ok {
			jobs = append(jobs, describeJob(job))
		} else {
			others = append(others, name)
		}
	}
	if len(jobs) > 0 && len(others) > 0 {
		return nil, &usageError{
			fmt.Errorf("%s is a job of swarm run, and %s is none: jobs compare with jobs, experiments with experiments",
				jobs[0].Job, strings.Join(others, ", ")),
			"swarm status lists jobs, swarm compare experiments",
		}
	}
	return jobs, nil
}

// compareJobs puts jobs beside each other. Flags that judge experiments are refused.
func (o *compareOptions) compareJobs(out io.Writer, jobs []stats.Job, flags *pflag.FlagSet) error {
	var wrong error
	flags.Visit(func(f *pflag.Flag) {
		local := f.Name != "home" && f.Name != "verbose" && f.Name != "python"
		if local && f.Name != "output" && wrong == nil {
			wrong = &usageError{errors.New("--" + f.Name + " is for experiments, and these are jobs"), "swarm compare JOB JOB, with -o json"}
		}
	})
	if wrong != nil {
		return wrong
	}
	comparison := stats.CompareJobs(jobs)
	if o.output == "json" {
		return writeJSON(out, comparison)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tSTATE\tATTEMPTS\tOUT OF MEMORY\tBATCH\tEFFECTIVE\tGPU PEAK\tHOST PEAK\tSUCCEEDED IN\tEXIT\tON")
	for _, r := range comparison.Jobs {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cellText(r.Job), r.State, r.AttemptCount, r.Shortages,
			batchText(r.BatchSize, r.Accumulate), optionalText(r.EffectiveBatch, strconv.Itoa), optionalText(r.PeakGPUBytes, gb),
			optionalText(r.PeakHostBytes, gb), optionalText(r.Seconds, timeText), optionalText(r.ExitCode, strconv.Itoa), placeText(r.GPUName, r.Device))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	for i, note := range comparison.Notes {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, note)
	}
	return nil
}
