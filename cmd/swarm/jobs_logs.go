package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// jobLogs prints what a job's command printed.
func jobLogs(ctx context.Context, g *globals, reader *store.Reader, job store.Job, nodes []string, o *logsOptions) error {
	if len(nodes) > 0 {
		return fail.Usage(fmt.Errorf("%s is a job and has one log, not those of nodes such as %q", job.Job, nodes[0]), "swarm logs "+job.Job)
	}
	if err := checkJobLog(job); err != nil {
		return err
	}
	out := bufio.NewWriter(g.stdout)
	m := &runlog.Merge{Logs: []string{job.Job}, PathOf: func(string) string { return job.Log }, Last: -1, Follow: o.follow}
	o.begin(m)
	printer := &logPrinter{out: out, merge: m, asJSON: o.output == "json", flush: o.follow, alone: true}
	m.Emit = printer.print
	err := m.Run(ctx, func(ctx context.Context) (bool, error) {
		now, err := reader.Job(ctx, job.Job)
		return err == nil && !goesOn(now), err
	})
	return errors.Join(err, out.Flush())
}

// checkJobLog refuses a job whose log can't be read here.
func checkJobLog(job store.Job) error {
	err := errors.New("none was written")
	if job.Log != "" {
		if _, err = os.Stat(job.Log); err == nil {
			return nil
		}
		if _, older := os.Stat(job.Log + ".1"); older == nil {
			return nil
		}
	}
	if jobElsewhere(job) {
		return fail.Hint(fmt.Errorf("the log of %s is on %s: %w", job.Job, job.Host, err), "swarm logs "+job.Job+" there")
	}
	return fail.Hint(fmt.Errorf("the log of %s is gone: %w", job.Job, err), "swarm status "+job.Job+" for what the database knows")
}

// overwritten is what a terminal shows of a line that goes back to its beginning, as progress bars do.
func overwritten(text string) string { return text[strings.LastIndexByte(text, '\r')+1:] }
