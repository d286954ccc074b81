package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// findKinds keeps one run of each kind. Runs of one kind have equal settings.
func (g *group) findKinds(o CompareOptions) {
	for _, r := range g.runs {
		if !slices.ContainsFunc(g.kinds, func(kind store.Totals) bool { return len(o.differ(kind, r)) == 0 }) {
			g.kinds = append(g.kinds, r)
		}
	}
}

// split divides an experiment whose counted runs used different settings: one group for each combination of settings
// that affect learning. Groups are in the order of their first runs. A group whose runs agree is returned unchanged.
func (g group) split(o CompareOptions) []group {
	differs := func(a, b store.Totals) bool { return slices.ContainsFunc(o.differ(a, b), o.decides) }
	var parts []group
	for _, r := range g.runs {
		i := slices.IndexFunc(parts, func(p group) bool { return !differs(p.runs[0], r) })
		if i < 0 {
			i = len(parts)
			parts = append(parts, group{experiment: g.experiment, experiments: g.experiments})
		}
		parts[i].runs = append(parts[i].runs, r)
	}
	if len(parts) < 2 {
		return []group{g}
	}
	for i := range parts {
		parts[i].part = o.partName(parts, i)
		parts[i].name = freeName(parts[:i], fmt.Sprintf("%s (%s)", g.experiment, parts[i].part))
	}
	parts[0].skipped = g.skipped
	return parts
}

// Limits of a part's name.
const (
	namedSettings = 2  // settings named
	settingLength = 40 // characters per setting
)

// partName lists the settings that distinguish a part of an experiment from its other parts, for example "nodes 8".
func (o CompareOptions) partName(parts []group, i int) string {
	var texts []string
	more := 0
	seen := map[string]bool{}
	for k, other := range parts {
		if k == i {
			continue
		}
		for _, d := range o.differ(parts[i].runs[0], other.runs[0]) {
			if !o.decides(d) || seen[d.Key] {
				continue
			}
			if seen[d.Key] = true; len(texts) == namedSettings {
				more++
				continue
			}
			texts = append(texts, cutText(d.Key+" "+cmp.Or(strings.Trim(d.A, `"`), "none"), settingLength))
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// cutText shortens a text to a number of characters.
func cutText(text string, length int) string {
	if runes := []rune(text); len(runes) > length {
		return string(runes[:length-1]) + "…"
	}
	return text
}
