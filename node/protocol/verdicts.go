package protocol

// Verdicts are what the coordinator has decided about the learning rate (on_alarm: lower-rate). Rounds count from 0.
type Verdicts struct {
	Judged  int   `json:"judged"`            // rounds that were judged: all before this one
	Lowered []int `json:"lowered,omitempty"` // rounds from which on the rate is lower, once more for each; ascending
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
