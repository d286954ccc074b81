package stats

import "github.com/sapo-swarm/swarm/metrics/store"

// Ways to group runs.
const (
	ByExperiment = "experiment"
	ByConfig     = "config" // I/J, model, tasks and everything else that decides what is learnt, but the seed and the name
)

// Measures that a Comparison decides by.
const (
	MeasureAuto   = "auto"   // MeasurePass where every seed of both sides has it, else MeasureReward
	MeasureReward = "reward" // rewards while training: a node-round's, or the cumulative sum where all runs are equally long
	MeasureEval   = "eval"   // the newest held-out evaluation's reward, partial credit counted
	MeasurePass   = "pass"   // the newest held-out evaluation's pass@1: the share of right completions
)

// Measures names all of them.
func Measures() []string { return []string{MeasureAuto, MeasureReward, MeasureEval, MeasurePass} }

// HeldOut tells whether a measure is of held-out evaluations.
func HeldOut(measure string) bool { return measure == MeasureEval || measure == MeasurePass }

// CompareOptions choose how runs are compared. The zero value groups by experiment and decides by MeasureAuto.
type CompareOptions struct {
	Baseline string  // experiment (or row); empty: the one with the preset 8loc0ext, if it is known which that is
	By       string  // ByExperiment, ByConfig
	Measure  string  // one of Measures(); empty: MeasureAuto
	Target   float64 // reward that time, GPU-hours, money and energy to reward are for; 0: none
	Window   int     // rounds of the moving average that has to reach Target; 0: PaperWindow
	Min      float64 // with HasMin: least improvement over the baseline of a row; rows below, or without any, are left out
	HasMin   bool
	Top      int  // so many best rows, best first, beside the baseline; 0: all
	Pairs    bool // a verdict on every pair, not only on each row against the baseline
	Tasks    bool // rewards by task

	// Study makes the comparison one of that study's arms, of all pairs and of runs that are done alone, and adds its
	// verdict. Baseline, By, Pairs, Min and Top are then ignored, and MeasureAuto is MeasurePass.
	Study *StudyDesign

	Despite []string // settings that may differ although they could make the result

	// Differ lists the settings in which two runs differ; nil: what their own rows tell. It is asked of many pairs.
	Differ func(a, b store.Totals) []RunDifference

	every   bool     // runs that aren't done count beside those that are
	studied []string // settings that are what is studied, beside those of EffectSharing
	least   int      // seeds a side that a verdict needs; below 2: 2
	planned int      // tests that verdicts are corrected for, should there be fewer yet

	// Key returns what of a run's configuration decides what is learnt, without seed and name: equal for runs of one
	// group in ByConfig. In ByExperiment it serves to say that an experiment mixes configurations. nil: I/J, G, model
	// and the nodes planned.
	Key func(store.Totals) string
}

// ofStudyArms tells whether the arms of a study are compared, each of which is one row.
func (o CompareOptions) ofStudyArms() bool { return o.least > 0 }

func (o CompareOptions) window() int {
	if o.Window > 0 {
		return o.Window
	}
	return PaperWindow
}
