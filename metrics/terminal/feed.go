// Package terminal shows a run to a person: a live view that redraws itself, plain lines where the output is no terminal, and the
// summary at the end. It takes stats.Status values from a function and events through a Feed, owns no data and computes
// no statistics; it must not import anything of ours but metrics/stats, metrics/store and metrics/event.
package terminal

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Config is what Live and Plain share.
type Config struct {
	// Poll returns the run's present status. It is called every Interval, never twice at once.
	Poll     func(context.Context) (stats.Status, error)
	Interval time.Duration // default 0.5 s
	Feed     *Feed         // events to show, may be nil

	Out io.Writer

	// Live only.
	In      io.Reader
	Environ []string // of the terminal: TERM, NO_COLOR, COLORTERM

	// Interrupt asks for an orderly stop when q or ctrl+c is first pressed, and with now set for an immediate one when
	// pressed again. It must not block. Where it is nil, q and ctrl+c leave the view and the run goes on.
	Interrupt func(now bool)

	Location *time.Location   // of the times shown, default time.Local
	Now      func() time.Time // default time.Now
}

func (c Config) withDefaults() Config {
	if c.Interval <= 0 {
		c.Interval = 500 * time.Millisecond
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

// Feed hands events from the coordinator to whatever shows them. Adding never blocks; lines nobody reads are forgotten, oldest first.
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
	text := EventLine(e)
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

// EventLine describes e in one line, empty for an event that isn't worth one.
func EventLine(e event.Event) string {
	switch e.Type {
	case event.TypeWarning:
		return join(subject(e, "warning"), e.Message)
	case event.TypeLoaded:
		if e.Loaded == nil || e.Loaded.ReplayedRounds == 0 {
			return ""
		}
		return subject(e, fmt.Sprintf("applied %s of its journal again in %s", count(e.Loaded.ReplayedRounds, "update"),
			seconds(e.Loaded.ReplaySeconds)))
	case event.TypeMemoryStep:
		return memoryLine(e)
	case event.TypeFailure:
		return join(subject(e, "failing"), e.Cause, e.Message)
	case event.TypeExit:
		if e.ExitCode != nil && *e.ExitCode == 0 || e.Cause == event.CauseStopped {
			return ""
		}
		ended := "ended"
		if e.ExitCode != nil {
			ended = fmt.Sprintf("ended with exit code %d", *e.ExitCode)
		}
		return join(subject(e, ended), e.Cause, e.Message)
	case event.TypeRestart:
		return join(subject(e, "restarts in "+seconds(e.Seconds)), e.Message)
	case event.TypeGiveUp:
		return join(subject(e, "given up"), e.Cause, e.Message)
	case event.TypeRunEnded:
		return join(fmt.Sprintf("run %s", e.State), e.Message)
	}
	return ""
}

func subject(e event.Event, what string) string {
	if e.Node == "" {
		return what
	}
	return e.Node + " " + what
}
