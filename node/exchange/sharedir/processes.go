package sharedir

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// processesEvery is the time between checks for another process of the same node.
const processesEvery = 30 * time.Second

// processes detects two processes that share as the same node. Each opening of the folder is a process and writes a
// file. A process that sees a younger one writes a stop file that names both, and continues. A process that finds a
// stop file for itself stops. If both started without seeing each other and both write stop files, the one with the
// smaller id continues.
type processes struct {
	tree    *tree
	o       Options
	process string

	mu      sync.Mutex
	every   time.Duration
	looked  time.Time
	earlier map[string]bool // processes that existed at the start
	told    map[string]bool // younger processes with a stop file
	stopped error
}

// processNote is the content of a process's file. Other processes quote its host in their messages.
type processNote struct {
	Node    string `json:"node"`
	Worker  string `json:"worker,omitempty"`
	Process string `json:"life"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
}

func newProcesses(t *tree, o Options, process string) *processes {
	return &processes{tree: t, o: o, process: process, every: processesEvery, earlier: map[string]bool{}, told: map[string]bool{}}
}

func (l *processes) dir() string { return path.Join(runPath(l.o.Run), livesPart) }

// begin writes this process's file and deletes those of earlier processes. It fails if the folder can't be written.
func (l *processes) begin() error {
	names, err := l.tree.list(l.dir())
	if err != nil {
		return err
	}
	for _, name := range names {
		if process, of := l.parse(name, "life"); of != "" {
			l.earlier[process] = true
		}
	}
	if _, err := l.tree.put(l.dir(), l.stem("life", l.process), "json", l.note()); err != nil {
		return err
	}
	for _, name := range names {
		if process, of := l.parse(name, "life"); of != "" && process != l.process {
			_ = l.tree.remove(path.Join(l.dir(), name)) // it stays known; a file that is not deleted is harmless
		}
	}
	l.looked = time.Now()
	return nil
}

// note returns the content of this process's file.
func (l *processes) note() []byte {
	host, _ := os.Hostname() // only for messages
	note, _ := json.Marshal(processNote{Node: l.o.Node, Worker: l.o.Worker, Process: l.process, Host: host, PID: os.Getpid()})
	return note
}

func (l *processes) stem(kind string, processes ...string) string {
	return encode(l.o.Node) + "-" + kind + "-" + strings.Join(processes, "-")
}

// parse parses the name of a file of the given kind. It returns the process and the rest of the stem, "" for another
// node's file.
func (l *processes) parse(name, kind string) (process, stem string) {
	e, ok := parseName(name)
	if !ok {
		return "", ""
	}
	rest, ok := strings.CutPrefix(e.stem, encode(l.o.Node)+"-"+kind+"-")
	if !ok || len(rest) < processLength {
		return "", ""
	}
	return rest[:processLength], rest
}

// check looks for other processes from time to time. It returns a final error once this process must stop.
func (l *processes) check(report *reporter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped != nil || time.Since(l.looked) < l.every {
		return l.stopped
	}
	l.looked = time.Now()
	names, err := l.tree.list(l.dir())
	if err != nil {
		return nil // the next read or write reports the error
	}
	for _, name := range names {
		target, stem := l.parse(name, "stop")
		if target != l.process || len(stem) != 2*processLength+1 {
			continue
		}
		if by := stem[processLength+1:]; l.earlier[by] || by < l.process {
			l.stopped = &finalError{fmt.Sprintf("another process shares as node %s%s. Try: another --node-id, or stop one of the two",
				l.o.Node, l.host(name))}
			return l.stopped
		}
	}
	for _, name := range names {
		if process, stem := l.parse(name, "life"); len(stem) == processLength && process != l.process && !l.earlier[process] && !l.told[process] {
			l.reportOther(process, name, report)
		}
	}
	return nil
}

// reportOther writes the stop file for a younger process and logs a warning.
func (l *processes) reportOther(process, name string, report *reporter) {
	if _, err := l.tree.put(l.dir(), l.stem("stop", process, l.process), "json", l.note()); err != nil {
		return // the next check tries again
	}
	l.told[process] = true
	report.warn("twin "+process, fmt.Sprintf("another process started to share as node %s%s and was told to stop. Try: another --node-id there",
		l.o.Node, l.host(name)))
}

// host returns " (on HOST)" with the host from a process's note, "" if it can't be read.
func (l *processes) host(name string) string {
	e, _ := parseName(name)
	var note processNote
	data, err := l.tree.take(l.dir(), e, 4<<10)
	if err != nil || json.Unmarshal(data, &note) != nil || !plain(note.Host, 255) {
		return ""
	}
	return " (on " + note.Host + ")"
}
