package supervise

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Exit codes of a node process.
const (
	codeConfig = 2
	codeMemory = 3
)

// Exit has everything known about the end of a process.
type Exit struct {
	Code    int            // -1 after a signal
	Signal  syscall.Signal // 0: none
	Asked   bool           // it had been told to stop
	Forced  bool           // we sent a signal
	Loaded  bool           // it had reported that its model was loaded
	State   event.State    // the last reported state
	Failure *event.Event   // the process's own report, if any
	Cause   string         // why we killed it, if we did
	Message string
	Tail    string // end of its stderr

	KernelKills int64 // kills of any process by the kernel's out-of-memory killer shortly before the end; -1: unknown
}

// Verdict is the classification of an Exit.
type Verdict struct {
	State   event.State // done, stopped or failed
	Cause   string      // one of event.Cause*; empty when done
	Message string      // for people
	Heals   bool        // a restart can help
}

// Verdict classifies an exit. In order of precedence it uses our own reason, the process's report, the signal and
// the exit code, and the log.
func (e Exit) Verdict() Verdict {
	switch {
	case e.Asked && e.Code == 0:
		if e.State == event.StateDone {
			return Verdict{State: event.StateDone}
		}
		return Verdict{State: event.StateStopped, Cause: event.CauseStopped, Message: "stopped by request"}
	case e.Asked && e.Forced:
		return Verdict{State: event.StateFailed, Cause: event.CauseStopped, Message: "killed because it did not stop in time"}
	case e.Cause != "":
		return failed(e.Cause, e.Message)
	case e.Code == 0 && e.State == event.StateDone:
		return Verdict{State: event.StateDone}
	case e.Code == 0 && e.State == event.StateStopped:
		return failed(event.CauseStopped, "stopped by another process")
	case e.Code == 0 && e.Loaded:
		return failed(event.CauseUnknown, "ended before it had done its rounds")
	case e.Code == 0:
		return failed(event.CauseUnknown, "ended before its model was loaded")
	case e.Failure != nil && e.Failure.Cause != "":
		return failed(e.Failure.Cause, e.Failure.Message)
	}
	cause, said := e.fromTail()
	message := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != 0 {
		message = fmt.Sprintf("killed by signal %d (%s)", int(e.Signal), e.Signal)
	}
	switch {
	case e.Signal == syscall.SIGKILL && cause == event.CauseUnknown && e.KernelKills == 0:
		message += ", neither by swarm nor by the kernel's out-of-memory killer"
	case e.Signal == syscall.SIGKILL && cause == event.CauseUnknown && e.KernelKills > 0:
		cause = event.CauseHostOutOfMemory
		message += " by the kernel because host memory ran out"
	case e.Signal == syscall.SIGKILL && cause == event.CauseUnknown:
		cause = event.CauseHostOutOfMemory
		message += ", not by swarm: probably by the kernel because host memory ran out"
	case e.Code == codeConfig && !goCrash(e.Tail):
		cause = event.CauseConfig
	case e.Code == codeMemory && cause != event.CauseHostOutOfMemory:
		cause = event.CauseOutOfMemory
	}
	if said != "" {
		message += ": " + said
	}
	return failed(cause, message)
}

func failed(cause, message string) Verdict {
	return Verdict{State: event.StateFailed, Cause: cause, Message: message, Heals: heals(cause)}
}

// heals reports whether a restart can help. A full disk needs a person, because restarts would only write more to
// it.
func heals(cause string) bool {
	switch cause {
	case event.CauseModel, event.CausePython, event.CauseConfig, event.CauseDisk, event.CauseCheckpoint:
		return false
	}
	return true
}

// goCrash detects a Go panic, which also exits with 2, by its stack dump.
func goCrash(tail string) bool {
	return strings.Contains(tail, "\ngoroutine ") || strings.Contains(tail, "\npanic: ") || strings.HasPrefix(tail, "panic: ")
}

// symptom is a text in the log of a failed process and the cause that it shows.
type symptom struct{ text, cause string }

// symptoms are in order of precedence. The order matters because a longer message of torch may contain "CUDA out of
// memory" and "can't allocate memory".
var symptoms = []symptom{
	{"cuda out of memory", event.CauseOutOfMemory},
	{"torch.cuda.outofmemoryerror", event.CauseOutOfMemory},
	{"cuda error: out of memory", event.CauseOutOfMemory},
	{"cublas_status_alloc_failed", event.CauseOutOfMemory},
	{"cudaerrormemoryallocation", event.CauseOutOfMemory},
	{"defaultcpuallocator", event.CauseHostOutOfMemory},
	{"cannot allocate memory", event.CauseHostOutOfMemory},
	{"memoryerror", event.CauseHostOutOfMemory},
	{"std::bad_alloc", event.CauseHostOutOfMemory},
	{"runtime: out of memory", event.CauseHostOutOfMemory},
	{"oom-kill", event.CauseHostOutOfMemory},
	{"no space left on device", event.CauseDisk},
	{"no module named 'torch'", event.CausePython},
}

// fromTail returns the cause that a symptom in the end of the log shows, and its line. Without a symptom it returns
// the last line.
func (e Exit) fromTail() (cause, line string) {
	lines := strings.Split(strings.TrimSpace(e.Tail), "\n")
	for _, s := range symptoms {
		for i := len(lines) - 1; i >= 0; i-- {
			if strings.Contains(strings.ToLower(lines[i]), s.text) {
				return s.cause, shorten(lines[i])
			}
		}
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return event.CauseUnknown, shorten(line)
		}
	}
	last := lines[len(lines)-1]
	if strings.TrimSpace(last) == "Killed" {
		return event.CauseHostOutOfMemory, "Killed"
	}
	return event.CauseUnknown, shorten(last)
}

func shorten(line string) string {
	line = strings.ToValidUTF8(strings.TrimSpace(line), "�")
	if runes := []rune(line); len(runes) > 300 {
		return string(runes[:300]) + "…"
	}
	return line
}
