package settings

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// spot is a value with the position of its bytes.
type spot struct {
	key     string
	node    *node
	leaf    leaf
	follows []int
}

// only returns the single node that matches a key.
func (s *source) only(key string) (hit, error) {
	hits := find(s.documents, key)
	if s.format == textFormat && len(hits) == 0 {
		hits = s.shortened(key)
	}
	if len(hits) == 0 {
		return hit{}, s.missing(key)
	}
	way := hits[0]
	switch {
	case len(hits) > 1:
		var lines []int
		for _, h := range hits {
			lines = append(lines, h.node.line)
		}
		return hit{}, s.bad(lines[0], key+" is given "+fmt.Sprint(len(hits))+" times", list(lines)+": keep one of them")
	case len(way.twice) > 0:
		return hit{}, s.bad(way.twice[0], "a key above "+key+" is given twice", list(way.twice)+": keep one of them")
	}
	return way, nil
}

// look returns the single value of a key, also behind aliases, as a parser of the file reads it. The value may be one
// that can't be changed.
func (s *source) look(key string) (*node, error) {
	way, err := s.only(key)
	if err != nil {
		return nil, err
	}
	n := way.node
	for range maxDepth {
		if n.shape != alias || n.target == nil {
			break
		}
		n = n.target
	}
	if n.shape != value {
		return nil, s.bad(n.line, key+" is not one value", "name a key below it"+some(below(n, key)))
	}
	return n, nil
}

// find returns the single value of a key if it can be changed.
func (s *source) find(key string) (spot, error) {
	way, err := s.only(key)
	if err != nil {
		return spot{}, err
	}
	n := way.node
	switch {
	case n.shape == alias:
		return spot{}, s.elsewhere(key, n.line, n.target, n.target)
	case way.via != nil:
		return spot{}, s.elsewhere(key, way.via.line, way.via.target, n)
	case n.shape == mapping || n.shape == sequence:
		return spot{}, s.bad(n.line, key+" is not one value", "name a key below it"+some(below(n, key)))
	}
	l := n.leaf
	if s.format == yamlFormat {
		locateYAML(bytes.TrimPrefix(s.data, []byte(byteOrderMark)), n.line, &l)
	}
	if bytes.HasPrefix(s.data, []byte(byteOrderMark)) {
		l.start, l.end = l.start+len(byteOrderMark), l.end+len(byteOrderMark)
	}
	return spot{key, n, l, followers(s.documents, way)}, nil
}

// shortened finds the key with this suffix: ppo_mini_batch_size matches actor_rollout_ref.actor.ppo_mini_batch_size.
func (s *source) shortened(key string) []hit {
	var hits []hit
	for _, v := range values(s.documents) {
		if strings.HasSuffix(v.key, "."+key) {
			hits = append(hits, hit{node: v.node})
		}
	}
	return hits
}

func (s *source) bad(line int, problem, remedy string) error {
	return &configs.Error{Problem: problem, Source: fmt.Sprintf("%s:%d", s.name, line), Remedy: remedy}
}

func (s *source) missing(key string) error {
	near := nearest(s.documents, key)
	switch {
	case len(near) > 0:
		return &configs.Error{Problem: "unknown key " + key, Source: s.name, Remedy: "did you mean " + strings.Join(near, ", ") + "?"}
	case s.format == textFormat:
		return &configs.Error{Problem: "the file does not assign " + key, Source: s.name,
			Remedy: "add " + key + "=VALUE to it. Only .yaml, .yml, .json and .jsonc files are read in their formats, others as assignments"}
	}
	return &configs.Error{Problem: "the file lacks the key " + key, Source: s.name, Remedy: "add it with a value, or name another key"}
}

// elsewhere returns the error for a value behind an alias.
func (s *source) elsewhere(key string, line int, anchored, at *node) error {
	remedy := "give it its own value there"
	if origin := keyOf(s.documents, at); origin != "" {
		remedy = fmt.Sprintf("change %s (line %d), or %s", origin, at.line, remedy)
	}
	return s.bad(line, fmt.Sprintf("%s comes from the anchor &%s (line %d)", key, anchored.anchor, anchored.line), remedy)
}

// below returns the keys of the values below a node.
func below(n *node, key string) []string {
	var keys []string
	for _, v := range values([]*node{n}) {
		if v.key != "" {
			keys = append(keys, strings.Replace(key+"."+v.key, ".[", "[", 1))
		}
	}
	return keys
}

func some(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return ": " + strings.Join(keys[:min(3, len(keys))], ", ")
}

func list(lines []int) string {
	lines = slices.Compact(slices.Sorted(slices.Values(lines)))
	shown := strings.Trim(fmt.Sprint(lines[:min(10, len(lines))]), "[]")
	if len(lines) == 1 {
		return "line " + shown
	}
	return "lines " + strings.ReplaceAll(shown, " ", ", ")
}
