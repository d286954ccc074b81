package settings

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// named is a value with its key.
type named struct {
	key  string
	node *node
}

// maxNamed bounds the number of values for suggestions.
const maxNamed = 10_000

// values returns the values of the documents in order, up to maxNamed.
func values(documents []*node) []named {
	var all []named
	var walk func(n *node, key string)
	walk = func(n *node, key string) {
		if len(all) >= maxNamed || len(key) > 300 {
			return
		}
		switch n.shape {
		case mapping:
			for i, k := range n.keys {
				if !strings.HasPrefix(k, notText) {
					walk(n.items[i], strings.TrimPrefix(key+"."+k, "."))
				}
			}
		case sequence:
			for i, item := range n.items {
				walk(item, key+"["+strconv.Itoa(i)+"]")
			}
		default:
			all = append(all, named{key, n})
		}
	}
	for _, d := range documents {
		walk(d, "")
	}
	return all
}

// keyOf returns the key of a node, or "" if it has none.
func keyOf(documents []*node, want *node) string {
	for _, v := range values(documents) {
		if v.node == want {
			return v.key
		}
	}
	return ""
}

// nearest returns up to three keys that the user may have meant. Keys with the same last part come first, then
// similar spellings.
func nearest(documents []*node, key string) []string {
	type candidate struct {
		key      string
		distance int
	}
	last := func(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }
	var near []candidate
	for _, v := range values(documents) {
		d := distance(key, v.key)
		if last(v.key) == last(key) {
			d = min(d, 1)
		} else if d = min(d, 1+distance(last(key), last(v.key))); d > 1+len(last(key))/3 {
			continue
		}
		near = append(near, candidate{v.key, d})
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var keys []string
	for _, c := range near[:min(3, len(near))] {
		keys = append(keys, c.key)
	}
	return keys
}

// distance returns the edit distance of the first 100 bytes of two keys.
func distance(a, b string) int {
	return units.EditDistance(a[:min(len(a), 100)], b[:min(len(b), 100)])
}
