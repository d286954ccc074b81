package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
)

// ReadWorkload reads the values of a profile from the training's files in dir. It returns one reading for each value
// with a place, then one for each value of each stage. A missing or unreadable file is not an error: the reading
// reports it. ReadWorkload reads each file once, and at most 1000 places and 64 MiB.
func ReadWorkload(dir string, w configs.Workload) []configs.WorkloadReading {
	r := workloadReader{dir: dir, sources: map[string]opened{}, left: maxPlaces, bytes: maxWorkloadBytes}
	var list []configs.WorkloadReading
	add := func(stage string, v configs.WorkloadValue, places []string) {
		if len(places) > 0 {
			reading := r.read(v, places)
			reading.Stage, reading.Name = stage, v.Name
			list = append(list, reading)
		}
	}
	for _, v := range w.Values {
		add("", v, v.Places)
	}
	for _, s := range w.Stages {
		for _, in := range s.Values {
			v, _ := w.Value(in.Name)
			v.Start = in.Value
			places := in.Places
			if len(places) == 0 {
				places = v.Places
			}
			add(s.Name, v, places)
		}
	}
	return list
}

// maxWorkloadBytes bounds the bytes read from all files of a profile, which may be untrusted.
const maxWorkloadBytes = 64 << 20

type workloadReader struct {
	dir     string
	sources map[string]opened // by real path
	left    int               // number of places that may still be read
	bytes   int               // number of bytes that may still be read
}

// opened is a file that was read, or the error.
type opened struct {
	source *source
	err    error
}

// read returns the value of the places. If they differ, it reports the first difference and returns the larger value.
func (r *workloadReader) read(v configs.WorkloadValue, texts []string) (out configs.WorkloadReading) {
	missing := ""
	for _, p := range r.expand(texts, &missing) {
		line, text, problem := r.at(p)
		if line == 0 {
			if missing == "" {
				missing = problem
			}
			continue
		}
		if problem == "" {
			problem = unlike(p, line, text, v.Start)
		}
		switch {
		case out.File == "":
			out.File, out.Line, out.Text, out.Usable, out.Problem = p.File, line, text, problem == "", problem
		case !sameValue(out.Text, text) && out.Problem == "":
			out.Problem = fmt.Sprintf("%s:%d has %s and %s:%d has %s", out.File, out.Line, short(out.Text), p.File, line, short(text))
			if problem == "" && larger(text, out.Text) {
				out.File, out.Line, out.Text = p.File, line, text
			}
		}
	}
	if out.File == "" {
		out.Problem = missing
	}
	return out
}

// expand returns the places that each name one file: it resolves braces and globs. It stores the first error in
// missing.
func (r *workloadReader) expand(texts []string, missing *string) (places []Place) {
	for _, text := range texts {
		p, err := ParsePlace(text)
		if err == nil {
			p.Within = true // a profile may be untrusted
			var more []Place
			more, err = Expand(r.dir, p)
			places = append(places, more...)
		}
		if err != nil && *missing == "" {
			*missing = err.Error()
		}
	}
	if len(places) > r.left {
		*missing = fmt.Sprintf("its profile names more than %d places", maxPlaces)
		places = places[:r.left]
	}
	r.left -= len(places)
	return places
}

// at returns the value at one place. line is 0 if there is none.
func (r *workloadReader) at(p Place) (line int, text, problem string) {
	if _, err := os.Stat(under(r.dir, p.File)); errors.Is(err, fs.ErrNotExist) {
		return 0, "", p.File + " does not exist"
	}
	path, err := realPath(r.dir, p)
	if err != nil {
		return 0, "", err.Error()
	}
	file, seen := r.sources[path]
	if !seen {
		if r.bytes <= 0 {
			return 0, "", fmt.Sprintf("%s is not read: the files that its profile names exceed %d MiB", p.File, maxWorkloadBytes>>20)
		}
		file.source, file.err = readSource(p.File, path)
		if file.source != nil {
			r.bytes -= len(file.source.data)
		}
		r.sources[path] = file
	}
	if file.err != nil {
		return 0, "", file.err.Error()
	}
	n, err := file.source.look(p.Key)
	if err != nil {
		return 0, "", err.Error()
	}
	if n.leaf.kind == null {
		return n.line, "", fmt.Sprintf("%s:%d has no value (null)", p.File, n.line)
	}
	if l := n.leaf; l.stuck != "" && !l.isNumber() {
		problem = charset.Marked(fmt.Sprintf("%s:%d %s", p.File, n.line, l.stuck))
	}
	return n.line, charset.Marked(short(n.leaf.text)), problem
}

// unlike returns the reason why a text can't replace start in a computation: it is not a number, or is below 0.
func unlike(p Place, line int, text, start string) string {
	if _, numeric := configs.Number(start); !numeric {
		return ""
	}
	n, numeric := configs.Number(text)
	switch {
	case !numeric || isBoolean(text) != isBoolean(start):
		kind := "a plain number"
		if isBoolean(start) {
			kind = "true or false"
		}
		return fmt.Sprintf("%s:%d has %s, which is not %s", p.File, line, short(text), kind)
	case n < 0:
		return fmt.Sprintf("%s:%d has %s, which is below 0", p.File, line, short(text))
	}
	return ""
}

func isBoolean(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
}

func larger(a, b string) bool {
	x, isX := configs.Number(a)
	y, isY := configs.Number(b)
	return isX && isY && x > y
}

// sameValue reports whether two texts are the same value: 0.40 and 0.4, True and true.
func sameValue(a, b string) bool {
	x, isX := configs.Number(a)
	y, isY := configs.Number(b)
	return a == b || isX && isY && x == y && isBoolean(a) == isBoolean(b)
}
