package powercut

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// Fate decides what happens to unsynced changes when the power fails.
type Fate struct {
	// Journaled makes each sync also persist all earlier name changes, in order, as the journals of ext4 and XFS
	// do. Otherwise a name is safe only after a sync of its folder, which is all that POSIX promises.
	Journaled bool

	// Random persists a random part of the unsynced changes. Of a folder's name changes it keeps the first few. Of
	// a file's writes it keeps the first few, and possibly part of the next write or only its length. Nil keeps
	// nothing.
	Random *rand.Rand
}

// contents is a file or folder as it is on disk, with its pending changes.
type contents struct {
	mode    os.FileMode
	data    []byte
	names   map[string]int
	pending []change
}

// disk models the state of a file system and the effect of syncs.
type disk struct {
	fate  Fate
	nodes map[int]*contents
	names []nameChange // pending changes of all folders, in order
}

// nameChange is a change of the names in one folder.
type nameChange struct {
	dir int
	set map[string]int // 0: removed
}

// Cut simulates a power cut after the first n changes. It writes the surviving files into to, an empty folder.
func (l Log) Cut(n int, fate Fate, to string) error {
	d := &disk{fate: fate, nodes: map[int]*contents{root: {mode: os.ModeDir | 0o700, names: map[string]int{}}}}
	for _, c := range l.Changes[:n] {
		d.apply(c)
	}
	d.cut()
	return d.write(root, to, 0)
}

// apply records a pending change, or performs a sync.
func (d *disk) apply(c change) {
	switch c.Kind {
	case created:
		node := &contents{mode: c.Mode}
		switch {
		case c.Mode.IsDir():
			node.names = map[string]int{}
		case c.Mode&os.ModeSymlink != 0:
			node.data = c.Data // a link's target persists with its name
		}
		d.nodes[c.Node] = node
		d.name(nameChange{c.Dir, map[string]int{c.Name: c.Node}})
	case linked:
		d.name(nameChange{c.Dir, map[string]int{c.Name: c.Node}})
	case unlinked:
		d.name(nameChange{c.Dir, map[string]int{c.Name: 0}})
	case renamed:
		if c.Dir == c.NewDir {
			d.name(nameChange{c.Dir, map[string]int{c.Name: 0, c.NewName: c.Node}})
			return
		}
		d.name(nameChange{c.NewDir, map[string]int{c.NewName: c.Node}})
		d.name(nameChange{c.Dir, map[string]int{c.Name: 0}})
	case written, resized:
		d.nodes[c.Node].pending = append(d.nodes[c.Node].pending, c)
	case synced:
		d.sync(c.Node)
	case forgotten:
		d.nodes[c.Node].pending = nil
	}
}

// name records a change of names. All folders share one list: sync decides which changes it persists.
func (d *disk) name(n nameChange) { d.names = append(d.names, n) }

// sync persists a file's content or a folder's names.
func (d *disk) sync(node int) {
	at := d.nodes[node]
	for _, c := range at.pending {
		at.data = c.in(at.data)
	}
	at.pending = nil
	d.names = slices.DeleteFunc(d.names, func(n nameChange) bool {
		if n.dir != node && !d.fate.Journaled {
			return false
		}
		d.set(n)
		return true
	})
}

func (d *disk) set(n nameChange) {
	for name, node := range n.set {
		if node == 0 {
			delete(d.nodes[n.dir].names, name)
		} else {
			d.nodes[n.dir].names[name] = node
		}
	}
}

// in returns a file's content after a write or a change of its length. It may change data.
func (c change) in(data []byte) []byte {
	end := c.Offset + int64(len(c.Data))
	if c.Kind == resized && end < int64(len(data)) {
		return data[:end]
	}
	if more := end - int64(len(data)); more > 0 {
		data = append(data, make([]byte, more)...)
	}
	copy(data[c.Offset:], c.Data)
	return data
}

// cut decides which unsynced changes persist.
func (d *disk) cut() {
	r := d.fate.Random
	if r == nil {
		return
	}
	kept := map[int]int{} // number of name changes to keep, by folder; key 0: by journal
	count := map[int]int{}
	for _, n := range d.names {
		count[d.list(n.dir)]++
	}
	for _, list := range sorted(count) {
		kept[list] = r.IntN(count[list] + 1)
	}
	for _, n := range d.names {
		if list := d.list(n.dir); kept[list] > 0 {
			kept[list]--
			d.set(n)
		}
	}
	for _, id := range sorted(d.nodes) {
		d.nodes[id].tear(r)
	}
}

// list returns the key of the sequence that orders a folder's changes: the folder, or 0 for the journal.
func (d *disk) list(dir int) int {
	if d.fate.Journaled {
		return 0
	}
	return dir
}

// tear persists a random part of a file's pending changes.
func (at *contents) tear(r *rand.Rand) {
	if len(at.pending) == 0 {
		return
	}
	n := r.IntN(len(at.pending) + 1)
	for _, c := range at.pending[:n] {
		at.data = c.in(at.data)
	}
	if n == len(at.pending) {
		return
	}
	next := at.pending[n]
	switch r.IntN(3) {
	case 0: // part of the next write
		if next.Kind == written {
			next.Data = next.Data[:r.IntN(len(next.Data)+1)]
			at.data = next.in(at.data)
		}
	case 1: // the length of the next write, filled with zeros
		if next.Kind == written {
			next.Data = make([]byte, len(next.Data))
			if end := next.Offset + int64(len(next.Data)); end > int64(len(at.data)) {
				at.data = change{Kind: resized, Offset: end}.in(at.data)
			}
		}
	}
}

func sorted[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// write creates a node and its content at path. depth stops the recursion if a folder contains itself.
func (d *disk) write(node int, path string, depth int) error {
	at := d.nodes[node]
	switch {
	case depth > 32:
		return fmt.Errorf("%s: folders without an end", path)
	case at.mode.IsDir():
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		for name, child := range at.names {
			if err := d.write(child, filepath.Join(path, name), depth+1); err != nil {
				return err
			}
		}
		return nil
	case at.mode&fs.ModeSymlink != 0:
		return os.Symlink(string(at.data), path)
	}
	return os.WriteFile(path, at.data, 0o600|at.mode.Perm())
}
