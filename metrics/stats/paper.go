package stats

// paperReward returns the total reward that the paper reports for 8 nodes and 2000 rounds (arXiv:2509.08721, section 5),
// by I and J; one run each. ok tells whether it has that configuration.
func paperReward(own, external int) (reward float64, ok bool) {
	switch [2]int{own, external} {
	case [2]int{8, 0}:
		return 561.79, true
	case [2]int{6, 2}:
		return 854.43, true
	case [2]int{4, 4}:
		return 1093.31, true
	case [2]int{2, 6}:
		return 945.87, true
	}
	return 0, false
}
