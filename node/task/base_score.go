package task

import "strings"

// baseScore is reasoning-gym's default rule, for tasks without their own. It is 1 for the exact text of the oracle,
// and len(oracle)/len(answer) in code points for an answer that contains the oracle. Otherwise it is 0. An empty
// oracle always scores 0.
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

// baseScoreItem is baseScore for an item. An item without an answer scores 0.
func baseScoreItem(item Item, answer *string) float64 {
	if item.Answer == nil {
		return 0
	}
	return baseScore(*item.Answer, answer)
}
