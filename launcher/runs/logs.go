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

// FollowedLines is how many lines of the past a follower sees of each log unless told otherwise.
const FollowedLines = 10

// Lines is a flag: a number of lines, or all.
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

// LogOptions say which logs are printed, and how.
type LogOptions struct {
	Home   layout.Home
	Out    io.Writer
	Stderr io.Writer // for a word about empty logs

	Follow bool
	Lines  Lines
	JSON   bool // a document a line
}

// Logs prints the logs of a run, or of a job. args are a run and nodes, nodes of the newest run, or a job; none: the
// newest run's.
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
	_, err = fmt.Fprintf(o.Stderr, "The logs of %s are empty.\n", snapshot.Run.Run)
	return err
}

// begin says with which lines of the past to begin.
func (o *LogOptions) begin(m *runlog.Merge) {
	switch {
	case o.Lines.text != "":
		m.Last = o.Lines.n
	case o.Follow:
		m.Last = FollowedLines
	}
}

// logsOf parts the arguments into a run and names of nodes. A first name that is no run's is a node's of the newest
// run.
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
			fmt.Errorf("%q is no run, no experiment, and no node of %s", args[0], snapshot.Run.Run),
			"swarm logs "+snapshot.Run.Run+" and any of "+strings.Join(knownLogs(snapshot), ", "))

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

// checkLogs refuses nodes that the run hasn't, and a run whose folder has gone.
func checkLogs(dir string, s store.Snapshot, nodes []string) error {
	for _, node := range nodes {
		if !slices.Contains(knownLogs(s), node) {
			return fail.Usage(
				fmt.Errorf("run %s has no node %q", s.Run.Run, node), strings.Join(knownLogs(s), ", "))

		}
	}
	if _, err := os.Stat(dir); err != nil {
		return fail.Hint(fmt.Errorf("the logs of %s are gone: %w", s.Run.Run, err), "swarm status "+s.Run.Run+" for what the database knows")
	}
	return nil
}

// hasEnded tells whether nobody writes to a run's logs any more.
func hasEnded(ctx context.Context, reader *store.Reader, run string) (bool, error) {
	snapshot, err := reader.Snapshot(ctx, run)
	if err != nil {
		return false, err
	}
	if lifecycle.Elsewhere(snapshot.Run) {
		return snapshot.Run.State != store.RunRunning, nil
	}
	return !lifecycle.Identity(snapshot.Run).Alive(), nil // it logs a little after it has recorded the end
}

// logPrinter prints lines, each with its log's name before it.
type logPrinter struct {
	out    *bufio.Writer
	merge  *runlog.Merge
	asJSON bool
	flush  bool // after every line
	alone  bool // there is one log: whose a line is need not be said
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
			Time *float64 `json:"time"` // Unix seconds; null: not told
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

// jobLogs prints what a job's command printed.
func jobLogs(ctx context.Context, reader *store.Reader, j store.Job, nodes []string, o *LogOptions) error {
	if len(nodes) > 0 {
		return fail.Usage(fmt.Errorf("%s is a job and has one log, not those of nodes such as %q", j.Job, nodes[0]), "swarm logs "+j.Job)
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

// overwritten is what a terminal shows of a line that goes back to its beginning, as progress bars do.
func overwritten(text string) string { return text[strings.LastIndexByte(text, '\r')+1:] }
