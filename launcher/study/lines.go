package study

import (
	"io"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/sweep"
)

// Event types that only sweep -o json prints.
const (
	Started event.Type = "sweep_started"
	Planned event.Type = "sweep_planned" // the only line of --dry-run
)

// Event is a line of sweep -o json. Index counts from 1.
type Event struct {
	Type     event.Type `json:"type"` // sweep_started, run_started, run_ended
	Time     float64    `json:"time"`
	Index    int        `json:"index,omitempty"`
	Runs     int        `json:"runs"`
	Attempt  int        `json:"attempt,omitempty"` // number of times that this sweep has run it, from 1
	ExitCode *int       `json:"exit_code,omitempty"`
	Message  string     `json:"message,omitempty"`

	*sweep.Row               // of the run in question; nil in lines about the sweep
	Sweep      *sweep.Status `json:"sweep,omitempty"`
}

// lines prints the events of a sweep, one JSON object per line. A nil *lines prints nothing.
type lines struct{ out io.Writer }

func (l *lines) write(v any) error { return event.NewWriter(l.out).Write(v) }

// tell prints an event. It ignores errors, because a closed reader must not end a sweep of several days.
func (l *lines) tell(e Event) {
	if l == nil {
		return
	}
	e.Time = event.Now()
	_ = l.write(e)
}
