package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of a profile.
const (
	maxProfile = 256 << 10 // bytes of the file
	maxItems   = 64        // of any list
	maxText    = 1000      // characters of any text
)

// Workloads lists the built-in workload profiles in alphabetical order.
func Workloads() []string { return presetNames("workloads") }

// LoadWorkload returns the built-in profile with that name. An unknown name is an *Error.
func LoadWorkload(name string) (Workload, error) {
	if !slices.Contains(Workloads(), name) {
		e := unknown("workload", name, Workloads())
		e.Allowed += ", or your own YAML file"
		return Workload{}, e
	}
	data, err := presetFiles.ReadFile("workloads/" + name + ".yaml")
	if err != nil {
		return Workload{}, fmt.Errorf("read profile: %w", err)
	}
	return ParseWorkload(name+".yaml", data)
}

// ParseWorkload reads and validates a profile's YAML. Errors use file as its name. A mistake is an *Error with the
// line, the key, and the allowed values.
func ParseWorkload(file string, data []byte) (Workload, error) {
	switch {
	case len(data) > maxProfile:
		return Workload{}, &Error{Problem: "profile is too large", Source: file, Remedy: fmt.Sprintf("allowed: at most %d bytes", maxProfile)}
	case !utf8.Valid(data):
		return Workload{}, &Error{Problem: "profile is not text", Source: file, Remedy: "allowed: UTF-8"}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	err := decoder.Decode(&root)
	if errors.Is(err, io.EOF) || err == nil && len(root.Content) == 0 {
		return Workload{}, &Error{Problem: "profile is empty", Source: file, Remedy: "docs/TUNE.md has an example of ten lines"}
	}
	if err != nil {
		e := notYAML(file, err).(*Error)
		e.Problem = "profile is not YAML"
		return Workload{}, e
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Workload{}, &Error{Problem: "profile has more than one YAML document", Source: file, Remedy: "keep the first"}
	}
	r := profileReader{file: file, lines: map[string]int{}}
	w, err := r.workload(root.Content[0])
	if err == nil {
		err = r.validate(w)
	}
	if err != nil {
		return Workload{}, err
	}
	return w, nil
}

// profileReader turns YAML into a Workload.
type profileReader struct {
	file  string
	lines map[string]int // key -> line, for errors of validate
}

// read parses the node of one key.
type read func(key string, n *yaml.Node) error

func (r profileReader) source(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.file, n.Line) }

func (r profileReader) bad(key string, n *yaml.Node, allowed string) error {
	value := n.Value
	switch n.Kind {
	case yaml.MappingNode:
		value = "{…}"
	case yaml.SequenceNode:
		value = "[…]"
	case yaml.AliasNode:
		value = "*" + n.Value
	}
	return &Error{Key: key, Value: value, Allowed: allowed, Source: r.source(n)}
}

// mapping reads a mapping. Its keys must be keys of fields.
func (r profileReader) mapping(key string, n *yaml.Node, fields map[string]read) error {
	if n.Kind != yaml.MappingNode {
		return r.bad(key, n, "key: value lines")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		field, known := fields[name]
		if !known {
			e := unknown("key", name, sortedKeys(fields))
			if e.Remedy == "not a key of the configuration" {
				e.Remedy = "allowed: " + strings.Join(sortedKeys(fields), ", ")
			}
			e.Source = r.source(n.Content[i])
			return e
		}
		if seen[name] {
			return &Error{Problem: "key " + quote(name) + " is given twice", Source: r.source(n.Content[i]), Remedy: "keep one"}
		}
		seen[name] = true
		full := strings.TrimPrefix(key+"."+name, ".")
		r.lines[full] = value.Line
		if err := field(full, value); err != nil {
			return err
		}
	}
	return nil
}

// sequence reads a list. An element's key ends with its position from 1.
func (r profileReader) sequence(each read) read {
	return func(key string, n *yaml.Node) error {
		if n.Kind != yaml.SequenceNode || len(n.Content) > maxItems {
			return r.bad(key, n, fmt.Sprintf("a list of at most %d", maxItems))
		}
		for i, element := range n.Content {
			if err := each(fmt.Sprintf("%s.%d", key, i+1), element); err != nil {
				return err
			}
		}
		return nil
	}
}

// scalar returns a key's text. It refuses empty text and null.
func (r profileReader) scalar(key string, n *yaml.Node) (string, error) {
	text := strings.TrimSpace(n.Value)
	printable := !strings.ContainsFunc(text, func(c rune) bool { return unicode.IsControl(c) && c != '\n' })
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || text == "" || utf8.RuneCountInString(text) > maxText || !printable {
		return "", r.bad(key, n, fmt.Sprintf("a text of 1 to %d characters", maxText))
	}
	return strings.Join(strings.Fields(text), " "), nil
}

func (r profileReader) text(to *string) read {
	return func(key string, n *yaml.Node) (err error) {
		*to, err = r.scalar(key, n)
		return err
	}
}

// texts reads a text or a list of texts.
func (r profileReader) texts(to *[]string) read {
	one := func(key string, n *yaml.Node) error {
		text, err := r.scalar(key, n)
		*to = append(*to, text)
		return err
	}
	return func(key string, n *yaml.Node) error {
		if n.Kind == yaml.SequenceNode {
			return r.sequence(one)(key, n)
		}
		return one(key, n)
	}
}

func (r profileReader) choice(to *string, allowed ...string) read {
	return func(key string, n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || !slices.Contains(allowed, n.Value) {
			return r.bad(key, n, strings.Join(allowed, " or "))
		}
		*to = n.Value
		return nil
	}
}

func (r profileReader) number(to *float64, least, most float64) read {
	return func(key string, n *yaml.Node) error {
		value, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || !(value >= least && value <= most) {
			return r.bad(key, n, fmt.Sprintf("a number from %g to %g", least, most))
		}
		*to = value
		return nil
	}
}

func (r profileReader) whole(to *int, least, most int) read {
	return func(key string, n *yaml.Node) error {
		value, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || value < least || value > most {
			return r.bad(key, n, fmt.Sprintf("a whole number from %d to %d", least, most))
		}
		*to = value
		return nil
	}
}

func (r profileReader) size(to *int64) read {
	return func(key string, n *yaml.Node) error {
		value, err := parseQuantity(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || !(value >= 1e6 && value <= 1e15) {
			return r.bad(key, n, "a size such as 24GiB or 40GB")
		}
		*to = int64(math.Round(value))
		return nil
	}
}

func (r profileReader) formula(to *Formula) read {
	return func(key string, n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode {
			return r.bad(key, n, "a formula such as 0.4GB * batch_size")
		}
		f, err := ParseFormula(n.Value)
		if err != nil {
			return r.bad(key, n, fmt.Sprintf("a formula of numbers, units, value names, + - * / and parentheses; %v", err))
		}
		*to = f
		return nil
	}
}

// edits reads name: text lines in order.
func (r profileReader) edits(to *[]LadderEdit) read {
	return func(key string, n *yaml.Node) error {
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 || len(n.Content) > 2*maxItems {
			return r.bad(key, n, fmt.Sprintf("1 to %d value: text lines", maxItems))
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i].Value
			full := key + "." + name
			text, err := r.scalar(full, n.Content[i+1])
			if err != nil {
				return err
			}
			if slices.ContainsFunc(*to, func(e LadderEdit) bool { return e.Value == name }) {
				return &Error{Problem: "key " + quote(name) + " is given twice", Source: r.source(n.Content[i]), Remedy: "keep one"}
			}
			r.lines[full] = n.Content[i].Line
			*to = append(*to, LadderEdit{Value: name, To: text})
		}
		return nil
	}
}

func sortedKeys(fields map[string]read) []string {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
