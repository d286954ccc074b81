package sharedir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sapo-swarm/swarm/internal/files"
)

// Bounds of the remembered state.
const (
	maxMarks = 512  // own rounds
	maxSeen  = 4096 // rounds per node
)

// arrivals records the order in which this node first saw batches, and the node's own rounds among them. A folder has
// no common order of arrival, only each reader's own. A local file, if configured, keeps the order, so that old batches
// are not new after a restart.
type arrivals struct {
	mu     sync.Mutex
	file   *os.File // nil: in memory only
	failed error
	loaded bool  // a previous process left state
	count  int64 // arrivals so far
	marks  map[int]int64
	nodes  map[string]*seen // by encoded name
}

// seen records the arrivals of one node.
type seen struct {
	at    map[int]int64 // arrival number by round; 0: before this node joined
	floor int           // lower rounds are forgotten and do not count as new
}

// openArrivals reads a previous process's file in a local folder. If dir is empty, it keeps no file.
func openArrivals(dir string) (*arrivals, error) {
	a := &arrivals{marks: make(map[int]int64), nodes: make(map[string]*seen)}
	if dir == "" {
		return a, nil
	}
	if err := files.MakeFolder(dir, 0o700); err != nil {
		return nil, fmt.Errorf("remember arrivals: %w", err)
	}
	path := filepath.Join(dir, "arrivals")
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remember arrivals: %w", err)
	}
	a.loaded = a.load(data)
	if err := files.Write(path, a.dump()); err != nil { // drops forgotten entries and a torn end
		return nil, fmt.Errorf("remember arrivals: %w", err)
	}
	if a.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return nil, fmt.Errorf("remember arrivals: %w", err)
	}
	return a, nil
}

// load reads the lines of a file up to the first torn or damaged one.
func (a *arrivals) load(data []byte) bool {
	some := false
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole || !a.loadLine(string(line)) {
			break
		}
		some, data = true, rest
	}
	return some
}

func (a *arrivals) loadLine(line string) bool {
	var node, kind string
	var round int
	var at int64
	if n, err := fmt.Sscanf(line, "%s %s %d %d", &kind, &node, &round, &at); err != nil || n != 4 ||
		round < 0 || round > maxRounds || at < 0 || len(node) > maxName {
		return false
	}
	switch kind {
	case "mark":
		a.marks[round] = at
	case "seen":
		a.node(node).set(round, at)
	case "floor":
		a.node(node).floor = round
	default:
		return false
	}
	a.count = max(a.count, at)
	return true
}

func (a *arrivals) dump() []byte {
	var b bytes.Buffer
	for _, round := range slices.Sorted(maps.Keys(a.marks)) {
		fmt.Fprintf(&b, "mark - %d %d\n", round, a.marks[round])
	}
	for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
		n := a.nodes[name]
		fmt.Fprintf(&b, "floor %s %d 0\n", name, n.floor)
		for _, round := range slices.Sorted(maps.Keys(n.at)) {
			fmt.Fprintf(&b, "seen %s %d %d\n", name, round, n.at[round])
		}
	}
	return b.Bytes()
}

func (a *arrivals) node(name string) *seen {
	n := a.nodes[name]
	if n == nil {
		n = &seen{at: make(map[int]int64)}
		a.nodes[name] = n
	}
	return n
}

// set records a round, and forgets the oldest rounds if there are too many.
func (s *seen) set(round int, at int64) {
	s.at[round] = at
	if len(s.at) <= maxSeen+maxSeen/4 {
		return
	}
	rounds := slices.Sorted(maps.Keys(s.at))
	for _, old := range rounds[:len(rounds)-maxSeen] {
		delete(s.at, old)
		s.floor = old + 1
	}
}

// has reports whether a node's batch has arrived before.
func (a *arrivals) has(node string, round int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[node]
	if n == nil {
		return false
	}
	_, there := n.at[round]
	return there || round < n.floor
}

// add records an arrival. before marks a batch from before this node joined.
func (a *arrivals) add(node string, round int, before bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := int64(0)
	if !before {
		a.count++
		at = a.count
	}
	a.node(node).set(round, at)
	a.append(fmt.Sprintf("seen %s %d %d\n", node, round, at))
}

// forget makes a batch new again, because its file turned out to be incomplete.
func (a *arrivals) forget(node string, round int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.nodes[node]; n != nil {
		delete(n.at, round)
	}
}

// mark records that the node shared its own round. Only the first call for a round counts. It returns the last error of
// writing the file.
func (a *arrivals) mark(round int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, there := a.marks[round]; there {
		return nil
	}
	a.marks[round] = a.count
	if len(a.marks) > maxMarks+maxMarks/4 {
		rounds := slices.Sorted(maps.Keys(a.marks))
		for _, old := range rounds[:len(rounds)-maxMarks] {
			delete(a.marks, old)
		}
	}
	a.append(fmt.Sprintf("mark - %d %d\n", round, a.count))
	return a.failed
}

// append adds a line to the file. A write error affects only the order of arrival. The next mark returns it.
func (a *arrivals) append(line string) {
	if a.file == nil {
		return
	}
	if _, err := a.file.WriteString(line); err != nil {
		a.failed = fmt.Errorf("remember arrivals in %s: %w", a.file.Name(), err)
		return
	}
	a.failed = nil
}

// arrival is a batch that arrived recently.
type arrival struct {
	round int
	at    int64
	age   int
}

// since returns a node's batches that arrived after the node's own batch of round-staleness: the newest limit of them,
// oldest first.
func (a *arrivals) since(node string, round, staleness, limit int) []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[node]
	if n == nil {
		return nil
	}
	from := a.before(round - staleness)
	var out []arrival
	for r, at := range n.at {
		if at > from {
			out = append(out, arrival{round: r, at: at, age: min(a.ownSince(at, round), staleness)})
		}
	}
	slices.SortFunc(out, func(x, y arrival) int { return cmp.Compare(x.at, y.at) })
	return out[max(0, len(out)-limit):]
}

// before returns the number of the last arrival before the node shared a round. If it hasn't shared that round, the
// newest earlier one counts. It returns 0 if there is none.
func (a *arrivals) before(round int) int64 {
	best, at := -1, int64(0)
	for r, count := range a.marks {
		if r <= round && r > best {
			best, at = r, count
		}
	}
	return at
}

// ownSince counts the node's own rounds, up to round, that it shared after an arrival.
func (a *arrivals) ownSince(at int64, round int) int {
	n := 0
	for r, count := range a.marks {
		if r <= round && count >= at {
			n++
		}
	}
	return n
}

func (a *arrivals) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	file := a.file
	a.file = nil
	return file.Close()
}
