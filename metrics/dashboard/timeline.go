package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// entry is an event of a run or node.
type entry struct {
	Run     string     `json:"run"`
	ID      int64      `json:"id"`     // increases with time, over all runs
	Time    float64    `json:"time"`   // Unix seconds
	Node    string     `json:"node"`   // empty: an event of the run or of its worker
	Worker  string     `json:"worker"` // owner of the node; empty: the coordinator's host
	Type    event.Type `json:"type"`
	Cause   string     `json:"cause"`
	Message string     `json:"message"`
	Level   string     `json:"level"` // info, warning, error
}

func newEntry(e store.Entry) entry {
	return entry{e.Event.Run, e.ID, e.Event.Time, e.Event.Node, e.Event.Worker, e.Event.Type, cause(e.Event), describe(e.Event), level(e.Event)}
}

func cause(e event.Event) string {
	if e.Cause == "" && e.MemoryStep != nil {
		return e.MemoryStep.Cause
	}
	return e.Cause
}

// describe returns the text of an event, as in the terminal if it has one.
func describe(e event.Event) string {
	text := wording.Event(e)
	if e.Node != "" {
		text = strings.TrimPrefix(text, e.Node+" ")
	}
	text = strings.TrimPrefix(text, "warning: ") // Level contains it
	switch {
	case text != "":
		return text
	case e.Type == event.TypeSpawn:
		return fmt.Sprintf("process %d started", e.PID)
	case e.Type == event.TypeExit:
		return "process ended"
	case e.Type == event.TypeRunStarted:
		return "run started"
	}
	return cmp.Or(e.Message, string(e.Type))
}

func level(e event.Event) string {
	switch e.Type {
	case event.TypeFailure, event.TypeGiveUp:
		return "error"
	case event.TypeWarning, event.TypeRestart, event.TypeMemoryStep, event.TypeAlarm:
		return "warning"
	case event.TypeLeave:
		if e.Cause == "" {
			return "warning" // the swarm misses the node
		}
	case event.TypeWorker:
		if e.State != event.WorkerConnected && e.State != event.WorkerLeft {
			return "warning"
		}
	case event.TypeExit:
		if e.ExitCode != nil && *e.ExitCode == 0 || e.Cause == event.CauseStopped {
			return "info"
		}
		return "warning"
	case event.TypeRunEnded:
		if string(e.State) == store.RunFailed || string(e.State) == store.RunLost {
			return "error"
		}
	}
	return "info"
}

// timeline holds the newest entries of a run.
type timeline struct {
	seen    int64 // ID of the newest entry
	entries []entry
}

const (
	timelinePage = 1000
	timelineKept = 2000 // entries of a run in memory
)

// read reads new entries and returns them.
func (t *timeline) read(ctx context.Context, reader *store.Reader, run string) ([]entry, error) {
	var added []entry
	for {
		page, err := reader.Timeline(ctx, run, t.seen, timelinePage)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			t.seen = e.ID
			added = append(added, newEntry(e))
		}
		t.entries = append(t.entries, added[max(0, len(added)-len(page)):]...)
		if over := len(t.entries) - timelineKept; over > 0 {
			t.entries = slices.Delete(t.entries, 0, over)
		}
		if len(page) < timelinePage {
			return added[max(0, len(added)-timelineKept):], nil
		}
	}
}

// recently is the number of seconds after its end in which a run is still polled, for the last events of its
// coordinator.
const recently = 60

// readTimelines sends new entries of runs that are running or ended recently.
func (b *board) readTimelines(ctx context.Context, reader *store.Reader, now float64) error {
	for _, k := range b.runs {
		if !k.alive && now-k.last() > recently {
			continue
		}
		run := k.totals.Run.Run
		t := b.timelines[run]
		if t == nil {
			t = &timeline{}
			b.timelines[run] = t
		}
		added, err := t.read(ctx, reader, run)
		if err != nil {
			return err
		}
		for _, e := range added {
			b.tell(eventMessage("entry", fmt.Sprint(e.ID), e))
		}
	}
	return nil
}

// last returns the newest sign of life of a run's coordinator.
func (k *known) last() float64 {
	last := k.totals.Resumed
	for _, a := range k.snapshot.Attempts {
		last = max(last, a.Seen, a.Ended)
	}
	return last
}

// since returns the entries in memory after an ID, over all runs, oldest first, at most timelineKept. The caller must
// hold mu.
func (b *board) since(id int64) []entry {
	var list []entry
	for _, t := range b.timelines {
		for _, e := range t.entries {
			if e.ID > id {
				list = append(list, e)
			}
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.ID, b.ID) })
	return list[max(0, len(list)-timelineKept):]
}

func (s *Server) getEvents(ctx context.Context, r *http.Request) (any, error) {
	p := readParams(r)
	after := p.whole("after", 0, 0, 1<<53)
	limit := p.whole("limit", 200, 1, timelinePage)
	tail := p.whole("tail", 0, 1, timelinePage)
	if err := p.done(); err != nil {
		return nil, err
	}
	k, err := s.run(ctx, r)
	if err != nil {
		return nil, err
	}
	reader, err := s.db.open(ctx)
	if err != nil {
		return nil, err
	}
	type document struct {
		Events []entry `json:"events"` // oldest first
	}
	run := k.totals.Run.Run
	if tail > 0 {
		all := &timeline{}
		if _, err := all.read(ctx, reader, run); err != nil {
			return nil, err
		}
		return document{append([]entry{}, all.entries[max(0, len(all.entries)-tail):]...)}, nil
	}
	page, err := reader.Timeline(ctx, run, int64(after), limit)
	d := document{Events: make([]entry, len(page))}
	for i, e := range page {
		d.Events[i] = newEntry(e)
	}
	return d, err
}
