package event

// Eval is a held-out evaluation of a node's weights, keyed by (run, node, round): sending it again changes nothing. All
// nodes, seeds and experiments of a task set answer the same questions, and no node trains on them.
type Eval struct {
	Round       int     `json:"round"`       // rounds that the weights were trained for; 0: the initial weights
	Set         string  `json:"set"`         // identifies the questions and the sampling; only evaluations of equal sets are comparable
	Generations int     `json:"generations"` // completions per question: n of pass@k
	Temperature float64 `json:"temperature"`
	FormatRate  float64 `json:"format_rate"` // share of completions with an <answer> pair
	MeanLength  float64 `json:"completions_mean_length"`
	Seconds     float64 `json:"seconds"` // inside the engine's generate calls

	Questions []EvalQuestion `json:"questions"` // in the set's order
}

// OwnDraws is the end of an Eval's Set if each node sampled with random numbers of its own. Otherwise all nodes used
// the same ones: nodes with equal weights gave equal completions, so the set says nothing of several nodes together.
const OwnDraws = "-node"

// EvalQuestion is a node's result on one held-out question.
type EvalQuestion struct {
	Task      string  `json:"task"`
	Correct   int     `json:"correct"`    // completions with reward 1
	RewardSum float64 `json:"reward_sum"` // over its completions
}
