package sharedir

import (
	"cmp"
	"maps"
	"slices"
)

// maxCandidates is how many files by one node's name and round are looked at; more is mischief.
const maxCandidates = 8

// index is a listing of a block's folder by node and round.
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

// of returns the files that may be a node's batch for a round, the one that counts first: that of the smallest hash, so
// that all nodes that see the same files take the same.
func (x index) of(node string, round int) []rolloutFile {
	files := x[nodeRound{node, round}]
	slices.SortFunc(files, func(a, b rolloutFile) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.name, b.name)) })
	return files[:min(len(files), maxCandidates)]
}

// sorted are the keys by round and node, so that arrivals seen in one look have an order that doesn't depend on the
// listing's.
func (x index) sorted() []nodeRound {
	keys := slices.Collect(maps.Keys(x))
	slices.SortFunc(keys, func(a, b nodeRound) int { return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.node, b.node)) })
	return keys
}
