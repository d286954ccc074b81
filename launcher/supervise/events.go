package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const maxWarnings = 10 // about a process's invalid output

// fromNode reports whether a node may send events of this type. The launcher itself emits the others.
func fromNode(t event.Type) bool {
	switch t {
	case event.TypeState, event.TypeEngine, event.TypeLoaded, event.TypeRound, event.TypeMemory, event.TypeLease, event.TypeRelease,
		event.TypeCheckpoint, event.TypeEval, event.TypeMemoryStep, event.TypeWarning, event.TypeFailure:
		return true
	}
	return false
}

// complete reports whether an event has the field that its type requires.
func complete(e event.Event) bool {
	switch e.Type {
	case event.TypeLoaded:
		return e.Loaded != nil
	case event.TypeRound:
		return e.Round != nil
	case event.TypeMemory:
		return e.Memory != nil
	case event.TypeLease, event.TypeRelease:
		return e.Lease != nil
	case event.TypeCheckpoint:
		return e.Checkpoint != nil
	case event.TypeEval:
		return e.Eval != nil
	case event.TypeMemoryStep:
		return e.MemoryStep != nil
	}
	return true
}

// readEvents reads stdout to its end. An invalid line causes a warning. An endless line, or the end of stdout while
// the process keeps running, condemns the process.
func (c *Child) readEvents(stdout io.Reader) {
	lines := event.NewReader(stdout, event.MaxLine)
	warnings := 0
	warn := func(format string, args ...any) {
		warnings++
		if warnings > maxWarnings {
			return
		}
		message := fmt.Sprintf(format, args...)
		if warnings == maxWarnings {
			message += " (further warnings of this process are not shown)"
		}
		c.warn(message)
	}
	for {
		var e event.Event
		err := lines.Read(&e)
		var syntax *json.SyntaxError
		var mismatch *json.UnmarshalTypeError
		switch {
		case err == nil && !fromNode(e.Type):
			warn("ignored an event of type %.40q", e.Type)
		case err == nil && !complete(e):
			warn("ignored an event of type %s without its content", e.Type)
		case err == nil:
			if e.Time == 0 {
				e.Time = event.Now()
			}
			c.note(e)
			c.emit(e)
		case errors.As(err, &syntax), errors.As(err, &mismatch):
			warn("ignored a line on stdout: %v", err)
		case errors.Is(err, event.ErrLineTooLong):
			c.Condemn(event.CauseEngine, fmt.Sprintf("wrote a line of more than %d bytes", event.MaxLine))
			io.Copy(io.Discard, stdout)
			return
		default:
			c.afterStdout()
			return
		}
	}
}

func (c *Child) emit(e event.Event) {
	c.emitMu.Lock()
	defer c.emitMu.Unlock()
	c.onEvent(e)
}

func (c *Child) warn(message string) {
	c.emit(event.Event{Type: event.TypeWarning, Time: event.Now(), Message: message})
}

// afterStdout gives a child that closed its stdout a moment to end.
func (c *Child) afterStdout() {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.Condemn(event.CauseEngine, "closed its stdout but continued to run")
	}
}

// note records what the classification of the exit needs.
func (c *Child) note(e event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Type {
	case event.TypeState:
		c.exit.State = e.State
	case event.TypeLoaded:
		c.exit.Loaded = true
	case event.TypeFailure:
		c.exit.Failure = &e
	}
}
