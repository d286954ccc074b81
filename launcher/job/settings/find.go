package settings

import (
	"slices"
	"strconv"
	"strings"
)

// hit is a node that a key leads to.
type hit struct {
	node  *node
	chain []step // the nodes on the way, with what was left of the key at each
	via   *node  // the alias that it was reached through
	twice []int  // lines of a key on the way that is given more than once
}

type step struct {
	node *node
	rest string
}

// search finds what a key leads to. Each node is looked at once, for its own keys say what is left of the key there; a
// node behind an alias is looked at once for each different rest.
type search struct {
	hits    []hit
	aliases bool // look behind aliases
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
	seen := map[string][]int{} // the lines of each key that fits
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

// merged looks into what stands behind <<: an alias or a list of them.
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

// find gives what the key leads to in any of the documents, behind aliases only if it is nowhere else.
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

// cutKey takes a mapping's key off the front: a.b.c without a is b.c, a[0] without a is [0].
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

// index takes a sequence's index off the front: [3].x and 3.x are 3 and x.
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

// followers are the lines of aliases through which another value is the one at the end of the chain.
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

// overridden says that a mapping has a value of its own for the rest of a key.
func overridden(n *node, rest string) bool {
	s := search{}
	s.in(n, rest, hit{})
	return len(s.hits) > 0
}
