package event

// Eval is a held-out evaluation of a node's weights, keyed by (run, node, round): sending it again changes nothing. Its
// questions are the same for every node, seed and experiment of a task set, and no node trains on them.
type Eval struct {
	Round       int     `json:"round"`       // rounds that the weights hold; 0: as they were first
	Set         string  `json:"set"`         // names the questions and how they were sampled: only equal sets compare
	Generations int     `json:"generations"` // completions a question: n of pass@k
	Temperature float64 `json:"temperature"`
	FormatRate  float64 `json:"format_rate"` // share of completions with an <answer> pair
	MeanLength  float64 `json:"completions_mean_length"`
	Seconds     float64 `json:"seconds"` // inside the engine's generate calls

	Questions []EvalQuestion `json:"questions"` // in the set's order
}

// EvalQuestion is what a node made of one held-out question.
type EvalQuestion struct {
	Task      string  `json:"task"`
	Correct   int     `json:"correct"`    // completions with reward 1
	RewardSum float64 `json:"reward_sum"` // over its completions
}
