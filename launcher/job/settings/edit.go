package settings

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// splice is a replacement of bytes.
type splice struct {
	spot
	to string
}

// edit returns the file's new content. It parses the result again and returns an error if a change would affect
// another value.
func (s *source) edit(changes []Change) ([]byte, []Edit, error) {
	var splices []splice
	for _, c := range changes {
		at, err := s.find(c.Key)
		if err != nil {
			return nil, nil, err
		}
		to, err := s.written(at, c.To)
		if err != nil {
			return nil, nil, err
		}
		same := slices.IndexFunc(splices, func(p splice) bool { return p.node == at.node })
		switch {
		case same < 0:
			splices = append(splices, splice{at, to})
		case splices[same].to != to:
			return nil, nil, &configs.Error{Key: c.Key, Value: c.To, Source: s.name, Allowed: "one value; " + splices[same].to + " is requested, too"}
		}
	}
	slices.SortFunc(splices, func(a, b splice) int { return a.leaf.start - b.leaf.start })
	var out []byte
	var edits []Edit
	done := 0
	for _, p := range splices {
		from := string(s.data[p.leaf.start:p.leaf.end])
		out = append(append(out, s.data[done:p.leaf.start]...), p.to...)
		done = p.leaf.end
		if from != p.to {
			edits = append(edits, Edit{Key: p.key, From: from, To: p.to, Line: p.node.line, Follows: p.follows})
		}
	}
	out = append(out, s.data[done:]...)
	if err := s.check(out, splices); err != nil {
		return nil, nil, err
	}
	return out, edits, nil
}

// check compares the values in the new content with the old ones.
func (s *source) check(out []byte, splices []splice) error {
	now, err := parse(s.format, s.path, out)
	changed := map[*node]splice{}
	for _, p := range splices {
		changed[p.node] = p
	}
	if err == nil && len(out) <= maxFile && sameAll(s.documents, now, changed) {
		return nil
	}
	keys := make([]string, len(splices))
	for i, p := range splices {
		keys[i] = p.key + "=" + p.to
	}
	problem := strings.Join(keys, ", ") + " cannot be written without changing other values"
	return &configs.Error{Problem: problem, Source: s.name, Remedy: "edit the file by hand"}
}

func sameAll(a, b []*node, changed map[*node]splice) bool {
	return slices.EqualFunc(a, b, func(a, b *node) bool { return same(a, b, changed) })
}

func same(a, b *node, changed map[*node]splice) bool {
	if p, ok := changed[a]; ok {
		return sameButText(a, b) && b.leaf.text == meaning(p)
	}
	keys := slices.Equal(a.keys, b.keys) && slices.Equal(a.marks, b.marks)
	return sameButText(a, b) && a.leaf.text == b.leaf.text && keys && sameAll(a.items, b.items, changed)
}

// sameButText compares everything except a value's text and its column. An integer may become a float.
func sameButText(a, b *node) bool {
	kinds := a.leaf.kind == b.leaf.kind && a.leaf.quote == b.leaf.quote && a.leaf.inside == b.leaf.inside && (a.leaf.stuck == "") == (b.leaf.stuck == "")
	float := strings.NewReplacer(`"!!int"`, `"!!float"`)
	marks := a.mark == b.mark || a.leaf.kind == number && float.Replace(a.mark) == float.Replace(b.mark)
	return a.shape == b.shape && a.line == b.line && a.anchor == b.anchor && kinds && marks
}

// meaning returns a splice's text as a parser of the file reads it.
func meaning(p splice) string {
	switch p.leaf.quote {
	case '\'':
		return strings.ReplaceAll(p.to, "''", "'")
	case '"':
		var s string
		if json.Unmarshal([]byte(`"`+p.to+`"`), &s) == nil {
			return s
		}
	}
	return p.to
}
