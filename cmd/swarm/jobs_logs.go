package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// jobLogs prints what a job's command printed.
func jobLogs(ctx context.Context, g *globals, reader *store.Reader, j store.Job, nodes []string, o *logsOptions) error {
	if len(nodes) > 0 {
		return fail.Usage(fmt.Errorf("%s is a job and has one log, not those of nodes such as %q", j.Job, nodes[0]), "swarm logs "+j.Job)
	}
	if err := job.CheckLog(j); err != nil {
		return err
	}
	out := bufio.NewWriter(g.stdout)
	m := &runlog.Merge{Logs: []string{j.Job}, PathOf: func(string) string { return j.Log }, Last: -1, Follow: o.follow}
	o.begin(m)
	printer := &logPrinter{out: out, merge: m, asJSON: o.output == "json", flush: o.follow, alone: true}
	m.Emit = printer.print
	err := m.Run(ctx, func(ctx context.Context) (bool, error) {
		now, err := reader.Job(ctx, j.Job)
		return err == nil && !job.GoesOn(now), err
	})
	return errors.Join(err, out.Flush())
}

// overwritten is what a terminal shows of a line that goes back to its beginning, as progress bars do.
func overwritten(text string) string { return text[strings.LastIndexByte(text, '\r')+1:] }
