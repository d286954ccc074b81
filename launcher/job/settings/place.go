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

// maxPlaces bounds what braces and globs may stand for.
const maxPlaces = 1000

// Place is where a value stands.
type Place struct {
	File   string // from the folder that the caller names, or absolute; braces and globs name several: conf/{01,02}_stage.yaml
	Key    string // data.batch_size, stages[0].n_negatives, #SBATCH --gres
	Within bool   // the file must lie in that folder: for places that come from a profile and not from the user
}

func (p Place) String() string { return p.File + ":" + p.Key }

// ParsePlace reads FILE:KEY. The last colon divides them: a file's name may have colons, a key has none.
func ParsePlace(text string) (Place, error) {
	at := strings.LastIndexByte(text, ':')
	if at < 1 || !saneKey(text[at+1:]) || strings.ContainsFunc(text, unicode.IsControl) {
		return Place{}, &configs.Error{Key: "place", Value: text, Allowed: "FILE:KEY, such as conf/config.yaml:data_loader.batch_size"}
	}
	return Place{File: text[:at], Key: text[at+1:]}, nil
}

// ParseSetting reads FILE:KEY=VALUE, the form of --set. The first equals sign that has a place before it divides them:
// a folder's name may have one (outputs/lr=0.1/config.yaml), a key has none.
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

// Expand names the places that p stands for, each with one file. A glob that no file matches is an error; so is a file
// that p.Within rules out.
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

// braces writes out {a,b} as a shell does, nested ones too: braces without a comma are left as they are.
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

// cutBraces finds the first innermost {…} that has a comma.
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

// glob names the files that match, from dir. A name without wildcards, or of a file that is there as it is written, is
// itself.
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
		return nil, &configs.Error{Problem: "no file matches " + name, Source: dir, Remedy: "name files that are there"}
	}
	for i, file := range found {
		if relative, err := filepath.Rel(dir, file); err == nil && dir != "" {
			found[i] = relative
		}
	}
	return found, nil
}

// under is a file's path from dir, unless it is absolute.
func under(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
