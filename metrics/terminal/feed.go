// Package terminal shows a run to users: a live view, plain lines for output that is not a terminal, and the final
// summary. A function supplies stats.Status values and a Feed supplies events. The package stores no data and computes
// no statistics, and must not import node, launcher or metrics/dashboard.
package terminal

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// Config is the configuration of Live and Plain.
type Config struct {
	// Poll returns the run's current status. It is called every Interval, never concurrently.
	Poll     func(context.Context) (stats.Status, error)
	Interval time.Duration // default 1 s
	Feed     *Feed         // events to show, may be nil

	Out     io.Writer
	Environ []string // environment of the terminal: TERM, NO_COLOR, COLORTERM, LC_ALL, LC_CTYPE, LANG

	// Live only.
	In   io.Reader
	Page string // URL of the run's dashboard; empty: none
	Join string // instruction for joining, shown until a worker joins; empty: joining is not possible

	// Interrupt requests a graceful stop on the first ctrl+c, or on q followed by s. It requests an immediate stop,
	// with now set, on the second ctrl+c. It must not block. If it is nil, q and ctrl+c leave the view and the run
	// continues.
	Interrupt func(now bool)

	// History returns the history of a node, which a Status lacks. It may be called concurrently for different nodes.
	// It may be nil.
	History func(ctx context.Context, node string) (NodeHistory, error)

	// Logs emits the newest last lines of a node's log and then new lines, until ctx ends or the log is complete. With
	// an empty node it merges the logs of the coordinator and of every node by time, starting with the newest last
	// lines of each. It runs in its own goroutine. It may be nil.
	Logs func(ctx context.Context, node string, last int, emit func(LogLine)) error

	Location *time.Location   // time zone of displayed times, default time.Local
	Now      func() time.Time // default time.Now
}

// NodeHistory is the history of a node.
type NodeHistory struct {
	First   int           // round of Rewards[0], from 0
	Rewards []float64     // by round; NaN: none, or not finite
	HeldOut []HeldOut     // evaluations of the same questions, by round
	Events  []event.Event // the node's, oldest first
}

// HeldOut is a node's mean reward on held-out questions.
type HeldOut struct {
	Round  int // rounds that its weights were trained for; 0: none
	Reward float64
}

// LogLine is a line of a log as written, without its line end.
type LogLine struct {
	Log  string // name of the node, or coordinator
	Text string
}

func (c Config) withDefaults() Config {
	if c.Interval <= 0 {
		c.Interval = time.Second
	}
	if c.Location == nil {
		c.Location = time.Local
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Feed == nil {
		c.Feed = NewFeed()
	}
	return c
}

// feedLength is the number of lines that a Feed keeps for slow readers.
const feedLength = 1000

// Feed passes events from the coordinator to views. Adding never blocks. Lines that are not read in time are dropped,
// oldest first.
type Feed struct {
	mu    sync.Mutex
	lines []feedLine
	added int
}

type feedLine struct {
	time float64
	text string
}

// NewFeed returns an empty Feed.
func NewFeed() *Feed { return &Feed{} }

// Add adds the text of e, unless the event is not shown to users.
func (f *Feed) Add(e event.Event) {
	text := wording.Event(e)
	if text == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added++
	f.lines = append(f.lines, feedLine{e.Time, text})
	if len(f.lines) > feedLength {
		f.lines = append(f.lines[:0], f.lines[len(f.lines)-feedLength:]...)
	}
}

// since returns the lines added after the first seen lines, and the total number of lines.
func (f *Feed) since(seen int) ([]feedLine, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(f.added-seen, len(f.lines))
	return append([]feedLine(nil), f.lines[len(f.lines)-n:]...), f.added
}

// stamped returns the line with its time of day as prefix.
func (l feedLine) stamped(loc *time.Location) string {
	at := time.UnixMilli(int64(l.time * 1000)).In(loc)
	return at.Format(time.TimeOnly) + "  " + l.text
}
