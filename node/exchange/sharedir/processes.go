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

// processesEvery is how often a process looks for another one of its node.
const processesEvery = 30 * time.Second

// processes finds out when two processes share as one node. Each opening of the folder is a process and leaves a file.
// A process that sees another one begin after itself tells it so, by a file that names both, and goes on: it was there
// first, and it lives. The one that finds itself told of stops. Where both began unseen by the other and both tell, the
// smaller process goes on.
type processes struct {
	tree    *tree
	o       Options
	process string

	mu      sync.Mutex
	every   time.Duration
	looked  time.Time
	earlier map[string]bool // processes that were there at the beginning
	told    map[string]bool // younger ones, told to stop
	stopped error
}

// processNote is the content of a process's file, for people and for the other process's line.
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

// begin leaves this process's file, forgets those of previous ones, and fails where the folder can't be written.
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
			_ = l.tree.remove(path.Join(l.dir(), name)) // it stays known; one that stays does no harm
		}
	}
	l.looked = time.Now()
	return nil
}

// note says who this process is.
func (l *processes) note() []byte {
	host, _ := os.Hostname() // only for people
	note, _ := json.Marshal(processNote{Node: l.o.Node, Worker: l.o.Worker, Process: l.process, Host: host, PID: os.Getpid()})
	return note
}

func (l *processes) stem(kind string, processes ...string) string {
	return encode(l.o.Node) + "-" + kind + "-" + strings.Join(processes, "-")
}

// parse reads the names of a kind that are this node's: the process, and the whole stem ("" where it is another's).
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

// check looks around, now and then, and returns a final error once this process must stop.
func (l *processes) check(report *reporter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped != nil || time.Since(l.looked) < l.every {
		return l.stopped
	}
	l.looked = time.Now()
	names, err := l.tree.list(l.dir())
	if err != nil {
		return nil // whoever reads or writes next says what is wrong
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

// reportOther tells a younger process, and the people here.
func (l *processes) reportOther(process, name string, report *reporter) {
	if _, err := l.tree.put(l.dir(), l.stem("stop", process, l.process), "json", l.note()); err != nil {
		return // again at the next look
	}
	l.told[process] = true
	report.warn("twin "+process, fmt.Sprintf("another process began to share as node %s%s and was told to stop. Try: another --node-id there",
		l.o.Node, l.host(name)))
}

// host reads where the writer of a note lives, " (on HOST)", if it is there.
func (l *processes) host(name string) string {
	e, _ := parseName(name)
	var note processNote
	data, err := l.tree.take(l.dir(), e, 4<<10)
	if err != nil || json.Unmarshal(data, &note) != nil || !plain(note.Host, 255) {
		return ""
	}
	return " (on " + note.Host + ")"
}
