package figures

import (
	"regexp"
	"slices"
	"strings"
)

// splitName is how presets are named that differ in I and J.
var splitName = regexp.MustCompile(`^(\d+)loc(\d+)ext$`)

// shortNames are labels of experiments: without the words that all begin with, parted by "-".
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

// splitLabel writes the name of a split as the paper does, and leaves others alone.
func splitLabel(name string) string {
	if m := splitName.FindStringSubmatch(name); m != nil {
		return m[1] + " local / " + m[2] + " external"
	}
	return name
}
