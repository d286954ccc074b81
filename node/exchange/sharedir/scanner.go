package sharedir

import (
	"path"
	"slices"
	"sync"
)

// joinBlocks is the number of newest blocks that join reads.
const joinBlocks = 4

// scanner finds new batches in the run's folder at a cost that doesn't grow with the run. It lists the blocks, then
// reads only those where changes are likely: each node's newest block and the next one, and the two newest blocks of
// all. Each scan also reads one of the other blocks, to find late files.
type scanner struct {
	dir *Dir

	mu       sync.Mutex
	newest   map[string]int // newest block by encoded node
	unlisted map[int]bool   // blocks that existed at the start and have not been read since
	listed   map[int]index  // as of the last scan
	turn     int
	gathered bool // Gather is in use
	recent   bool // Recent is in use
}

// join records the existing batches.
func (s *scanner) join() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest, s.unlisted = make(map[string]int), make(map[int]bool)
	blocks, err := s.blocks()
	if err != nil {
		return err
	}
	old := max(0, len(blocks)-joinBlocks)
	for _, block := range blocks[:old] {
		s.unlisted[block] = true
	}
	s.listed = make(map[int]index)
	for _, block := range blocks[old:] {
		if err := s.look(block, !s.dir.arrivals.loaded); err != nil {
			return err
		}
	}
	return nil
}

// gathers records that the node waits at barriers.
func (s *scanner) gathers() {
	s.mu.Lock()
	s.gathered = true
	s.mu.Unlock()
}

// beforeMark scans, so that batches that came before the node's own count as earlier. It does nothing for a node that
// only waits at barriers.
func (s *scanner) beforeMark() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gathered && !s.recent {
		return nil
	}
	return s.scan()
}

// scanRecent scans for Recent.
func (s *scanner) scanRecent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = true
	return s.scan()
}

func (s *scanner) scan() error {
	blocks, err := s.blocks()
	if err != nil {
		return err
	}
	s.listed = make(map[int]index)
	for _, block := range s.alive(blocks) {
		if err := s.look(block, false); err != nil {
			return err
		}
	}
	return nil
}

// alive chooses the blocks to read.
func (s *scanner) alive(blocks []int) []int {
	chosen := slices.Clone(blocks[max(0, len(blocks)-2):])
	for _, block := range s.newest {
		chosen = append(chosen, block, block+blockRounds)
	}
	slices.Sort(chosen)
	chosen = slices.Compact(chosen)
	var rest []int
	chosen = slices.DeleteFunc(chosen, func(b int) bool { _, there := slices.BinarySearch(blocks, b); return !there })
	for _, block := range blocks {
		if _, there := slices.BinarySearch(chosen, block); !there {
			rest = append(rest, block)
		}
	}
	if len(rest) > 0 {
		s.turn++
		chosen = append(chosen, rest[s.turn%len(rest)])
	}
	return chosen
}

// look lists a block and records its new batches. before marks them as older than this node's start.
func (s *scanner) look(block int, before bool) error {
	d := s.dir
	dir := blockPath(d.o.Run, block)
	names, err := d.base.list(dir)
	if err != nil {
		return err
	}
	before = before || s.unlisted[block]
	delete(s.unlisted, block)
	listed := newIndex(names)
	s.listed[block] = listed
	own := encode(d.o.Node)
	for _, key := range listed.sorted() {
		if key.node == own || blockOf(key.round) != block {
			continue
		}
		if at, known := s.newest[key.node]; !known || at < block {
			s.newest[key.node] = block
		}
		if !d.arrivals.has(key.node, key.round) && s.whole(dir, listed[key]) {
			d.arrivals.add(key.node, key.round, before)
		}
	}
	return nil
}

// whole reports whether one of the files has the size in its name.
func (s *scanner) whole(dir string, files []rolloutFile) bool {
	for _, f := range files[:min(len(files), maxCandidates)] {
		if s.dir.base.size(path.Join(dir, f.name)) == f.size {
			return true
		}
	}
	return false
}

// files returns the files of a node's round, as of the last listing.
func (s *scanner) files(node string, round int) ([]rolloutFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	block := blockOf(round)
	if s.listed[block] == nil {
		names, err := s.dir.base.list(blockPath(s.dir.o.Run, block))
		if err != nil {
			return nil, err
		}
		s.listed[block] = newIndex(names)
	}
	return s.listed[block].of(node, round), nil
}

// blocks lists the run's blocks in order.
func (s *scanner) blocks() ([]int, error) { return listBlocks(s.dir.base, s.dir.o.Run) }

func listBlocks(t *tree, run string) ([]int, error) {
	names, err := t.list(path.Join(runPath(run), rolloutsPart))
	if err != nil {
		return nil, err
	}
	var blocks []int
	for _, name := range names {
		if block, ok := parseBlock(name); ok {
			blocks = append(blocks, block)
		}
	}
	slices.Sort(blocks)
	return blocks, nil
}
