package runs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// FollowedLines is the default number of existing lines that a follower gets from each log.
const FollowedLines = 10

// Lines is a flag with a number of lines, or all.
type Lines struct {
	text string
	n    int // -1: all
}

// String implements pflag.Value.
func (l *Lines) String() string { return l.text }

// Set implements pflag.Value.
func (l *Lines) Set(text string) error {
	n, err := strconv.Atoi(text)
	if text == "all" {
		n, err = -1, nil
	} else if err != nil || n < 0 {
		return &configs.Error{Key: "lines", Value: text, Allowed: "a whole number from 0, or all"}
	}
	l.text, l.n = text, n
	return err
}

// Type implements pflag.Value.
func (l *Lines) Type() string { return "number" }

// LogOptions select which logs to print, and how.
type LogOptions struct {
	Home   layout.Home
	Out    io.Writer
	Stderr io.Writer // for a message about empty logs

	Follow bool
	Lines  Lines
	JSON   bool // one JSON document per line
}

// Logs prints the logs of a run or of a job. args are a run and some of its nodes, nodes of the newest run, or a
// job. Without args it prints the newest run's logs.
func Logs(ctx context.Context, reader *store.Reader, args []string, o *LogOptions) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	found, ok, err := job.Named(ctx, reader, name)
	if err != nil {
		return err
	}
	if ok {
		return jobLogs(ctx, reader, found, args[1:], o)
	}
	snapshot, nodes, err := logsOf(ctx, reader, args)
	if err != nil {
		return err
	}
	dir := o.Home.Run(snapshot.Run.Run)
	if err := checkLogs(dir, snapshot, nodes); err != nil {
		return err
	}
	out := bufio.NewWriter(o.Out)
	m := &runlog.Merge{Dir: dir, Logs: nodes, Last: -1, Follow: o.Follow}
	o.begin(m)
	printer := &logPrinter{out: out, merge: m, asJSON: o.JSON, flush: o.Follow}
	m.Emit = printer.print
	err = m.Run(ctx, func(ctx context.Context) (bool, error) { return hasEnded(ctx, reader, snapshot.Run.Run) })
	if err := errors.Join(err, out.Flush()); err != nil || printer.lines > 0 || o.Follow || o.Lines.text != "" && o.Lines.n == 0 {
		return err
	}
	whose := snapshot.Run.Run
	if len(args) > 0 && len(nodes) > 0 {
		whose = strings.Join(nodes, ", ") + " of " + whose
	}
	_, err = fmt.Fprintf(o.Stderr, "The logs of %s are empty.\n", whose)
	return err
}

// begin sets the number of existing lines to start with.
func (o *LogOptions) begin(m *runlog.Merge) {
	switch {
	case o.Lines.text != "":
		m.Last = o.Lines.n
	case o.Follow:
		m.Last = FollowedLines
	}
}

// logsOf splits the arguments into a run and names of nodes. If the first name is not a run, it names a node of the
// newest run.
func logsOf(ctx context.Context, reader *store.Reader, args []string) (store.Snapshot, []string, error) {
	if len(args) > 0 {
		snapshot, err := reader.Snapshot(ctx, args[0])
		if err == nil {
			return snapshot, args[1:], nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return snapshot, nil, err
		}
	}
	snapshot, err := reader.Snapshot(ctx, "")
	if err == nil && len(args) > 0 && !slices.Contains(knownLogs(snapshot), args[0]) {
		return snapshot, nil, fail.Usage(
			fmt.Errorf("%q is not a run, an experiment or a node of %s", args[0], snapshot.Run.Run),
			"swarm logs "+snapshot.Run.Run+" with any of "+strings.Join(knownLogs(snapshot), ", "))

	}
	return snapshot, args, lifecycle.NotFound(err, "")
}

func knownLogs(s store.Snapshot) []string {
	names := []string{runlog.Coordinator}
	for _, n := range s.Nodes {
		names = append(names, n.Node)
	}
	return names
}

// checkLogs rejects nodes that the run does not have, and a run whose folder is gone.
func checkLogs(dir string, s store.Snapshot, nodes []string) error {
	for _, node := range nodes {
		if !slices.Contains(knownLogs(s), node) {
			return fail.Usage(
				fmt.Errorf("run %s has no node %q", s.Run.Run, node), strings.Join(knownLogs(s), ", "))

		}
	}
	if _, err := os.Stat(dir); err != nil {
		return fail.Hint(fmt.Errorf("the logs of %s are missing: %w", s.Run.Run, err), "swarm status "+s.Run.Run+" for the recorded facts")
	}
	return nil
}

// hasEnded reports whether no process writes to a run's logs anymore.
func hasEnded(ctx context.Context, reader *store.Reader, run string) (bool, error) {
	snapshot, err := reader.Snapshot(ctx, run)
	if err != nil {
		return false, err
	}
	if lifecycle.Elsewhere(snapshot.Run) {
		return snapshot.Run.State != store.RunRunning, nil
	}
	return !lifecycle.Identity(snapshot.Run).Alive(), nil // the process still logs after it has recorded the end
}

// logPrinter prints lines, each prefixed with its log's name.
type logPrinter struct {
	out    *bufio.Writer
	merge  *runlog.Merge
	asJSON bool
	flush  bool // after every line
	alone  bool // there is only one log: omit its name
	lines  int  // printed
}

func (p *logPrinter) print(line runlog.Line) error {
	p.lines++
	if err := p.write(line); err != nil {
		return fmt.Errorf("write the logs: %w", err)
	}
	if p.flush {
		return p.out.Flush()
	}
	return nil
}

func (p *logPrinter) write(line runlog.Line) error {
	if p.asJSON {
		var at *float64
		if !line.Time.IsZero() {
			seconds := float64(line.Time.UnixMilli()) / 1e3
			at = &seconds
		}
		encoder := json.NewEncoder(p.out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(struct {
			Log  string   `json:"log"`
			Time *float64 `json:"time"` // Unix seconds; null: unknown
			Line string   `json:"line"`
		}{line.Log, at, line.Text})
	}
	if p.alone {
		_, err := io.WriteString(p.out, charset.Shown(overwritten(line.Text))+"\n")
		return err
	}
	_, err := fmt.Fprintf(p.out, "%-*s | ", p.merge.Width(), line.Log)
	if err == nil {
		_, err = io.WriteString(p.out, charset.Shown(line.Text)+"\n")
	}
	return err
}

// jobLogs prints the output of a job's command.
func jobLogs(ctx context.Context, reader *store.Reader, j store.Job, nodes []string, o *LogOptions) error {
	if len(nodes) > 0 {
		return fail.Usage(fmt.Errorf("%s is a job with a single log and has no node %q", j.Job, nodes[0]), "swarm logs "+j.Job)
	}
	if err := job.CheckLog(j); err != nil {
		return err
	}
	out := bufio.NewWriter(o.Out)
	m := &runlog.Merge{Logs: []string{j.Job}, PathOf: func(string) string { return j.Log }, Last: -1, Follow: o.Follow}
	o.begin(m)
	printer := &logPrinter{out: out, merge: m, asJSON: o.JSON, flush: o.Follow, alone: true}
	m.Emit = printer.print
	err := m.Run(ctx, func(ctx context.Context) (bool, error) {
		now, err := reader.Job(ctx, j.Job)
		return err == nil && !job.GoesOn(now), err
	})
	return errors.Join(err, out.Flush())
}

// overwritten returns what a terminal shows of a line with carriage returns, as progress bars print it.
func overwritten(text string) string { return text[strings.LastIndexByte(text, '\r')+1:] }
