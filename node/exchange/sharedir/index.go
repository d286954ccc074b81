package sharedir

import (
	"cmp"
	"maps"
	"slices"
)

// maxCandidates bounds the files that are tried per node and round. An honest node has fewer.
const maxCandidates = 8

// index maps node and round to the files of a block's folder.
type index map[nodeRound][]rolloutFile

type nodeRound struct {
	node  string // encoded
	round int
}

func newIndex(names []string) index {
	x := make(index, len(names))
	for _, name := range names {
		if f, ok := parseRollout(name); ok {
			k := nodeRound{f.node, f.round}
			x[k] = append(x[k], f)
		}
	}
	return x
}

// of returns the files that may be a node's batch for a round, sorted by hash. The smallest hash wins, so that all
// nodes that see the same files choose the same one.
func (x index) of(node string, round int) []rolloutFile {
	files := x[nodeRound{node, round}]
	slices.SortFunc(files, func(a, b rolloutFile) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.name, b.name)) })
	return files[:min(len(files), maxCandidates)]
}

// sorted returns the keys sorted by round and node, so that the order of batches seen in one look doesn't depend on the
// listing.
func (x index) sorted() []nodeRound {
	keys := slices.Collect(maps.Keys(x))
	slices.SortFunc(keys, func(a, b nodeRound) int { return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.node, b.node)) })
	return keys
}
