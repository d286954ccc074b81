package stats

import (
	"cmp"
	"slices"
)

// StudyPaper says how the paper's order of I/J fares in a study.
type StudyPaper struct {
	Order []string         `json:"order"` // arms with the paper's configurations, its best first
	Pairs []StudyPaperPair `json:"pairs"`
}

// StudyPaperPair is one order of the paper: High above Low.
type StudyPaperPair struct {
	High       string   `json:"high"`
	Low        string   `json:"low"`
	Outcome    string   `json:"outcome"`        // by the study's measure: confirmed, contradicted, open
	ByReward   string   `json:"outcome_reward"` // by own reward, which is what the paper's order is of
	Difference *float64 `json:"difference"`     // seen, of the study's measure
}

// Outcomes of a StudyPaperPair.
const (
	PaperConfirmed    = "confirmed"
	PaperContradicted = "contradicted"
	PaperOpen         = "open"
)

// newStudyPaper looks for the paper's configurations among the rows, each of which may be there once, and for its order
// in what the pairs say by the study's measure and by own reward. It is nil where there are no two of them, or one is
// there twice.
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
			out.Pairs = append(out.Pairs, StudyPaperPair{
				High: decided.Name(high.Experiment), Low: decided.Name(low.Experiment), Outcome: paperOutcome(p), ByReward: paperOutcome(q),
				Difference: p.Difference,
			})
		}
	}
	return out
}

// paperOutcome is how an order fares by the pair of its higher against its lower.
func paperOutcome(p Pair) string {
	switch p.Outcome {
	case OutcomeBetter:
		return PaperConfirmed
	case OutcomeWorse:
		return PaperContradicted
	}
	return PaperOpen
}

// Count returns how many of the orders fare so by the study's measure, and by own reward.
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
