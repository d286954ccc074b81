package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// comparisonColumn is a column of `swarm compare`, with its text for the table and its value for CSV.
type comparisonColumn struct {
	name    string // for --columns and the CSV file: the field's name in JSON
	heading string
	format  string                 // of a number; empty: unrounded
	raw     func(stats.Row) any    // string, int, float64, *float64, *int
	text    func(stats.Row) string // replaces format; nil: none
}

// asPercent is the format of ratios.
const asPercent = "percent"

var comparisonColumns = []comparisonColumn{
	{"experiment", "experiment", "", func(r stats.Row) any { return r.Experiment }, func(r stats.Row) string { return r.Name }},
	{"part", "part", "", func(r stats.Row) any { return r.Part }, nil},
	{"config", "I/J", "", func(r stats.Row) any { return r.Config }, nil},
	{"model", "model", "", func(r stats.Row) any { return r.Model }, nil},
	{"runs", "runs", "", func(r stats.Row) any { return r.Runs }, nil},
	{"seeds", "seeds", "", func(r stats.Row) any { return r.Seeds }, nil},
	{"unfinished", "unfinished", "", func(r stats.Row) any { return r.Unfinished }, nil},
	{"skipped", "skipped", "", func(r stats.Row) any { return r.Skipped }, nil},
	{"nodes", "nodes", "", func(r stats.Row) any { return r.Nodes }, nil},
	{"rounds", "rounds", "", func(r stats.Row) any { return r.Rounds }, nil},
	{"rounds_compared", "over rounds", "", func(r stats.Row) any { return spanText(r.RoundsCompared) }, nil},
	{"cumulative_reward", "cumulative", "%.2f", func(r stats.Row) any { return cumulative(r) }, nil},
	{"reward_per_node_round", "per node and round", "%.4f", func(r stats.Row) any { return r.RewardPerNodeRound }, nil},
	{"value", "compared", "%.4f", func(r stats.Row) any { return r.Value }, nil},
	{"value_ci_low", "95 % from", "%.4f", func(r stats.Row) any { return r.ValueLow }, nil},
	{"value_ci_high", "to", "%.4f", func(r stats.Row) any { return r.ValueHigh }, nil},
	{"explored", "explored", "%.4f", func(r stats.Row) any { return r.Explored }, nil},
	{"improvement", "improvement", "", func(r stats.Row) any { return r.Improvement }, improvementText},
	{"ci_low", "95 % from", asPercent, func(r stats.Row) any { return r.CILow }, nil},
	{"ci_high", "to", asPercent, func(r stats.Row) any { return r.CIHigh }, nil},
	{"p_value", "p (Welch)", "%.2g", func(r stats.Row) any { return r.PValue }, nil},
	{"p_value_holm", "p (Holm)", "%.2g", func(r stats.Row) any { return r.PValueHolm }, nil},
	{"permutation_p_value", "p (permutation)", "%.2g", func(r stats.Row) any { return r.PermutationPValue }, nil},
	{"decided_by", "decided by", "", func(r stats.Row) any { return r.DecidedBy }, nil},
	{"probability_of_improvement", "P(better)", "%.2f", func(r stats.Row) any { return r.ProbabilityOfImprovement }, nil},
	{"iqm", "IQM", "%.4f", func(r stats.Row) any { return r.IQM }, nil},
	{"more_seeds", "more seeds", "", func(r stats.Row) any { return r.MoreSeeds }, nil},
	{"eval_reward", "held-out", "%.4f", func(r stats.Row) any { return r.EvalReward }, nil},
	{"eval_pass_1", "pass@1", "%.4f", func(r stats.Row) any { return r.EvalPass1 }, nil},
	{"eval_round", "evaluated at", "", func(r stats.Row) any { return r.EvalRound }, nil},
	{"paper_reward", "paper", "", func(r stats.Row) any { return r.PaperReward }, paperText},
	{"paper_improvement", "paper's improvement", asPercent, func(r stats.Row) any { return r.PaperImprovement }, nil},
	{"guide_reward_low", "guide (GPT-2, est.)", "", func(r stats.Row) any { return guideReward(r, 0) }, guideText},
	{"guide_reward_high", "to", "", func(r stats.Row) any { return guideReward(r, 1) }, nil},
	{"guide_improvement_low", "guide's improvement", "", func(r stats.Row) any { return guideImprovement(r, 0) }, nil},
	{"guide_improvement_high", "to", "", func(r stats.Row) any { return guideImprovement(r, 1) }, nil},
	{"target_reached", "reached", "", func(r stats.Row) any { return targetReached(r) }, reachedText},
	{"target_rounds", "rounds to it", "", func(r stats.Row) any { return targetOf(r).Rounds }, nil},
	{"target_active_seconds", "time", "", func(r stats.Row) any { return targetOf(r).ActiveSeconds }, targetTime},
	{"target_gpu_hours", "GPU-hours", "%.3f", func(r stats.Row) any { return targetOf(r).GPUHours }, nil},
	{"target_cost", "cost", "", func(r stats.Row) any { return targetOf(r).Cost }, costText},
	{"target_energy_joules", "energy", "", func(r stats.Row) any { return targetOf(r).EnergyJoules }, energyText},
	{"outcome", "verdict", "", func(r stats.Row) any { return r.Outcome }, nil},
	{"verdict", "verdict and why", "", func(r stats.Row) any { return r.Verdict }, nil},
}

// cumulative returns the cumulative reward; nil for a row without counted runs.
func cumulative(r stats.Row) *float64 {
	if r.Runs == 0 {
		return nil
	}
	return &r.CumulativeReward
}

// comparisonDrop is the order in which default columns are dropped on a narrow terminal, highest number first. Columns
// that are not listed stay: the compared value, the difference and the verdict.
var comparisonDrop = map[string]int{
	"paper_reward": 12, "explored": 12, "guide_reward_low": 11, "target_energy_joules": 10, "target_gpu_hours": 9, "config": 8, "cumulative_reward": 7, "eval_reward": 6,
	"rounds": 5, "rounds_compared": 5, "nodes": 4, "target_active_seconds": 3, "target_cost": 3, "target_rounds": 2, "runs": 2, "eval_pass_1": 1, "reward_per_node_round": 1,
}

// isNumber reports whether a column holds bare numbers.
func (c comparisonColumn) isNumber() bool {
	switch c.raw(stats.Row{}).(type) {
	case string, nil:
		return false
	}
	return c.text == nil
}

// show returns the column's text for a row.
func (c comparisonColumn) show(r stats.Row) string {
	if c.text != nil {
		return c.text(r)
	}
	value := c.raw(r)
	if exact, ok := value.(float64); ok {
		value = &exact
	}
	if v, ok := value.(*float64); ok && c.format != "" {
		if c.format == asPercent {
			return signedPercent(v)
		}
		return optionalNumber(v, c.format)
	}
	if text := csvCell(value); text != "" {
		return text
	}
	return "–"
}

// spanText formats a span as 1-40. It is empty without rounds.
func spanText(s *stats.Span) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%d-%d", s.From, s.To)
}

// CheckComparisonColumns rejects unknown column names. The error is a *configs.Error.
func CheckComparisonColumns(names []string) error {
	_, err := chooseColumns(names)
	return err
}

// chooseColumns returns the columns with those names. An unknown name is a usage error.
func chooseColumns(names []string) ([]comparisonColumn, error) {
	var chosen []comparisonColumn
	for _, name := range names {
		i := slices.IndexFunc(comparisonColumns, func(c comparisonColumn) bool { return c.name == name })
		if i < 0 {
			return nil, &configs.Error{Key: "columns", Value: name, Allowed: strings.Join(columnNames(comparisonColumns), ", ")}
		}
		chosen = append(chosen, comparisonColumns[i])
	}
	return chosen, nil
}

func columnNames(columns []comparisonColumn) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return names
}

// ComparisonColumns lists all column names, five per line.
func ComparisonColumns() string {
	var b strings.Builder
	for i, name := range columnNames(comparisonColumns) {
		switch {
		case i > 0 && i%5 == 0:
			b.WriteString(",\n  ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}

// usualColumns returns the default columns of the table: those with content.
func usualColumns(c stats.Comparison) []string {
	some := func(has func(stats.Row) bool) bool { return slices.ContainsFunc(c.Rows, has) }
	heldOut := c.Study != nil && c.Study.Per != nil && c.Study.Per.Target != nil // a target of another table
	target := func(r stats.Row) stats.TargetRow {
		if heldOut {
			return stats.TargetRow{}
		}
		return targetOf(r)
	}
	names := []string{"experiment", "config", "runs", "nodes", "rounds"}
	if some(func(r stats.Row) bool { return r.RoundsCompared != nil && r.RoundsCompared.To != r.Rounds }) {
		names = append(names, "rounds_compared")
	}
	names = append(names, "cumulative_reward", "reward_per_node_round")
	if some(func(r stats.Row) bool { return r.EvalReward != nil }) {
		names = append(names, "eval_reward", "eval_pass_1")
	}
	if stats.PassOf(c.Measure) > 1 { // no other column shows it
		names = append(names, "value")
	}
	if some(func(r stats.Row) bool { return r.Explored != nil }) {
		names = append(names, "explored")
	}
	names = append(names, "improvement")
	if !heldOut && some(func(r stats.Row) bool { return r.Target != nil }) {
		names = append(names, "target_reached", "target_rounds", "target_active_seconds")
	}
	if some(func(r stats.Row) bool { return target(r).GPUHours != nil }) {
		names = append(names, "target_gpu_hours")
	}
	if some(func(r stats.Row) bool { return target(r).Cost != nil }) {
		names = append(names, "target_cost")
	}
	if some(func(r stats.Row) bool { return target(r).EnergyJoules != nil }) {
		names = append(names, "target_energy_joules")
	}
	if some(func(r stats.Row) bool { return r.Guide != nil && strings.Contains(r.Model, "gpt2") }) {
		names = append(names, "guide_reward_low")
	}
	return append(names, "paper_reward", "outcome")
}
