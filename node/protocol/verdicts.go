package protocol

// Verdicts holds the coordinator's decisions about the learning rate (on_alarm: lower-rate). Rounds count from 0.
type Verdicts struct {
	Judged  int   `json:"judged"`            // number of judged rounds: all rounds before this one
	Lowered []int `json:"lowered,omitempty"` // rounds from which on the rate is lower by one more step; ascending
}

// LoweredBefore returns how often the rate is lowered up to and including a round.
func (v Verdicts) LoweredBefore(round int) (times int) {
	for _, from := range v.Lowered {
		if from <= round {
			times++
		}
	}
	return times
}
