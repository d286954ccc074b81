package terminal

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// importOutcomes are the texts of outcomes.
var importOutcomes = map[string]string{
	store.ImportNew: "imported", store.ImportReplaced: "imported again, because it has changed", store.ImportUnchanged: "imported before",
	store.ImportOwn: "recorded here", store.ImportOlder: "imported before from a newer file; kept that version",
	store.ImportGoing: "skipped, because it had not ended",
}

// ImportedText lists one run per line, and the number of imported runs.
func ImportedText(runs []store.ImportedRun, dry bool) string {
	var b strings.Builder
	taken, would, did := 0, "", "imported"
	if dry {
		would, did = "would be ", "would import"
	}
	for _, r := range runs {
		what := importOutcomes[r.Outcome]
		if r.Outcome == store.ImportNew || r.Outcome == store.ImportReplaced {
			what = would + what
			taken++
		}
		name := r.Run
		switch {
		case name == "":
			name = charset.Shown(r.Source)
		case name != r.Source:
			name += " (there " + charset.Shown(r.Source) + ")"
		}
		fmt.Fprintf(&b, "%s: seed %d, %s, %d of %s, %s: %s\n", name, r.Seed, units.Plural(r.Nodes, "node"), r.RoundsDone,
			units.Plural(r.Rounds, "round"), r.State, what)
	}
	fmt.Fprintf(&b, "%s %d of %s\n", did, taken, units.Plural(len(runs), "run"))
	return b.String()
}
