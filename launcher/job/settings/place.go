package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/sapo-swarm/swarm/configs"
)

// maxPlaces bounds the expansion of braces and globs.
const maxPlaces = 1000

// Place names a value in a file.
type Place struct {
	File   string // relative to the caller's folder, or absolute; may have braces and globs: conf/{01,02}_stage.yaml
	Key    string // data.batch_size, stages[0].n_negatives, #SBATCH --gres
	Within bool   // the file must be in that folder; for places from a profile, not from the user
}

func (p Place) String() string { return p.File + ":" + p.Key }

// ParsePlace parses FILE:KEY. It splits at the last colon: a file name may have colons, a key has none.
func ParsePlace(text string) (Place, error) {
	at := strings.LastIndexByte(text, ':')
	if at < 1 || !saneKey(text[at+1:]) || strings.ContainsFunc(text, unicode.IsControl) {
		return Place{}, &configs.Error{Key: "place", Value: text, Allowed: "FILE:KEY, such as conf/config.yaml:data_loader.batch_size"}
	}
	return Place{File: text[:at], Key: text[at+1:]}, nil
}

// ParseSetting parses FILE:KEY=VALUE, the form of --set. It splits at the first equals sign after a valid place: a
// folder name may have one (outputs/lr=0.1/config.yaml), a key has none.
func ParseSetting(text string) (Place, string, error) {
	for at, c := range text {
		if c != '=' {
			continue
		}
		if p, err := ParsePlace(text[:at]); err == nil {
			return p, text[at+1:], nil
		}
	}
	return Place{}, "", &configs.Error{Key: "setting", Value: text, Allowed: "FILE:KEY=VALUE, such as conf/config.yaml:batch_size={batch_size}"}
}

func saneKey(key string) bool {
	return key != "" && strings.TrimSpace(key) == key && !strings.ContainsAny(key, "/\\=") && len(key) <= 500
}

// Expand returns the places that p matches, each with one file. It returns an error for a glob without matches, and
// for a file that p.Within excludes.
func Expand(dir string, p Place) ([]Place, error) {
	var places []Place
	names, err := braces(p.File)
	for _, name := range names {
		if p.Within && !filepath.IsLocal(name) {
			return nil, &configs.Error{Key: "file", Value: name, Allowed: "a file in the folder"}
		}
		files, err := glob(dir, name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			places = append(places, Place{File: file, Key: p.Key, Within: p.Within})
		}
	}
	if len(places) > maxPlaces {
		err = tooMany(p.File)
	}
	return places, err
}

func tooMany(pattern string) error {
	return &configs.Error{Key: "file", Value: pattern, Allowed: fmt.Sprintf("at most %d files", maxPlaces)}
}

// braces expands {a,b} like a shell, also nested. Braces without a comma stay.
func braces(pattern string) ([]string, error) {
	names := []string{pattern}
	for i := 0; i < len(names); {
		before, inner, after, found := cutBraces(names[i])
		if !found {
			i++
			continue
		}
		var choices []string
		for choice := range strings.SplitSeq(inner, ",") {
			choices = append(choices, before+choice+after)
		}
		if names = slices.Replace(names, i, i+1, choices...); len(names) > maxPlaces {
			return nil, tooMany(pattern)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// cutBraces finds the first innermost {…} with a comma.
func cutBraces(s string) (before, inner, after string, found bool) {
	open := -1
	for i := range len(s) {
		switch {
		case s[i] == '{':
			open = i
		case s[i] == '}' && open >= 0:
			if inner := s[open+1 : i]; strings.Contains(inner, ",") {
				return s[:open], inner, s[i+1:], true
			}
			open = -1
		}
	}
	return s, "", "", false
}

// glob returns the files in dir that match. A name without wildcards, or a name of an existing file, matches itself.
func glob(dir, name string) ([]string, error) {
	if !strings.ContainsAny(name, "*?[") {
		return []string{name}, nil
	}
	full := under(dir, name)
	if _, err := os.Lstat(full); err == nil {
		return []string{name}, nil
	}
	if filepath.IsAbs(name) {
		dir = ""
	}
	found, err := filepath.Glob(full)
	if err != nil {
		return nil, &configs.Error{Key: "file", Value: name, Allowed: "a file name or a pattern with * ? [a-z]"}
	}
	if len(found) == 0 {
		return nil, &configs.Error{Problem: "no file matches " + name, Source: dir, Remedy: "name existing files"}
	}
	for i, file := range found {
		if relative, err := filepath.Rel(dir, file); err == nil && dir != "" {
			found[i] = relative
		}
	}
	return found, nil
}

// under returns a file's path relative to dir, unless it is absolute.
func under(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
