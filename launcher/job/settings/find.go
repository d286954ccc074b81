package settings

import (
	"slices"
	"strconv"
	"strings"
)

// hit is a node that matches a key.
type hit struct {
	node  *node
	chain []step // the nodes on the path, with the unmatched rest of the key at each
	via   *node  // the alias on the path
	twice []int  // lines of a duplicate key on the path
}

type step struct {
	node *node
	rest string
}

// search finds the nodes that match a key. It visits each node once, because the node's own keys determine the rest
// of the key there. It visits a node behind an alias once for each rest.
type search struct {
	hits    []hit
	aliases bool // follow aliases
	seen    map[step]bool
}

func (s *search) in(n *node, rest string, way hit) {
	way.chain = append(slices.Clip(way.chain), step{n, rest})
	if rest == "" {
		way.node = n
		s.hits = append(s.hits, way)
		return
	}
	switch n.shape {
	case mapping:
		s.mapping(n, rest, way)
	case sequence:
		if i, tail, ok := index(rest); ok && i < len(n.items) {
			s.in(n.items[i], tail, way)
		}
	case alias:
		s.behind(n, rest, way)
	}
}

func (s *search) mapping(n *node, rest string, way hit) {
	seen := map[string][]int{} // the lines of each matching key
	for i, key := range n.keys {
		if _, ok := cutKey(rest, key); ok && key != notText && key != mergeKey {
			seen[key] = append(seen[key], n.items[i].line)
		}
	}
	for i, key := range n.keys {
		if key == mergeKey {
			s.merged(n.items[i], rest, way)
			continue
		}
		tail, ok := cutKey(rest, key)
		if !ok || key == notText {
			continue
		}
		next := way
		if lines := seen[key]; len(lines) > 1 {
			next.twice = lines
		}
		s.in(n.items[i], tail, next)
	}
}

// merged searches the value of <<: an alias or a list of aliases.
func (s *search) merged(n *node, rest string, way hit) {
	switch n.shape {
	case alias:
		s.behind(n, rest, way)
	case sequence:
		for _, item := range n.items {
			s.merged(item, rest, way)
		}
	}
}

func (s *search) behind(n *node, rest string, way hit) {
	if at := (step{n.target, rest}); s.aliases && n.target != nil && !s.seen[at] {
		s.seen[at] = true
		if way.via == nil {
			way.via = n
		}
		s.in(n.target, rest, way)
	}
}

// find returns the matches of a key in all documents. It follows aliases only if there is no other match.
func find(documents []*node, key string) []hit {
	for _, aliases := range []bool{false, true} {
		s := search{aliases: aliases, seen: map[step]bool{}}
		for _, d := range documents {
			s.in(d, key, hit{})
		}
		if len(s.hits) > 0 {
			return s.hits
		}
	}
	return nil
}

// cutKey removes a mapping's key from the front: a.b.c without a is b.c, a[0] without a is [0].
func cutKey(rest, key string) (string, bool) {
	tail, ok := strings.CutPrefix(rest, key)
	switch {
	case !ok:
		return "", false
	case tail == "":
		return "", true
	case tail[0] == '.':
		return tail[1:], len(tail) > 1
	}
	return tail, tail[0] == '['
}

// index removes a sequence's index from the front: [3].x and 3.x become 3 and x.
func index(rest string) (int, string, bool) {
	digits, bracket := strings.CutPrefix(rest, "[")
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	i, err := strconv.Atoi(digits[:end])
	if err != nil {
		return 0, "", false
	}
	tail := digits[end:]
	if bracket {
		if !strings.HasPrefix(tail, "]") {
			return 0, "", false
		}
		tail = tail[1:]
	}
	switch {
	case tail == "" || tail[0] == '[':
		return i, tail, true
	case tail[0] == '.' && len(tail) > 1:
		return i, tail[1:], true
	}
	return 0, "", false
}

// followers returns the lines of aliases that take their value from the node at the end of the chain.
func followers(documents []*node, way hit) []int {
	var lines []int
	var walk func(n, parent *node, merge bool)
	walk = func(n, parent *node, merge bool) {
		for _, at := range way.chain {
			if n.shape == alias && n.target == at.node && !(merge && overridden(parent, at.rest)) {
				lines = append(lines, n.line)
			}
		}
		for i, item := range n.items {
			p, m := n, n.shape == mapping && n.keys[i] == mergeKey
			if merge && n.shape == sequence {
				p, m = parent, true
			}
			walk(item, p, m)
		}
	}
	anchored := slices.ContainsFunc(way.chain, func(s step) bool { return s.node.anchor != "" })
	for _, d := range documents {
		if anchored {
			walk(d, nil, false)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// overridden reports whether a mapping has its own value for the rest of a key.
func overridden(n *node, rest string) bool {
	s := search{}
	s.in(n, rest, hit{})
	return len(s.hits) > 0
}
