package task

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// maxFile bounds a file of items or words, in bytes.
const maxFile = 256 << 20

// Open opens the question set of an experiment: its mixture of tasks, or the items of its file. Reading those files
// is the only I/O of this package.
func Open(cfg configs.Tasks) (*Set, error) {
	if cfg.File != "" {
		items, err := readFile(cfg.File, ReadItems)
		if err != nil {
			return nil, &configs.Error{Key: "tasks.file", Value: cfg.File, Allowed: "a file of JSON lines with question, answer and metadata: " + err.Error()}
		}
		set, err := NewFileSet(items)
		if err != nil {
			return nil, &configs.Error{Key: "tasks.file", Value: cfg.File, Allowed: err.Error()}
		}
		set.show(cfg.Examples)
		return set, nil
	}
	var words []string
	if cfg.Words != "" {
		var err error
		if words, err = ReadWords(cfg.Words); err != nil {
			return nil, err
		}
	}
	specs := make([]Spec, len(cfg.Mixture))
	for i, t := range cfg.Mixture {
		specs[i] = Spec{Name: t.Name, Weight: t.Weight, Params: t.Params}
		if t.Name == "bf" && words != nil {
			specs[i].Params = WithWords(t.Params, words)
		}
	}
	set, err := NewSet(specs)
	if err != nil {
		return nil, fmt.Errorf("tasks.mixture: %w", err)
	}
	set.show(cfg.Examples)
	return set, nil
}

// ReadWords reads a word list for bf, one word a line. It skips empty lines.
func ReadWords(path string) ([]string, error) {
	words, err := readFile(path, func(r io.Reader) ([]string, error) {
		var list []string
		scanner := bufio.NewScanner(r)
		for scanner.Scan() {
			if w := strings.TrimSpace(scanner.Text()); w != "" {
				list = append(list, w)
			}
		}
		return list, scanner.Err()
	})
	if err != nil {
		return nil, &configs.Error{Key: "tasks.words", Value: path, Allowed: "a file with one word a line: " + err.Error()}
	}
	return words, nil
}

func WithWords(params map[string]any, words []string) map[string]any {
	out := map[string]any{"words": words}
	for k, v := range params {
		if k != "words" {
			out[k] = v
		}
	}
	return out
}

func readFile[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	var none T
	f, err := os.Open(path)
	if err != nil {
		return none, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return none, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return none, fmt.Errorf("not a regular file of at most %d bytes", maxFile)
	}
	return read(bufio.NewReader(f))
}
