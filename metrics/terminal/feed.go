// Package terminal shows a run to a person: a live view that redraws itself, plain lines where the output is no
// terminal, and the summary at the end. It takes stats.Status values from a function and events through a Feed, owns no
// data and computes no statistics; it must not import node, launcher or metrics/dashboard.
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

// Config is what Live and Plain share.
type Config struct {
	// Poll returns the run's present status. It is called every Interval, never twice at once.
	Poll     func(context.Context) (stats.Status, error)
	Interval time.Duration // default 1 s
	Feed     *Feed         // events to show, may be nil

	Out     io.Writer
	Environ []string // of the terminal: TERM, NO_COLOR, COLORTERM, LC_ALL, LC_CTYPE, LANG

	// Live only.
	In   io.Reader
	Page string // where the run is shown in a browser; empty: nowhere
	Join string // how others can join, as long as nobody has; empty: they can't

	// Interrupt asks for an orderly stop when ctrl+c is first pressed, or q and then s, and with now set for an
	// immediate one when ctrl+c is pressed again. It must not block. Where it is nil, q and ctrl+c leave the view and
	// the run goes on.
	Interrupt func(now bool)

	// History returns what a Status doesn't tell of a node. It may be called twice at once for different nodes. May be
	// nil.
	History func(ctx context.Context, node string) (NodeHistory, error)

	// Logs hands over the newest lines of a node's log, or where node is empty of the coordinator's and every node's by
	// time, last of each, and goes on with what is written until ctx ends or nobody writes any more. It has a goroutine
	// of its own. May be nil.
	Logs func(ctx context.Context, node string, last int, emit func(LogLine)) error

	Location *time.Location   // of the times shown, default time.Local
	Now      func() time.Time // default time.Now
}

// NodeHistory is how a node has fared.
type NodeHistory struct {
	First   int           // round of Rewards[0], from 0
	Rewards []float64     // by round; NaN: none, or not finite
	HeldOut []HeldOut     // of equal questions, by round
	Events  []event.Event // the node's, oldest first
}

// HeldOut is a node's mean reward over held-out questions.
type HeldOut struct {
	Round  int // rounds that its weights had seen; 0: none
	Reward float64
}

// LogLine is a line of a log as it was written, without its end.
type LogLine struct {
	Log  string // whose: a node's name, or the coordinator
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

// feedLength is how many lines a Feed keeps for whoever is slow to read them.
const feedLength = 1000

// Feed hands events from the coordinator to whatever shows them. Adding never blocks; lines nobody reads are forgotten,
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

// Add notes e if it is one that people should see.
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

// since returns the lines added after the first `seen` ones, and how many there are now.
func (f *Feed) since(seen int) ([]feedLine, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(f.added-seen, len(f.lines))
	return append([]feedLine(nil), f.lines[len(f.lines)-n:]...), f.added
}

// stamped returns the line with its time of day in front.
func (l feedLine) stamped(loc *time.Location) string {
	at := time.UnixMilli(int64(l.time * 1000)).In(loc)
	return at.Format(time.TimeOnly) + "  " + l.text
}
