package stats

import "github.com/sapo-swarm/swarm/metrics/stats/sample"

// StudyDesign is the plan of a study: the experiments that answer its question, and the measure.
type StudyDesign struct {
	Name      string      // name of its preset
	Source    string      // argument of --study: its name or file; empty: a grid has none
	Model     string      // model of its runs
	Question  string      // that the study answers
	Baseline  string      // short name of the arm that gains are measured against; empty: the first arm
	Seeds     int         // planned seeds per arm; 0: not specified
	Arms      []StudyArm  // in the study's order
	Contrasts [][2]string // planned comparisons: arms, the first against the second
	Explored  []int64     // seeds whose results were looked at before: they decide nothing
	Keys      []string    // settings that the study compares, in addition to SAPO's own; they may differ between arms
}

// StudyArm is one experiment of a study.
type StudyArm struct {
	Name       string // short, unique within the study: 4loc4ext
	Experiment string // recorded experiment of its runs: paper-4loc4ext
	Nodes      int    // nodes requested; 0: as many as fit the machine
	Models     int    // number of different models of its nodes; 0: the study's single model
}

// Outcomes of a Study.
const (
	StudyBest      = "best"      // one arm is better than each of the others
	StudyBetter    = "better"    // the highest arm is better than the baseline, but not than every other arm; of models: every model gains
	StudyUndecided = "undecided" // none of these

	StudyWorse = "worse" // of models: every model loses
	StudyMixed = "mixed" // of models: some gain and some lose
)

// Study is the result of a study's finished runs: the document under "study" of `compare --study -o json` and `report
// --study -o json`. Unknown figures are null. An outcome other than undecided rests on p-values corrected for all pairs
// of arms. If an arm's nodes have several models, outcome and verdict are those of Models: whether each model gains
// over a swarm of its own. Best and its figures then use the mean over all nodes, and decide nothing.
type Study struct {
	Name      string `json:"name"`
	Model     string `json:"model"`
	Question  string `json:"question"`
	Measure   string `json:"measure"`   // that decides the outcome
	Outcome   string `json:"outcome"`   // best, better, undecided; of models better, worse, mixed, undecided
	Verdict   string `json:"verdict"`   // the first of Lines
	Best      string `json:"best"`      // arm with the highest mean, significant or not; empty: no arm has a value
	RunnerUp  string `json:"runner_up"` // arm with the second-highest mean
	Baseline  string `json:"baseline"`  // name of the arm
	Seeds     int    `json:"seeds"`     // counted seeds of the arm with the fewest
	MoreSeeds *int   `json:"more_seeds"`
	StudyGain        // Best over Baseline; null if they are the same arm

	OverRunnerUp *StudyGain      `json:"over_runner_up"` // gain of Best over RunnerUp
	Beside       *StudyBeside    `json:"beside"`         // outcome by the other measure
	Paper        *StudyPaper     `json:"paper"`          // comparison with the paper's order; null: the study lacks its configurations
	Models       []StudyModel    `json:"models"`         // results by model of arms with several models
	Arms         []StudyRow      `json:"arms"`
	Pairs        []StudyPair     `json:"pairs"`
	Contrasts    []StudyContrast `json:"contrasts"`  // planned comparisons
	Per          *StudyPer       `json:"per"`        // pass@1 by cost; null: another measure decides
	Failed       []StudyRun      `json:"failed"`     // ended before all nodes finished all rounds
	Unfinished   []StudyRun      `json:"unfinished"` // running, stopped or crashed: may still finish
	Missing      []StudyRun      `json:"missing"`    // not started, although another arm has the seed
	Explored     []StudyExplored `json:"explored"`   // arms with finished runs of seeds that decide nothing
	Chosen       []int64         `json:"chosen"`     // CompareOptions.Seeds
	Lines        []string        `json:"lines"`      // verdict and evidence as text, set by metrics/wording

	Judgment *Judgment    `json:"-"` // comparison on which all of this is based
	Drawn    []string     `json:"-"` // settings that differ between arms and change the questions that they draw: their own rewards are not comparable
	Unequal  []Inequality `json:"-"` // facts that all runs of a study should share, and do not
	Teachers []string     `json:"-"` // arms whose runs have nodes that only generate
}

// Inequality is one fact in which runs differ: its values, ascending, and the arms with each value.
type Inequality struct {
	What   string // rounds, nodes
	Counts []InequalityCount
}

// InequalityCount is one value of the fact and the arms that have it.
type InequalityCount struct {
	Count int
	Arms  []string
}

// StudyGain is a difference between two arms' means over seeds.
type StudyGain struct {
	Gain        *float64 `json:"gain"`
	CILow       *float64 `json:"ci_low"` // 95 % interval of Gain, not corrected
	CIHigh      *float64 `json:"ci_high"`
	Improvement *float64 `json:"improvement"`  // Gain / the other arm's mean, ratio
	PValue      *float64 `json:"p_value"`      // Welch's, two-sided
	PValueHolm  *float64 `json:"p_value_holm"` // the larger p-value, corrected for all pairs of the study; decides the outcome

	PermutationPValue *float64 `json:"permutation_p_value"` // two-sided
	DecidedBy         string   `json:"decided_by"`          // as in Pair
}

// StudyRow is one arm.
type StudyRow struct {
	Name       string   `json:"name"`
	Experiment string   `json:"experiment"`
	Config     string   `json:"config"` // empty: no finished run
	Runs       int      `json:"runs"`   // counted runs
	Seeds      int      `json:"seeds"`  // counted seeds with a value
	Value      *float64 `json:"value"`  // mean of the measure over seeds
	ValueLow   *float64 `json:"value_ci_low"`
	ValueHigh  *float64 `json:"value_ci_high"`
	Beside     *float64 `json:"beside"`            // mean of the other measure
	Cumulative *float64 `json:"cumulative_reward"` // mean over runs
}

// StudyRun is a run that is not counted.
type StudyRun struct {
	Name       string `json:"name"` // name of its arm
	Experiment string `json:"experiment"`
	Seed       int64  `json:"seed"`
	Run        string `json:"run"` // empty: not started
	State      string `json:"state"`
	Message    string `json:"message"`
	Again      bool   `json:"again"` // another run of the same arm and seed is finished and counts
}

// StudyExplored is what an arm's runs of seeds that decide nothing reached. They are in no test and in no mean that
// decides.
type StudyExplored struct {
	Name  string   `json:"name"`
	Seeds []int64  `json:"seeds"`
	Value *float64 `json:"value"` // mean of the measure over these seeds; null for pass@K
}

// StudyPair compares one arm's experiment with another's.
type StudyPair struct {
	Pair
	Paired *sample.PairedDifference `json:"paired"` // for information, decides nothing
}

// StudyBeside is a study's outcome by the measure that does not decide it.
type StudyBeside struct {
	Measure   string `json:"measure"`
	Basis     string `json:"basis"` // as Comparison.Basis: a sum, or a mean if runs differ in nodes or rounds
	Outcome   string `json:"outcome"`
	Best      string `json:"best"`
	RunnerUp  string `json:"runner_up"`
	StudyGain        // Best over the baseline
	Agrees    *bool  `json:"agrees"` // both measures have the same highest arm; null: one of them has none
}
