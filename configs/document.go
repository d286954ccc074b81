package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxDocument is the maximum size of a YAML file, in bytes.
const MaxDocument = 1 << 20

// Document is one parsed YAML file of the configuration.
type Document struct {
	Values  map[string]any    // by key, each of the key's type; only keys in the file
	Mixture []TaskSpec        // nil if the file has none
	Sources map[string]string // key -> file:line
}

// ParseDocument reads the text of a YAML file. Errors use name as the file's name. It refuses unknown keys, wrong
// types, repeated keys, aliases and further documents with an *Error that names file and line. An empty text value
// counts as not given.
func ParseDocument(name string, data []byte) (Document, error) {
	d := Document{Values: map[string]any{}, Sources: map[string]string{}}
	if len(data) > MaxDocument {
		return d, &Error{Problem: "config file is too large", Source: name, Remedy: fmt.Sprintf("allowed: at most %d bytes", MaxDocument)}
	}
	if !utf8.Valid(data) {
		return d, &Error{Problem: "config file is not text", Source: name, Remedy: "allowed: UTF-8"}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return d, nil
	} else if err != nil {
		return d, notYAML(name, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return d, &Error{Problem: "config file has more than one YAML document", Source: name, Remedy: "keep the first"}
	}
	w := walker{file: name, document: &d}
	if err := w.mapping(root.Content[0], ""); err != nil {
		return Document{}, err
	}
	return d, nil
}

var yamlLine = regexp.MustCompile(`^line ([0-9]+): (.*)$`)

// notYAML turns the parser's error into one line with the file's name and line.
func notYAML(name string, err error) error {
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		name, text = name+":"+m[1], m[2]
	} else if !strings.Contains(text, "control characters") {
		name += ":1" // the parser gives no line number for line 1
	}
	return &Error{Problem: "config file is not YAML", Source: name, Remedy: text}
}

type walker struct {
	file     string
	document *Document
}

func (w walker) source(n *yaml.Node) string { return fmt.Sprintf("%s:%d", w.file, n.Line) }

func (w walker) mapping(node *yaml.Node, prefix string) error {
	what := "key: value lines"
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" && prefix == "" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		key := strings.TrimSuffix(prefix, ".")
		if key == "" {
			return &Error{Problem: "config file has no keys", Source: w.source(node), Remedy: "write " + what}
		}
		return &Error{Key: key, Value: node.Value, Allowed: what, Source: w.source(node)}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if err := w.entry(prefix+node.Content[i].Value, node.Content[i], node.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (w walker) entry(name string, key, value *yaml.Node) error {
	if name == "tasks" || name == "nodes" {
		return w.mapping(value, name+".")
	}
	known, err := FindKey(name)
	if err != nil {
		return w.at(key, err)
	}
	if _, twice := w.document.Sources[name]; twice {
		return &Error{Problem: "key " + quote(name) + " is given twice", Source: w.source(key), Remedy: "also in " + w.document.Sources[name]}
	}
	w.document.Sources[name] = w.source(key)
	if known.Kind == reflect.Slice {
		w.document.Mixture, err = parseMixture(value, w.source)
		return err
	}
	if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
		text := map[yaml.Kind]string{yaml.MappingNode: "{…}", yaml.SequenceNode: "[…]", yaml.AliasNode: "*" + value.Value}[value.Kind]
		return &Error{Key: name, Value: text, Allowed: known.allowed(), Source: w.source(key)}
	}
	parsed, err := known.Parse(value.Value)
	if err != nil {
		return w.at(key, err)
	}
	if parsed == "" {
		delete(w.document.Sources, name)
		return nil
	}
	w.document.Values[name] = parsed
	return nil
}

// at adds the node's position to an *Error.
func (w walker) at(n *yaml.Node, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Source = w.source(n)
	}
	return err
}
