package stats

import (
	"cmp"
	"slices"
)

// StudyPaper compares a study with the paper's order of I/J.
type StudyPaper struct {
	Order []string         `json:"order"` // arms with the paper's configurations, ordered by the paper's reward, best first
	Pairs []StudyPaperPair `json:"pairs"`
}

// StudyPaperPair is one ordered pair of the paper: High above Low.
type StudyPaperPair struct {
	High       string   `json:"high"`
	Low        string   `json:"low"`
	Outcome    string   `json:"outcome"`        // by the study's measure: confirmed, contradicted, open
	ByReward   string   `json:"outcome_reward"` // by own reward, which the paper's totals may sum
	Difference *float64 `json:"difference"`     // observed, by the study's measure
}

// Outcomes of a StudyPaperPair.
const (
	PaperConfirmed    = "confirmed"
	PaperContradicted = "contradicted"
	PaperOpen         = "open"
)

// newStudyPaper finds the rows with the paper's configurations, and compares the paper's order with their pairs by the
// study's measure and by own reward. A planned comparison decides its pair. It returns nil if there are fewer than two
// such rows, or if a configuration occurs twice.
func newStudyPaper(decided, rewards Judgment) *StudyPaper {
	var rows []Row
	for _, r := range decided.Comparison.Rows {
		if r.PaperReward == nil {
			continue
		}
		if slices.ContainsFunc(rows, func(x Row) bool { return x.Config == r.Config }) {
			return nil
		}
		rows = append(rows, r)
	}
	if len(rows) < 2 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(*b.PaperReward, *a.PaperReward) })
	out := &StudyPaper{}
	for i, high := range rows {
		out.Order = append(out.Order, decided.Name(high.Experiment))
		for _, low := range rows[i+1:] {
			p, _ := decided.Pair(high.Experiment, low.Experiment)
			q, _ := rewards.Pair(high.Experiment, low.Experiment)
			pair := StudyPaperPair{High: decided.Name(high.Experiment), Low: decided.Name(low.Experiment), ByReward: paperOutcome(q.Outcome), Difference: p.Difference}
			pair.Outcome = paperOutcome(p.Outcome)
			out.Pairs = append(out.Pairs, pair)
		}
	}
	return out
}

// paperOutcome translates the outcome of a pair that compares the paper's higher configuration with the lower one.
func paperOutcome(outcome string) string {
	switch outcome {
	case OutcomeBetter:
		return PaperConfirmed
	case OutcomeWorse:
		return PaperContradicted
	}
	return PaperOpen
}

// Count returns how many of the pairs have an outcome by the study's measure, and by own reward.
func (p *StudyPaper) Count(outcome string) (measure, reward int) {
	for _, x := range p.Pairs {
		if x.Outcome == outcome {
			measure++
		}
		if x.ByReward == outcome {
			reward++
		}
	}
	return measure, reward
}
