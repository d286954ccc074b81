package stats

// StudyDesign is a study as it was planned: which experiments answer its question, and by what.
type StudyDesign struct {
	Name     string     // of its preset
	Model    string     // of its runs
	Question string     // that it asks
	Baseline string     // short name of the arm that gains are over; of none: the first
	Seeds    int        // an arm that it plans for; 0: nobody said
	Arms     []StudyArm // in the study's order
	Keys     []string   // settings that the study compares, beside SAPO's own: its arms may differ in them
}

// StudyArm is one experiment of a study.
type StudyArm struct {
	Name       string // short, unique within the study: 4loc4ext
	Experiment string // that its runs are recorded under: paper-4loc4ext
	Nodes      int    // that it asks for; 0: as the machine has room
	Models     int    // different ones that its nodes have; 0: the study's one
}

// Outcomes of a Study.
const (
	StudyBest      = "best"      // one arm is better than each of the others
	StudyBetter    = "better"    // the highest is better than the baseline, but not than every other arm; of models: every one gains
	StudyUndecided = "undecided" // neither

	StudyWorse = "worse" // of models: every one loses
	StudyMixed = "mixed" // of models: each gains or loses
)

// Study is what a study's finished runs say: the document under "study" of `compare --study -o json` and `report
// --study -o json`. What isn't known is null. An outcome other than undecided rests on three seeds a side at least, and
// on p-values corrected for all pairs of arms. Where an arm's nodes have several models, outcome and verdict are of
// Models: whether each gains over its own swarm. Best and what follows from it are then by the mean over all nodes, and
// decide nothing.
type Study struct {
	Name      string `json:"name"`
	Model     string `json:"model"`
	Question  string `json:"question"`
	Measure   string `json:"measure"`   // that decides
	Outcome   string `json:"outcome"`   // best, better, undecided; of models better, worse, mixed, undecided
	Verdict   string `json:"verdict"`   // the first of Lines
	Best      string `json:"best"`      // the arm with the highest mean, whether told apart or not; empty: none has any
	RunnerUp  string `json:"runner_up"` // the next
	Baseline  string `json:"baseline"`  // arm
	Seeds     int    `json:"seeds"`     // that count, of the arm with the fewest
	MoreSeeds *int   `json:"more_seeds"`
	StudyGain        // of Best over Baseline; null where they are one

	OverRunnerUp *StudyGain   `json:"over_runner_up"` // of Best
	Beside       *StudyBeside `json:"beside"`         // what the other measure says
	Paper        *StudyPaper  `json:"paper"`          // how the paper's order fares; null: the study hasn't its configurations
	Models       []StudyModel `json:"models"`         // arms whose nodes have several models, by model
	Arms         []StudyRow   `json:"arms"`
	Pairs        []StudyPair  `json:"pairs"`
	Failed       []StudyRun   `json:"failed"`     // ended without all of their nodes and rounds
	Unfinished   []StudyRun   `json:"unfinished"` // go on, were stopped or crashed: may still end well
	Missing      []StudyRun   `json:"missing"`    // not begun, though another arm has the seed
	Lines        []string     `json:"lines"`      // the verdict and what it rests on, as people read it: metrics/wording sets it

	Judgment *Judgment    `json:"-"` // what all of this rests on
	Unequal  []Inequality `json:"-"` // what the runs differ in that all of a study's should share
}

// Inequality is one thing that runs differ in: how many of it there are, ascending, and of which arms' runs.
type Inequality struct {
	What   string // rounds, nodes
	Counts []InequalityCount
}

// InequalityCount is one of the numbers that runs have of something.
type InequalityCount struct {
	Count int
	Arms  []string
}

// StudyGain is a difference of two arms' means over seeds.
type StudyGain struct {
	Gain        *float64 `json:"gain"`
	CILow       *float64 `json:"ci_low"` // 95 % interval of Gain, not corrected
	CIHigh      *float64 `json:"ci_high"`
	Improvement *float64 `json:"improvement"`  // Gain over the other's mean, ratio
	PValue      *float64 `json:"p_value"`      // Welch's, two-sided
	PValueHolm  *float64 `json:"p_value_holm"` // corrected for all pairs of the study: what the outcome rests on
}

// StudyRow is one arm.
type StudyRow struct {
	Name       string   `json:"name"`
	Experiment string   `json:"experiment"`
	Config     string   `json:"config"` // empty: it has no finished run
	Runs       int      `json:"runs"`   // that count
	Seeds      int      `json:"seeds"`  // of these, with a value
	Value      *float64 `json:"value"`  // of the measure, mean over seeds
	ValueLow   *float64 `json:"value_ci_low"`
	ValueHigh  *float64 `json:"value_ci_high"`
	Beside     *float64 `json:"beside"`            // of the other measure
	Cumulative *float64 `json:"cumulative_reward"` // mean over runs
}

// StudyRun is a run that doesn't count.
type StudyRun struct {
	Name       string `json:"name"` // its arm's
	Experiment string `json:"experiment"`
	Seed       int64  `json:"seed"`
	Run        string `json:"run"` // empty: there is none
	State      string `json:"state"`
	Message    string `json:"message"`
	Again      bool   `json:"again"` // another run of its arm and seed is done and counts
}

// StudyPair is one arm's experiment against another's.
type StudyPair struct {
	Pair
	Paired *PairedDifference `json:"paired"` // beside it, decides nothing
}

// StudyBeside is a study's outcome by the measure that doesn't decide it.
type StudyBeside struct {
	Measure   string `json:"measure"`
	Basis     string `json:"basis"` // as a Comparison's: a sum, or a mean where runs differ in nodes or rounds
	Outcome   string `json:"outcome"`
	Best      string `json:"best"`
	RunnerUp  string `json:"runner_up"`
	StudyGain        // of its Best over the baseline
	Agrees    *bool  `json:"agrees"` // both have the same arm highest; null: one of them has none
}
