package main

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

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/store"
)

type logsOptions struct {
	follow bool
	lines  linesFlag
	output string
}

// followedLines is how many lines of the past a follower sees of each log unless told otherwise.
const followedLines = 10

// linesFlag is a number of lines, or all.
type linesFlag struct {
	text string
	n    int // -1: all
}

func (l *linesFlag) String() string { return l.text }

func (l *linesFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if text == "all" {
		n, err = -1, nil
	} else if err != nil || n < 0 {
		return &configs.Error{Key: "lines", Value: text, Allowed: "a whole number from 0, or all"}
	}
	l.text, l.n = text, n
	return err
}

func (l *linesFlag) Type() string { return "number" }

func newLogsCommand(g *globals) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:   "logs [EXPERIMENT or RUN] [NODE...] | JOB",
		Short: "Print the logs of a run's coordinator and nodes, one beside the other",
		Long: "logs prints the coordinator's log and every node's, put together by time, or those of the nodes named; without a run those of the\n" +
			"newest. Each line begins with whose it is. -f goes on until the run ends. Of a job of swarm run it prints what its command printed.",
		Example: `  swarm logs -f
  swarm logs node_3 -n 50
  swarm logs 4loc4ext-1 coordinator`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLogs(cmd.Context(), g, args, &o)
		},
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what is written, until the run ends")
	cmd.Flags().VarP(&o.lines, "lines", "n", "newest lines of each log, or all (all by default, "+strconv.Itoa(followedLines)+" with -f)")
	addLinesFlag(cmd.Flags(), &o.output, "one log line")
	return cmd
}

func runLogs(ctx context.Context, g *globals, args []string, o *logsOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	found, ok, err := job.Named(ctx, reader, nameIn(args))
	if err != nil {
		return err
	}
	if ok {
		return jobLogs(ctx, g, reader, found, args[1:], o)
	}
	snapshot, nodes, err := logsOf(ctx, reader, args)
	if err != nil {
		return err
	}
	dir := g.home.Run(snapshot.Run.Run)
	if err := checkLogs(dir, snapshot, nodes); err != nil {
		return err
	}
	out := bufio.NewWriter(g.stdout)
	m := &runlog.Merge{Dir: dir, Logs: nodes, Last: -1, Follow: o.follow}
	o.begin(m)
	printer := &logPrinter{out: out, merge: m, asJSON: o.output == "json", flush: o.follow}
	m.Emit = printer.print
	err = m.Run(ctx, func(ctx context.Context) (bool, error) { return hasEnded(ctx, reader, snapshot.Run.Run) })
	if err := errors.Join(err, out.Flush()); err != nil || printer.lines > 0 || o.follow || o.lines.text != "" && o.lines.n == 0 {
		return err
	}
	_, err = fmt.Fprintf(g.stderr, "The logs of %s are empty.\n", snapshot.Run.Run)
	return err
}

// begin says with which lines of the past to begin.
func (o *logsOptions) begin(m *runlog.Merge) {
	switch {
	case o.lines.text != "":
		m.Last = o.lines.n
	case o.follow:
		m.Last = followedLines
	}
}

// logsOf parts the arguments into a run and names of nodes. A first name that is no run's is a node's of the newest run.
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
