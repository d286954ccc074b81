package stats

import "github.com/sapo-swarm/swarm/metrics/store"

// paperReward returns the total reward that the paper reports for I = own and J = external, with 8 nodes and 2000
// rounds (arXiv:2509.08721, section 5). The paper made one run of each. ok reports whether the paper has that
// configuration.
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

// Guide holds guide 4's estimates for GPT-2 with 8 nodes and 2000 rounds. They are the author's estimates, not
// measurements. Ranges are low to high.
type Guide struct {
	Reward      [2]float64  `json:"reward"`
	Improvement *[2]float64 `json:"improvement"` // over the guide's 8/0, ratio; null: it is 8/0
}

// guideEstimate returns the guide's figures by I and J ("Expected Results: GPT-2 vs Paper"), or nil for any other
// configuration.
func guideEstimate(own, external int) *Guide {
	switch [2]int{own, external} {
	case [2]int{8, 0}:
		return &Guide{Reward: [2]float64{200, 300}}
	case [2]int{6, 2}:
		return &Guide{Reward: [2]float64{350, 500}, Improvement: &[2]float64{0.6, 0.8}}
	case [2]int{4, 4}:
		return &Guide{Reward: [2]float64{500, 700}, Improvement: &[2]float64{1.1, 1.5}}
	case [2]int{2, 6}:
		return &Guide{Reward: [2]float64{450, 650}, Improvement: &[2]float64{1, 1.3}}
	}
	return nil
}

// addPaper adds the paper's and the guide's figures for the row's I and J. It adds none for a run that differs from the
// paper in other settings.
func (row *Row) addPaper(run store.Run) {
	if !settingOf(run).plain() {
		return
	}
	own, external := run.NumTrainSamples, run.NumTransplantTrees
	row.Guide = guideEstimate(own, external)
	reward, ok := paperReward(own, external)
	if !ok {
		return
	}
	row.PaperReward = &reward
	if baseline, _ := paperReward(8, 0); external > 0 {
		row.PaperImprovement = Optional(Improvement(reward, baseline))
	}
}
