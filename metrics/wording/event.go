// Package wording turns statistics and events into sentences, so that the command line, reports, the dashboard and JSON
// use the same words. It formats values of metrics/event and metrics/stats and computes none. metrics/query calls it
// for all documents that contain verdicts.
package wording

import (
	"fmt"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// Event describes e in one printable line, or returns an empty string for an event that is not shown.
func Event(e event.Event) string { return charset.Line(describe(e)) }

func describe(e event.Event) string {
	switch e.Type {
	case event.TypeWarning:
		return Colons(subject(e, "warning"), e.Message)
	case event.TypeLoaded:
		if e.Loaded == nil || e.Loaded.ReplayedRounds == 0 {
			return ""
		}
		return subject(e, fmt.Sprintf("replayed %s of its journal in %s", units.Plural(e.Loaded.ReplayedRounds, "update"),
			units.Span(e.Loaded.ReplaySeconds)))
	case event.TypeMemoryStep:
		return memoryLine(e)
	case event.TypeAlarm:
		return alarmLine(e)
	case event.TypeFailure:
		return Colons(subject(e, "failing"), Why(e.Cause, e.Message))
	case event.TypeExit:
		if e.ExitCode != nil && *e.ExitCode == 0 || e.Cause == event.CauseStopped {
			return ""
		}
		ended := "ended"
		if e.ExitCode != nil {
			ended = fmt.Sprintf("ended with exit code %d", *e.ExitCode)
		}
		return Colons(subject(e, ended), Why(e.Cause, e.Message))
	case event.TypeRestart:
		if e.Seconds == 0 {
			return Colons(subject(e, "restarts at once"), e.Message)
		}
		return Colons(subject(e, "restarts in "+units.Span(e.Seconds)), e.Message)
	case event.TypeGiveUp:
		return Colons(subject(e, "given up"), Why(e.Cause, e.Message))
	case event.TypeJoin:
		if e.Message == "" {
			return subject(e, "is back")
		}
		return Colons(subject(e, fmt.Sprintf("joins at round %d", e.RoundIndex)), e.Message)
	case event.TypeLeave:
		if e.Cause == "" {
			return Colons(subject(e, "is away"), e.Message)
		}
		return Colons(subject(e, "has left"), Why(e.Cause, e.Message))
	case event.TypeWorker:
		return Colons(fmt.Sprintf("worker %s %s", e.Worker, e.State), e.Message)
	case event.TypeRunEnded:
		return Colons(fmt.Sprintf("run %s", e.State), e.Message)
	}
	return ""
}

func subject(e event.Event, what string) string {
	if e.Node == "" {
		return what
	}
	return e.Node + " " + what
}
