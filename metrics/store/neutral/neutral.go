// Package neutral removes identifying data from texts: folders, GPUs' UUIDs and host names. The rest of the text stays
// unchanged. It is pure.
package neutral

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Names maps GPUs and hosts to neutral names: a GPU to its number in the order of addition, a host to "host".
type Names struct {
	gpus  map[string]string
	uuids *strings.Replacer
	hosts map[string]bool
}

// NewNames returns names for these GPUs, numbered in their order without duplicates, and these hosts. It ignores empty
// texts.
func NewNames(uuids, hosts []string) *Names {
	n := &Names{gpus: map[string]string{}, hosts: map[string]bool{}}
	var known []string
	for _, uuid := range uuids {
		if _, twice := n.gpus[uuid]; !twice && uuid != "" {
			n.gpus[uuid] = fmt.Sprintf("gpu-%d", len(n.gpus)+1)
			known = append(known, uuid)
		}
	}
	for _, host := range hosts {
		if host != "" {
			n.hosts[host] = true
		}
	}
	slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // longer UUIDs first, because one may be a prefix of another
	var pairs []string
	for _, uuid := range known {
		pairs = append(pairs, uuid, n.gpus[uuid])
	}
	n.uuids = strings.NewReplacer(pairs...)
	return n
}

// Label returns a text that is equal for equal names.
func (n *Names) Label() string { return fmt.Sprintf("%q %v", n.gpus, n.hosts) } // fmt prints maps in the order of their keys

// GPU returns the neutral name for a UUID.
func (n *Names) GPU(uuid string) string { return cmp.Or(n.gpus[uuid], uuid) }

// pathPart matches the name of a folder or file in a text.
const pathPart = `[^/\s"'` + "`" + `()\[\]{}<>,;:|]+`

var (
	homeFolder = regexp.MustCompile(`/(?:home|Users)/` + pathPart)
	folders    = regexp.MustCompile(`(^|[\s"'` + "`" + `(\[{<=,;:|])(?:file://)?(?:~/(?:` + pathPart + `/)*|/(?:` + pathPart + `/)+)`)
	word       = regexp.MustCompile(`[\pL\pN_.-]+`)
)

// WithoutFolders reduces all absolute paths in a text to their last part.
func WithoutFolders(text string) string {
	if !strings.Contains(text, "/") {
		return text
	}
	return folders.ReplaceAllString(homeFolder.ReplaceAllString(text, "~"), "$1")
}

// Text removes folders and names from text for people.
func (n *Names) Text(text string) string {
	text = WithoutFolders(n.uuids.Replace(text))
	if len(n.hosts) == 0 {
		return text
	}
	return word.ReplaceAllStringFunc(text, func(s string) string {
		label, _, _ := strings.Cut(s, ".")
		if n.hosts[label] || n.hosts[strings.TrimRight(s, ".")] {
			return "host"
		}
		return s
	})
}

// DocumentWithoutFolders applies WithoutFolders to each text in a JSON document. It returns invalid JSON unchanged.
func DocumentWithoutFolders(text []byte) []byte {
	plain, err := NewNames(nil, nil).Document(string(text))
	if err != nil {
		return text
	}
	return []byte(plain)
}

// Document removes folders from each text and key of a JSON document, and replaces UUIDs of GPUs in its texts. A
// document without such data is returned unchanged, byte for byte.
func (n *Names) Document(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	var value any
	if err := in.Decode(&value); err != nil {
		return "", err
	}
	changed := false
	value = n.within(value, &changed)
	if !changed {
		return text, nil
	}
	var b strings.Builder
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	err := out.Encode(value)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func (n *Names) within(value any, changed *bool) any {
	switch x := value.(type) {
	case string:
		plain := WithoutFolders(n.uuids.Replace(x))
		*changed = *changed || plain != x
		return plain
	case []any:
		for i := range x {
			x[i] = n.within(x[i], changed)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			value := n.within(x[key], changed)
			plain := WithoutFolders(key) // in the inputs of a run, for example model /srv/models/mine
			if _, taken := x[plain]; plain != key && !taken {
				delete(x, key)
				key, *changed = plain, true
			}
			x[key] = value
		}
	}
	return value
}
