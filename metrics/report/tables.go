package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
)

// Matrix holds the rollouts used in a run, by node and peer.
type Matrix struct {
	Peers []string
	Rows  []MatrixRow
}

// MatrixRow is the row of one node.
type MatrixRow struct {
	Node  string
	Cells []MatrixCell // by Matrix.Peers
}

// MatrixCell counts a node's use of one peer's rollouts.
type MatrixCell struct {
	Own, None                                 bool // Own: the node itself; None: nothing recorded
	Used, Available, Filtered, Rejected, Late int
	Heat                                      int // 0..9, darkness of the cell: Used relative to the maximum of the matrix
}

// matrixNodes bounds the nodes of a Matrix, because a matrix of a thousand nodes would have a million cells.
const matrixNodes = 64

// Matrix returns the matrix of a run's peers. It is empty for more than matrixNodes nodes.
func (run *Run) Matrix() Matrix {
	var nodes []string
	add := func(name string) {
		if !slices.Contains(nodes, name) {
			nodes = append(nodes, name)
		}
	}
	for _, n := range run.Status.Nodes {
		add(n.ID)
	}
	most := 0
	cells := map[[2]string]MatrixCell{}
	for _, p := range run.Peers {
		add(p.Node)
		add(p.Peer)
		most = max(most, p.Used)
		cells[[2]string{p.Node, p.Peer}] = MatrixCell{Used: p.Used, Available: p.Available, Filtered: p.Filtered, Rejected: p.Rejected, Late: p.Late}
	}
	if len(cells) == 0 || len(nodes) > matrixNodes {
		return Matrix{}
	}
	m := Matrix{Peers: nodes}
	for _, node := range nodes {
		row := MatrixRow{Node: node}
		for _, peer := range nodes {
			cell, ok := cells[[2]string{node, peer}]
			cell.Own, cell.None = node == peer, !ok
			if most > 0 {
				cell.Heat = 9 * cell.Used / most
			}
			row.Cells = append(row.Cells, cell)
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// Troubles counts the problems of a run.
type Troubles struct {
	OutOfMemory, Restarts, Warnings, Failures, GivenUp int
}

// Troubles counts the problems in the run's timeline.
func (run *Run) Troubles() Troubles {
	var out Troubles
	for _, e := range run.Events {
		switch e.Event.Type {
		case event.TypeMemoryStep:
			out.OutOfMemory++
		case event.TypeRestart:
			out.Restarts++
		case event.TypeWarning, event.TypeAlarm:
			out.Warnings++
		case event.TypeFailure:
			out.Failures++
		case event.TypeGiveUp:
			out.GivenUp++
		}
	}
	return out
}

// EventRow is a row in the table of events.
type EventRow struct {
	Time, Node, Text, Kind string
}

// EventRows returns the newest maxEvents events, oldest first.
func (run *Run) EventRows() []EventRow {
	var out []EventRow
	for _, e := range run.Events[max(0, len(run.Events)-maxEvents):] {
		out = append(out, EventRow{clock(e.Event.Time), e.Event.Node, shortened(eventText(e.Event), 600), eventKind(e.Event)})
	}
	return out
}

// EventsLeftOut returns the number of older events.
func (run *Run) EventsLeftOut() int { return max(0, len(run.Events)-maxEvents) }

// Card describes the run's GPUs.
func (run *Run) Card() string {
	var names []string
	for _, d := range run.Devices {
		if !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s in all", units.List(names, "and"), gigabytes(run.cardBytes()))
}

// NewestEvaluation returns the last held-out evaluation, or nil if there is none.
func (run *Run) NewestEvaluation() *evaluation.Row {
	if n := len(run.Evaluations.Rows); n > 0 {
		return &run.Evaluations.Rows[n-1]
	}
	return nil
}

// EvaluatedTasks returns the tasks in any run's newest evaluation, by name.
func (r *Report) EvaluatedTasks() []string {
	var names []string
	for _, run := range r.Runs {
		for _, t := range run.Evaluations.Tasks {
			if !slices.Contains(names, t.Task) {
				names = append(names, t.Task)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Evaluated returns the runs with a held-out evaluation.
func (r *Report) Evaluated() []*Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run *Run) bool { return len(run.Evaluations.Rows) == 0 })
}

// TaskPasses formats the results of a task in a run's newest evaluation: pass@1 12.0 %, pass@8 40.0 %.
func (run *Run) TaskPasses(task string) string {
	for _, t := range run.Evaluations.Tasks {
		if t.Task == task {
			return passes(t.Pass)
		}
	}
	return unknown
}

func passes(list []evaluation.Pass) string {
	var parts []string
	for i, p := range list {
		if i == 0 || i == len(list)-1 {
			parts = append(parts, fmt.Sprintf("pass@%d\u00a0%s", p.K, share(&p.Value)))
		}
	}
	if parts == nil {
		return unknown
	}
	return strings.Join(parts, ", ")
}

// Experiments returns the names of the runs' experiments, by first start.
func (r *Report) Experiments() []string {
	var names []string
	for _, run := range r.Runs {
		if !slices.Contains(names, run.Totals.Experiment) {
			names = append(names, run.Totals.Experiment)
		}
	}
	return names
}

// Names returns the display names of Experiments. In a study these are the short names.
func (r *Report) Names() []string {
	names := r.Experiments()
	for i, name := range names {
		names[i] = r.Comparison.ShortName(name)
	}
	return names
}

// Configuration returns a run's configuration, by key.
func (run *Run) Configuration() map[string]string { return flatten(run.Totals.Config) }
