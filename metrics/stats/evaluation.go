package stats

// Evaluations are a run's held-out results: the document of `swarm eval RUN -o json`. Rows are by round.
type Evaluations struct {
	Run        string           `json:"run"`
	Experiment string           `json:"experiment"`
	Config     string           `json:"config"` // I/J
	Seed       int64            `json:"seed"`
	Rows       []EvaluationRow  `json:"rows"`
	Tasks      []TaskEvaluation `json:"tasks"` // of the newest row
}

// EvaluationRow is one held-out evaluation, over the nodes that made it.
type EvaluationRow struct {
	Round       int     `json:"round"` // rounds that the weights hold
	Set         string  `json:"set"`
	Nodes       int     `json:"nodes"`
	Questions   int     `json:"questions"`
	Generations int     `json:"generations"`
	Reward      float64 `json:"reward"`      // mean over nodes, questions and completions
	RewardLow   float64 `json:"reward_low"`  // worst node
	RewardHigh  float64 `json:"reward_high"` // best node
	Pass        []Pass  `json:"pass"`        // k = 1, 2, 4 … up to generations
	FormatRate  float64 `json:"format_rate"`
	MeanLength  float64 `json:"completions_mean_length"`
}

// Pass is pass@k: the chance that at least one of k completions of a question is right.
type Pass struct {
	K     int     `json:"k"`
	Value float64 `json:"value"` // mean over questions and nodes
}

// TaskEvaluation is one task's part of a row.
type TaskEvaluation struct {
	Task      string  `json:"task"`
	Questions int     `json:"questions"`
	Reward    float64 `json:"reward"`
	Pass      []Pass  `json:"pass"`
}
