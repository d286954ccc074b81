package task

import "strings"

// baseScore is reasoning-gym's default rule, used by tasks that do not bring their own: 1 for the oracle's exact
// text, len(oracle)/len(answer) in code points where the answer contains the oracle, else 0. An empty
// oracle can only score 0.
func baseScore(oracle string, answer *string) float64 {
	switch {
	case answer == nil || *answer == "":
		return 0
	case *answer == oracle:
		return 1
	case strings.Contains(*answer, oracle):
		return float64(pyLen(oracle)) / float64(pyLen(*answer))
	}
	return 0
}

// baseScoreItem is baseScore for an item; an item without an answer scores 0.
func baseScoreItem(item Item, answer *string) float64 {
	if item.Answer == nil {
		return 0
	}
	return baseScore(*item.Answer, answer)
}
