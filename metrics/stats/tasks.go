package stats

// TaskTable is what a run's nodes made of each task while training.
type TaskTable struct {
	Run   string    `json:"run"`
	Round []int     `json:"round"` // first round of each step
	Tasks []TaskRow `json:"tasks"` // by name
}

// TaskRow is one task.
type TaskRow struct {
	Task        string  `json:"task"`
	Completions int     `json:"completions"`
	Reward      float64 `json:"reward"` // mean over completions of the whole run
	Steps       Values  `json:"steps"`  // the same of each step
}
