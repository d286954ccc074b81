package wording

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// caveat returns the text of a note of a comparison.
func caveat(x stats.Caveat) string {
	switch x := x.(type) {
	case stats.NoBaseline:
		return "No row is the baseline, so the rows are only ranked, the longest first. Try: swarm compare --baseline " + typed(x.Row)
	case stats.PerNodeRound:
		return "The runs differ in nodes or rounds: improvements compare the reward per node and round."
	case stats.CutRounds:
		return "Runs of different length are compared over the rounds that all runs of both sides have."
	case stats.CutEvaluations:
		return "Held-out evaluations are compared after the newest round after which all runs of both sides were evaluated."
	case stats.OtherMeasure:
		var pairs []string
		for _, p := range x.Pairs {
			pairs = append(pairs, p[0]+" against "+p[1])
		}
		return fmt.Sprintf("Decided by %s, because not every seed of both has %s: %s.", Measure(stats.MeasureReward), Measure(stats.MeasurePass),
			strings.Join(pairs, ", "))
	case stats.Confounded:
		return "Rows are not comparable if a setting other than the one under study could explain the result. To compare them anyway: " +
			"--despite " + strings.Join(x.Settings, ",")
	case stats.Corrected:
		planned := ""
		if x.Planned > 0 {
			planned = fmt.Sprintf(", the planned ones for %d", x.Planned)
		}
		return fmt.Sprintf("Verdicts rest on p-values corrected for %d comparisons (Holm)%s. Intervals are not corrected.", x.Tests, planned)
	case stats.Skipped:
		text := fmt.Sprintf("%s: %d %s not done (%s) and not counted, unlike the %d that %s.", x.Row, x.Skipped, runsAre(x.Skipped),
			strings.Join(x.States, ", "), x.Counted, units.Verb(x.Counted, "be"))
		if slices.Contains(x.States, store.AlarmStop) {
			text += " " + selected
		}
		return text
	case stats.NoneDone:
		if slices.Equal(x.States, []string{store.AlarmStop}) {
			if x.Counted == 1 {
				return x.Row + ": the alarm stopped its only run, which counts in no mean."
			}
			return fmt.Sprintf("%s: the alarm stopped all of its %d runs, which count in no mean.", x.Row, x.Counted)
		}
		text := fmt.Sprintf("%s: no run is done; %d unfinished %s counted (%s).", x.Row, x.Counted, runsAre(x.Counted), strings.Join(x.States, ", "))
		if slices.Contains(x.States, store.AlarmStop) {
			text += " Those that the alarm stopped are in no mean. " + selected
		}
		return text
	case stats.Parted:
		return parted(x)
	case stats.WithWorkers:
		models := ""
		if len(x.Models) > 0 {
			models = fmt.Sprintf("; its nodes trained different models (%s)", strings.Join(x.Models, ", "))
		}
		return fmt.Sprintf("%s: %s of %s took part in %s while they were connected%s.", x.Row, units.Plural(x.Nodes, "node"),
			units.Plural(x.Workers, "worker"), x.Run, models)
	case stats.OtherQuestions:
		return fmt.Sprintf("%s: the held-out evaluation of %d of its %s has other questions or sampling than the baseline's and is not compared.",
			x.Row, x.Other, units.Plural(x.Runs, "run"))
	case stats.AtHorizon:
		others := "The other columns"
		if x.Explored {
			others += ", except explored,"
		}
		return "Verdicts, differences and improvements are at " + equal(x.Axis, x.Currency, x.Place) + ". " + others + " are of whole runs."
	case stats.ChosenSeeds:
		return chosenSeeds(x.Seeds)
	case stats.BelowWindow:
		return fmt.Sprintf("%s: %d of its %s did fewer rounds than the target's window of %d and cannot have reached it.", x.Row, x.Short,
			units.Plural(x.Runs, "run"), x.Window)
	}
	return fmt.Sprint(x)
}

func parted(x stats.Parted) string {
	var texts []string
	for _, p := range x.Parts {
		texts = append(texts, fmt.Sprintf("%s (%s)", p.Name, units.Plural(p.Runs, "run")))
	}
	return fmt.Sprintf("%s: its runs have different settings and are in %d rows: %s.", x.Experiment, len(texts), strings.Join(texts, "; "))
}

func runsAre(n int) string { return units.Noun(n, "run") + " " + units.Verb(n, "be") }

// typed returns a row's name if a command line accepts it unquoted, else the placeholder NAME.
func typed(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return !(r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r))) && !strings.ContainsRune("-_.#", r)
	}) {
		return "NAME"
	}
	return name
}
