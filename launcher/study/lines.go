package study

import (
	"io"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Types of lines that only sweep -o json has.
const (
	Started event.Type = "sweep_started"
	Planned event.Type = "sweep_planned" // the one line of --dry-run
)

// Event is a line of sweep -o json. Index counts from 1.
type Event struct {
	Type     event.Type `json:"type"` // sweep_started, run_started, run_ended
	Time     float64    `json:"time"`
	Index    int        `json:"index,omitempty"`
	Runs     int        `json:"runs"`
	Attempt  int        `json:"attempt,omitempty"` // of this sweep at the run, from 1
	ExitCode *int       `json:"exit_code,omitempty"`
	Message  string     `json:"message,omitempty"`

	*stats.SweepRow                    // of the run that the line is about; none in a sweep's own lines
	Sweep           *stats.SweepStatus `json:"sweep,omitempty"`
}

// lines prints the events of a sweep, one JSON object a line. Of a nil one nothing is printed.
type lines struct{ out io.Writer }

func (l *lines) write(v any) error { return event.NewWriter(l.out).Write(v) }

// tell prints an event. A reader that has gone away is no reason to end a sweep of days.
func (l *lines) tell(e Event) {
	if l == nil {
		return
	}
	e.Time = event.Now()
	_ = l.write(e)
}
