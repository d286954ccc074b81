package stats

// Ways to group runs.
const (
	ByExperiment = "experiment"
	ByConfig     = "config" // I/J, model, tasks and everything else that decides what is learnt, but the seed and the name
)

// Measures that a Comparison decides by.
const (
	MeasureReward = "reward" // rewards while training: a node-round's, or the cumulative sum where all runs are equally long
	MeasureEval   = "eval"   // the newest held-out evaluation
)

// CompareOptions choose how runs are compared. The zero value groups by experiment and decides by reward.
type CompareOptions struct {
	Baseline string  // experiment (or group); empty: the first without externals, else the first
	By       string  // ByExperiment, ByConfig
	Measure  string  // MeasureReward, MeasureEval
	Target   float64 // reward that time, GPU-hours, money and energy to reward are for; 0: none
	Window   int     // rounds of the moving average that has to reach Target; 0: PaperWindow
	Min      float64 // least improvement over the baseline of a row; rows below are left out. NaN or 0 with Top 0: all
	HasMin   bool
	Top      int // so many best rows beside the baseline; 0: all
}
