package settings

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// named is a value and the key that leads to it.
type named struct {
	key  string
	node *node
}

// maxNamed bounds how many values a suggestion is chosen from.
const maxNamed = 10_000

// values lists the values of the documents in their order, as far as the bound goes.
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

// keyOf is the key of a node, empty when none leads to it.
func keyOf(documents []*node, want *node) string {
	for _, v := range values(documents) {
		if v.node == want {
			return v.key
		}
	}
	return ""
}

// nearest are up to three keys that the user may have meant: those that end alike first, then those that are written
// alike.
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

// distance is how far two keys are apart, by at most the first 100 bytes of each.
func distance(a, b string) int {
	return units.EditDistance(a[:min(len(a), 100)], b[:min(len(b), 100)])
}
