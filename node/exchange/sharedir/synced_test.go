package sharedir

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// synced imitates an unreliable sync service between replicas of a folder. Every file eventually reaches every other
// replica. It may arrive several times, late, out of order, at first empty or incomplete, or under another name.
// Deleted files may come back.
type synced struct {
	t        *testing.T
	replicas []string
	rng      *rand.Rand
	known    []map[string]bool // per replica: paths that it has had, from any source
	due      []delivery
	step     int
	stop     chan struct{}
	done     sync.WaitGroup
	cut      func(from, to int) bool // nil: never
	mu       sync.Mutex
	tricks   map[string]int
}

// seeds is the number of sync schedules that a test runs.
var seeds = flag.Int("seeds", 0, "schedules of the badly synced folder to test; 0: a few")

func schedules(few int) uint64 {
	if *seeds > 0 {
		return uint64(*seeds)
	}
	return uint64(few)
}

// quickDir returns a folder in memory if possible, because these tests do not test the disk.
func quickDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "swarm-sharedir-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

type delivery struct {
	at      int // step
	to      int
	path    string
	content []byte
	final   bool
	deleted bool
	from    int
}

func newSynced(t *testing.T, seed uint64, n int) *synced {
	s := &synced{t: t, rng: rand.New(rand.NewPCG(seed, 1)), stop: make(chan struct{}), tricks: map[string]int{}}
	for range n {
		shared := quickDir(t)
		require.NoError(t, os.MkdirAll(filepath.Join(shared, "experiments", "exp", base), 0o755))
		s.replicas = append(s.replicas, shared)
		s.known = append(s.known, map[string]bool{})
	}
	return s
}

func (s *synced) folder(i int) string { return filepath.Join(s.replicas[i], "experiments", "exp") }

// run syncs until the test ends.
func (s *synced) run() {
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-ticker.C:
				s.mu.Lock()
				s.tick()
				s.mu.Unlock()
			}
		}
	}()
	s.t.Cleanup(func() { close(s.stop); s.done.Wait() })
}

func (s *synced) tick() {
	s.step++
	for i := range s.replicas {
		s.observe(i)
	}
	var later []delivery
	for _, d := range s.due {
		if d.at > s.step || s.cut != nil && s.cut(d.from, d.to) {
			later = append(later, d)
			continue
		}
		s.deliver(d)
	}
	s.due = later
}

// observe schedules the changes of a replica: new and deleted files.
func (s *synced) observe(i int) {
	here := map[string]bool{}
	_ = filepath.WalkDir(s.replicas[i], func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		rel, _ := filepath.Rel(s.replicas[i], path)
		here[rel] = true
		if s.known[i][rel] {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		if e, ok := parseName(e.Name()); ok && (int64(len(content)) != e.size || hashOf(content) != e.hash) {
			return nil // still being written: it is carried when complete
		}
		s.known[i][rel] = true
		for to := range s.replicas {
			if to != i {
				s.carry(i, to, rel, content)
			}
		}
		return nil
	})
	for rel := range s.known[i] {
		if here[rel] {
			continue
		}
		delete(s.known[i], rel)
		for to := range s.replicas {
			if to != i && s.known[to][rel] {
				s.due = append(s.due, delivery{at: s.step + s.rng.IntN(10), to: to, from: i, path: rel, deleted: true})
			}
		}
	}
}

// carry decides how a file reaches another replica.
func (s *synced) carry(from, to int, rel string, content []byte) {
	at := s.step + s.rng.IntN(12)
	if s.rng.IntN(10) == 0 {
		at += 60 // lost and found later
		s.tricks["late"]++
	}
	add := func(at int, path string, content []byte, final bool) {
		s.due = append(s.due, delivery{at: at, to: to, from: from, path: path, content: content, final: final})
	}
	ext := filepath.Ext(rel)
	copied := fmt.Sprintf("%s (1)%s", strings.TrimSuffix(rel, ext), ext)
	kind := s.rng.IntN(8)
	if strings.Contains(rel, " (1)") {
		kind = 7
	}
	switch kind {
	case 0:
		s.tricks["empty"]++
		add(at, rel, nil, false)
		add(at+10, rel, content, true)
	case 1:
		s.tricks["half"]++
		add(at, rel, content[:len(content)/2], false)
		add(at+15, rel, content, true)
	case 2:
		s.tricks["zeros"]++
		add(at, rel, make([]byte, len(content)), false)
		add(at+8, rel, content, true)
	case 3:
		s.tricks["copy too"]++
		add(at, copied, content, true)
		add(at+5, rel, content, true)
	case 4:
		s.tricks["copy instead"]++
		add(at, copied, content, true)
	default:
		add(at, rel, content, true)
	}
}

func (s *synced) deliver(d delivery) {
	path := filepath.Join(s.replicas[d.to], d.path)
	if d.deleted {
		content, err := os.ReadFile(path)
		_ = os.Remove(path)
		delete(s.known[d.to], d.path)
		if err == nil && s.rng.IntN(6) == 0 {
			s.tricks["came back"]++
			s.due = append(s.due, delivery{at: s.step + s.rng.IntN(30), to: d.from, from: d.to, path: d.path, content: content, final: true})
		}
		return
	}
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, d.content) {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Error(err)
	}
	if d.final && !strings.Contains(d.path, " (1)") { // a copy is a new file that goes to all replicas
		s.known[d.to][d.path] = true
	}
	if err := os.WriteFile(path, d.content, 0o600); err != nil {
		s.t.Error(err)
	}
}

// Three nodes on three machines train through a badly synced folder. Each node receives every other node's batch of
// every round, once and unchanged.
func TestRoundsThroughSyncedFolder(t *testing.T) {
	tricks := map[string]int{}
	for seed := range schedules(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newSynced(t, seed, 3)
			names := []string{"a", "b", "c"}
			var dirs []*Dir
			for i, name := range names {
				dirs = append(dirs, open(t, Options{Dir: s.folder(i), Run: testRun, Node: name, State: t.TempDir()}))
			}
			s.run()
			var group sync.WaitGroup
			for _, d := range dirs {
				group.Go(func() {
					for round := range 6 {
						share(t, d, round)
						for i, got := range gatherAll(t, d, round, names...) {
							if got.Rejected != "" || got.Rollouts[0].Question != batchOf(names[i], round, fmt.Sprint(round)).Rollouts[0].Question {
								t.Errorf("%s, round %d of %s: %+v", d.o.Node, round, names[i], got)
							}
						}
					}
				})
			}
			group.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			for trick, n := range s.tricks {
				tricks[trick] += n
			}
		})
	}
	for _, trick := range []string{"late", "empty", "half", "zeros", "copy too", "copy instead"} {
		if tricks[trick] == 0 {
			t.Errorf("the simulator never played %q", trick)
		}
	}
}

// Without a barrier, each node sees each batch of the others as new exactly once, even across a restart.
func TestRecentThroughSyncedFolder(t *testing.T) {
	for seed := range schedules(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newSynced(t, seed, 2)
			state := t.TempDir()
			options := Options{Dir: s.folder(0), Run: testRun, Node: "reader", State: state}
			reader, writer := open(t, options), open(t, Options{Dir: s.folder(1), Run: testRun, Node: "writer"})
			s.run()
			const batches = 30
			cameIn := map[int]int{} // the reader's round in which each batch arrived
			deadline := time.Now().Add(20 * time.Second)
			for round := 0; len(cameIn) < batches; round++ {
				require.True(t, time.Now().Before(deadline), "only %d of %d batches came", len(cameIn), batches)
				if round < batches {
					share(t, writer, round)
				}
				share(t, reader, round)
				if round == batches/2 {
					require.NoError(t, reader.Close())
					reader = open(t, options)
				}
				require.NoError(t, sleep(t.Context(), 3*time.Millisecond))
				window := exchange.Window{Round: round, Staleness: 3, Peers: []string{"writer"}, Limit: 100}
				got, err := reader.Recent(t.Context(), window)
				require.NoError(t, err)
				there := map[int]bool{}
				for _, r := range got {
					require.Empty(t, r.Rejected)
					require.False(t, there[r.Round], "round %d twice in one answer", r.Round)
					there[r.Round] = true
					came, known := cameIn[r.Round]
					require.True(t, !known || came == round-r.Age, "round %d came in round %d, and again in %d", r.Round, came, round-r.Age)
					cameIn[r.Round] = round - r.Age
				}
			}
		})
	}
}
