package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

type nodeStatus = stats.NodeStatus

// eventText describes an event on one line.
func eventText(e event.Event) string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, strings.Join(strings.Fields(text), " "))
		}
	}
	if m := e.MemoryStep; m != nil { // the event's cause and message repeat the step
		return fmt.Sprintf("out of memory (%s) in round %d's %s: %s; %s requested, %s used, %s free of %s", label(m.Cause), m.Round, m.Phase,
			label(m.Action), gigabytes(m.RequestedBytes), gigabytes(m.UsedBytes), gigabytes(m.FreeBytes), gigabytes(m.TotalBytes))
	}
	if e.Alarm != nil {
		return strings.Join(strings.Fields(wording.Event(e)), " ")
	}
	switch e.Type {
	case event.TypeJoin:
		if e.Message == "" {
			add("is back")
		} else {
			add(fmt.Sprintf("joins at round %d", e.RoundIndex))
		}
	case event.TypeLeave:
		add(left(e))
	case event.TypeWorker:
		add("worker " + e.Worker)
	default:
		add(label(string(e.Type)))
	}
	add(label(string(e.State)))
	add(label(e.Cause))
	if e.ExitCode != nil {
		add(fmt.Sprintf("exit code %d", *e.ExitCode))
	}
	if e.Type == event.TypeRestart && e.Seconds > 0 {
		add("after " + duration(e.Seconds))
	}
	add(e.Message)
	return strings.Join(parts, ": ")
}

// left says whether a node is away or has left.
func left(e event.Event) string {
	if e.Cause == "" {
		return "is away"
	}
	return "has left"
}

// label converts a name of the database to words.
func label(name string) string {
	return strings.ReplaceAll(strings.TrimSuffix(name, "_time"), "_", " ")
}

// shortened cuts a text to a number of characters.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

func unknowns(n int) plotted {
	out := make(plotted, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}
