package wording

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// Comparison sets the texts of a comparison: the verdicts of its rows and pairs, its notes, and the verdict and lines
// of its study. All surfaces show these texts.
func Comparison(c *stats.Comparison) {
	for i := range c.Pairs {
		c.Pairs[i].Verdict = verdict(c.Pairs[i])
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		r.Verdict = ""
		if r.Outcome == stats.OutcomeBaseline {
			r.Verdict = stats.OutcomeBaseline
		} else if k := slices.IndexFunc(c.Pairs, func(p stats.Pair) bool { return p.A == r.Name && p.B == c.Baseline }); k >= 0 {
			r.Verdict = c.Pairs[k].Verdict
		}
	}
	c.Notes = []string{}
	for _, x := range c.Caveats {
		c.Notes = append(c.Notes, caveat(x))
	}
	if c.Study != nil {
		study(c.Study)
	}
}

// verdict describes a pair's outcome, or the reason why there is none.
func verdict(p stats.Pair) string {
	switch p.Reason.Kind {
	case stats.ReasonDecided:
		return p.Outcome
	case stats.ReasonNotComparable:
		return stats.OutcomeNotComparable + ": " + differenceList(p.Confounders())
	case stats.ReasonLength:
		return "undecided: different length"
	case stats.ReasonNoRounds:
		return "undecided: no rounds yet"
	case stats.ReasonNoEvaluation:
		return "undecided: no held-out evaluation" + withCompletions(p.Measure)
	case stats.ReasonFewSeeds:
		return fewSeeds(p)
	case stats.ReasonConstant:
		return "undecided: the runs don't vary"
	case stats.ReasonChance:
		return chance(p)
	case stats.ReasonSeedsCannot:
		return seedsCannot(p)
	case stats.ReasonSelected:
		return fmt.Sprintf("undecided: the alarm stopped %s of the higher side, so its mean is too high", units.Plural(p.Reason.Lost, "run"))
	}
	return ""
}

// Test returns the name of the test that decides, followed by a space, as a prefix of its p-value. It is empty if none
// does.
func Test(decidedBy string) string {
	switch decidedBy {
	case stats.DecidedByPermutation:
		return "exact permutation test "
	case stats.DecidedBySampling:
		return "sampled permutation test "
	}
	return ""
}

// PValue states the p-values of a difference: the permutation test's, and Welch's if that is larger and decides. spread
// is the standard error of a sampled p-value, or nil. The text is empty without a test.
func PValue(decidedBy string, permutation, spread, welch *float64) string {
	if permutation == nil {
		return ""
	}
	fact := Test(decidedBy) + "p = " + pText(*permutation)
	if spread != nil && *spread > 0 {
		fact += fmt.Sprintf(" ± %.1g", *spread)
	}
	if welch := pText(*stats.Deciding(permutation, welch)); welch != pText(*permutation) {
		fact += ", Welch's " + welch
	}
	return fact
}

// fewSeeds is the verdict if a side has too few seeds. It names the side with fewer seeds.
func fewSeeds(p stats.Pair) string {
	n, who := p.SeedsA, ""
	if p.SeedsB < p.SeedsA {
		n, who = p.SeedsB, p.B+" has "
	}
	return fmt.Sprintf("undecided: %s%s, at least %d more needed", who, units.Plural(n, "seed"), *p.MoreSeeds)
}

// seedsCannot says that so few seeds cannot decide, why, and how many more are needed.
func seedsCannot(p stats.Pair) string {
	r := p.Reason
	text := "undecided: " + units.Plural(r.SeedsA, "seed")
	if r.SeedsB == r.SeedsA {
		text += " a side"
	} else {
		text += fmt.Sprintf(" against %d", r.SeedsB)
	}
	text += " cannot decide"
	if sample.Significant(r.Least) {
		text += fmt.Sprintf(" one of %d comparisons", r.Tests)
	}
	text += fmt.Sprintf(": an exact permutation test over them does not go below %.2g", r.Least)
	if sample.Significant(r.Least) {
		text += fmt.Sprintf(", %.2g corrected", r.LeastHolm)
	}
	return text + moreSeeds(p)
}

// moreSeeds says how many more seeds a verdict needs. It is empty if that is unknown.
func moreSeeds(p stats.Pair) string {
	if p.MoreSeeds == nil {
		return ""
	}
	return fmt.Sprintf(", at least %d more %s", *p.MoreSeeds, units.Noun(*p.MoreSeeds, "seed"))
}

// chance describes an undecided p-value and the number of seeds that would decide the pair.
func chance(p stats.Pair) string {
	deciding, tests := *stats.Deciding(p.PermutationPValue, p.PValue), p.Reason.Tests
	text := fmt.Sprintf("undecided: p = %.2g", deciding)
	if tests > 1 && sample.Significant(deciding) {
		text += fmt.Sprintf(", %.2g corrected for %d comparisons", *p.PValueHolm, tests)
	}
	text += fmt.Sprintf(" with n=%d", p.Reason.SeedsA)
	if p.Reason.SeedsB != p.Reason.SeedsA {
		text += fmt.Sprintf(" against %d", p.Reason.SeedsB)
	}
	if p.MoreSeeds == nil {
		return text + fmt.Sprintf(", a difference too small for %d seeds", sample.MaxSeeds)
	}
	return text + fmt.Sprintf(", a repetition needs about %d fresh seeds a side", min(p.SeedsA, p.SeedsB)+*p.MoreSeeds)
}

// Over names the rounds that a pair is compared over if longer runs were cut: "over rounds 1-3", or "after 3 rounds".
// It is empty if no run was cut.
func Over(p stats.Pair) string {
	rounds, _ := p.Cut()
	return over(rounds, p.Measure)
}

func over(rounds int, measure string) string {
	switch {
	case rounds == 0:
		return ""
	case stats.HeldOut(measure):
		return "after " + units.Plural(rounds, "round")
	}
	return fmt.Sprintf("over rounds 1-%d", rounds)
}

// MeasureNames lists what stats.ParseMeasure accepts, for messages.
const MeasureNames = "auto, reward, eval, pass, pass@K such as pass@4, or swarm-pass@K"

// Measure returns the display name of a measure.
func Measure(measure string) string {
	if measure == stats.MeasureEval {
		return "held-out reward"
	}
	if k := stats.PassOf(measure); k > 0 {
		if stats.OfSwarm(measure) {
			return fmt.Sprint("held-out swarm-pass@", k)
		}
		return fmt.Sprint("held-out pass@", k)
	}
	return "reward per node and round"
}

// withCompletions says what a measure needs of an evaluation. It is empty for measures that need one completion per
// question.
func withCompletions(measure string) string {
	if k := stats.PassOf(measure); k > 1 {
		whose := ""
		if stats.OfSwarm(measure) {
			whose = " over all nodes, sampled with eval_draws node"
		}
		return fmt.Sprintf(" with results by question and at least %d completions of each question%s", k, whose)
	}
	return ""
}

// Jobs sets the notes of a comparison of jobs.
func Jobs(c *jobstats.JobComparison) {
	c.Notes = []string{}
	if c.Commands > 1 {
		c.Notes = append(c.Notes, "These are not the same command.")
	}
	if c.Batches > 1 {
		c.Notes = append(c.Notes, "Their effective batches differ, so their training differs.")
	}
}

// listedDifferences bounds the differences listed on one line.
const listedDifferences = 5

// differenceList lists differences on one line: nodes 4 against 8, model "nano" against "micro".
func differenceList(list []stats.SettingDifference) string {
	var texts []string
	for _, d := range list[:min(len(list), listedDifferences)] {
		if d.A == d.B { // each side has runs with both values
			texts = append(texts, fmt.Sprintf("%s %s on both sides", d.Key, d.A))
			continue
		}
		texts = append(texts, fmt.Sprintf("%s %s against %s", d.Key, d.A, d.B))
	}
	if more := len(list) - listedDifferences; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// Differences lists the settings, except I and J, in which the sides of a pair differ: settings under study first, then
// the others. It is empty if there are none.
func Differences(p stats.Pair) (lines []string) {
	lines = append(lines, differing("under study: ", p, stats.RoleStudy)...)
	lines = append(lines, differing("also different: ", p, stats.RoleConfounder, stats.RoleOther)...)
	return append(lines, despite(p)...)
}

// despite lists the settings that differ and were accepted.
func despite(p stats.Pair) []string {
	return differing("different, but compared anyway: ", p, stats.RoleDespite)
}

// differing lists the settings with some roles on a line. There is no line if there are none.
func differing(lead string, p stats.Pair, roles ...string) []string {
	list := slices.DeleteFunc(slices.Clone(p.Differs), func(d stats.SettingDifference) bool {
		return !slices.Contains(roles, d.Role) || d.Effect == stats.EffectName || slices.Contains(shownKeys, d.Key)
	})
	if len(list) == 0 {
		return nil
	}
	return []string{lead + differenceList(list) + "."}
}

// PairNotes explains the verdicts of a study's pairs below a table of them: why pairs are undecided or not comparable,
// the same reason once, and settings that were accepted as differing.
func PairNotes(pairs []stats.Pair) []string {
	var notes []string
	add := func(note string) {
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	for _, p := range pairs {
		who := p.A + " over " + p.B + ": "
		switch p.Reason.Kind {
		case stats.ReasonNone, stats.ReasonDecided, stats.ReasonChance:
		case stats.ReasonSeedsCannot:
			p.MoreSeeds = nil
			text := verdict(p)
			add(strings.ToUpper(text[:1]) + text[1:] + ".")
		default:
			add(who + verdict(p) + ".")
		}
		for _, line := range despite(p) {
			add(who + line)
		}
	}
	return notes
}

// shownKeys are the settings that the column I/J shows.
var shownKeys = []string{"num_train_samples", "num_transplant_trees"}
