package figures

import (
	"regexp"
	"slices"
	"strings"
)

// splitName matches the names of presets that differ in I and J.
var splitName = regexp.MustCompile(`^(\d+)loc(\d+)ext$`)

// shortNames returns labels for experiments: their names without the common first words, which "-" separates.
func shortNames(names []string) []string {
	words := make([][]string, len(names))
	for i, name := range names {
		words[i] = strings.Split(name, "-")
	}
	common := 0
	if len(words) > 1 {
		for common < len(words[0])-1 && !slices.ContainsFunc(words, func(w []string) bool {
			return len(w)-1 <= common || w[common] != words[0][common]
		}) {
			common++
		}
	}
	out := make([]string, len(names))
	for i, w := range words {
		out[i] = splitLabel(strings.Join(w[common:], "-"))
	}
	return out
}

// splitLabel formats the name of a split as in the paper. Other names stay unchanged.
func splitLabel(name string) string {
	if m := splitName.FindStringSubmatch(name); m != nil {
		return m[1] + " local / " + m[2] + " external"
	}
	return name
}
