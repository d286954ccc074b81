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

// livesEvery is how often a life looks for another one of its node.
const livesEvery = 30 * time.Second

// lives finds out when two processes share as one node. Each opening of the folder is a life and leaves a file. A life that sees another
// one begin after itself
// tells it so, by a file that names both, and goes on: it was there first, and it lives. The one that finds itself told of stops.
// Where both began unseen by the other and both tell, the smaller life goes on.
type lives struct {
	tree *tree
	o    Options
	life string

	mu      sync.Mutex
	every   time.Duration
	looked  time.Time
	former  map[string]bool // lives that were there at the beginning
	told    map[string]bool // younger ones, told to stop
	stopped error
}

// lifeNote is the content of a life's file, for people and for the other life's line.
type lifeNote struct {
	Node   string `json:"node"`
	Worker string `json:"worker,omitempty"`
	Life   string `json:"life"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
}

func newLives(t *tree, o Options, life string) *lives {
	return &lives{tree: t, o: o, life: life, every: livesEvery, former: map[string]bool{}, told: map[string]bool{}}
}

func (l *lives) dir() string { return path.Join(runPath(l.o.Run), livesPart) }

// begin leaves this life's file, forgets those of former ones, and fails where the folder can't be written.
func (l *lives) begin() error {
	names, err := l.tree.list(l.dir())
	if err != nil {
		return err
	}
	for _, name := range names {
		if life, of := l.parse(name, "life"); of != "" {
			l.former[life] = true
		}
	}
	if _, err := l.tree.put(l.dir(), l.stem("life", l.life), "json", l.note()); err != nil {
		return err
	}
	for _, name := range names {
		if life, of := l.parse(name, "life"); of != "" && life != l.life {
			_ = l.tree.remove(path.Join(l.dir(), name)) // it stays known; one that stays does no harm
		}
	}
	l.looked = time.Now()
	return nil
}

// note says who this life is.
func (l *lives) note() []byte {
	host, _ := os.Hostname() // only for people
	note, _ := json.Marshal(lifeNote{Node: l.o.Node, Worker: l.o.Worker, Life: l.life, Host: host, PID: os.Getpid()})
	return note
}

func (l *lives) stem(kind string, lives ...string) string {
	return encode(l.o.Node) + "-" + kind + "-" + strings.Join(lives, "-")
}

// parse reads the names of a kind that are this node's: the life, and the whole stem ("" where it is another's).
func (l *lives) parse(name, kind string) (life, stem string) {
	e, ok := parseName(name)
	if !ok {
		return "", ""
	}
	rest, ok := strings.CutPrefix(e.stem, encode(l.o.Node)+"-"+kind+"-")
	if !ok || len(rest) < lifeLength {
		return "", ""
	}
	return rest[:lifeLength], rest
}

// check looks around, now and then, and returns a final error once this life must stop.
func (l *lives) check(tell *teller) error {
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
		if target != l.life || len(stem) != 2*lifeLength+1 {
			continue
		}
		if by := stem[lifeLength+1:]; l.former[by] || by < l.life {
			l.stopped = &finalError{fmt.Sprintf("another process shares as node %s%s. Try: another --node-id, or stop one of the two",
				l.o.Node, l.host(name))}
			return l.stopped
		}
	}
	for _, name := range names {
		if life, stem := l.parse(name, "life"); len(stem) == lifeLength && life != l.life && !l.former[life] && !l.told[life] {
			l.tellOf(life, name, tell)
		}
	}
	return nil
}

// tellOf tells a younger life, and the people here.
func (l *lives) tellOf(life, name string, tell *teller) {
	if _, err := l.tree.put(l.dir(), l.stem("stop", life, l.life), "json", l.note()); err != nil {
		return // again at the next look
	}
	l.told[life] = true
	tell.warn("twin "+life, fmt.Sprintf("another process began to share as node %s%s and was told to stop. Try: another --node-id there",
		l.o.Node, l.host(name)))
}

// host reads where the writer of a note lives, " (on HOST)", if it is there.
func (l *lives) host(name string) string {
	e, _ := parseName(name)
	var note lifeNote
	data, err := l.tree.take(l.dir(), e, 4<<10)
	if err != nil || json.Unmarshal(data, &note) != nil || !plain(note.Host, 255) {
		return ""
	}
	return " (on " + note.Host + ")"
}
