package stats

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Ways to group runs.
const (
	ByExperiment = "experiment"
	ByConfig     = "config" // I/J, model, tasks and every other setting that affects learning, except seed and name
)

// Measures by which a Comparison decides.
const (
	MeasureAuto   = "auto"   // MeasurePass if every seed of both sides has it, else MeasureReward
	MeasureReward = "reward" // training rewards: per node-round, or the cumulative sum if all runs are equally long
	MeasureEval   = "eval"   // reward of the newest held-out evaluation, with partial credit
	MeasurePass   = "pass"   // pass@1 of the newest held-out evaluation: the share of right completions
)

// Measures with a number k of completions: the probability that at least one of k completions of a question is right.
const (
	passPrefix  = "pass@"       // of one node's completions, the mean over nodes
	swarmPrefix = "swarm-pass@" // of all nodes' completions together
)

// mostPassK is the largest k: 256 completions (eval_generations) of 256 nodes.
const mostPassK = 256 * 256

// Measures lists all measures.
func Measures() []string { return []string{MeasureAuto, MeasureReward, MeasureEval, MeasurePass} }

// ParseMeasure returns the measure of a text: one of Measures(), pass@k or swarm-pass@k. With k = 1 both are
// MeasurePass.
func ParseMeasure(text string) (measure string, ok bool) {
	for _, prefix := range []string{passPrefix, swarmPrefix} {
		digits, found := strings.CutPrefix(text, prefix)
		if !found {
			continue
		}
		k, err := strconv.Atoi(digits)
		switch {
		case err != nil || k < 1 || k > mostPassK:
			return "", false
		case k == 1:
			return MeasurePass, true
		}
		return prefix + strconv.Itoa(k), true
	}
	if !slices.Contains(Measures(), text) {
		return "", false
	}
	return text, true
}

// PassOf returns the k of MeasurePass, pass@k and swarm-pass@k, and 0 for other measures.
func PassOf(measure string) (k int) {
	if measure == MeasurePass {
		return 1
	}
	_, digits, _ := strings.Cut(measure, "@")
	k, _ = strconv.Atoi(digits)
	return k
}

// OfSwarm reports whether a measure pools the completions of all nodes.
func OfSwarm(measure string) bool { return strings.HasPrefix(measure, swarmPrefix) }

// HeldOut reports whether a measure uses held-out evaluations.
func HeldOut(measure string) bool { return measure == MeasureEval || PassOf(measure) > 0 }

// CompareOptions select how runs are compared. The zero value groups by experiment and decides by MeasureAuto.
type CompareOptions struct {
	Baseline string  // experiment or row; empty: the experiment of the preset 8loc0ext, if it is unambiguous
	By       string  // ByExperiment, ByConfig
	Measure  string  // as ParseMeasure returns it; empty: MeasureAuto
	Target   float64 // target reward for time, GPU-hours, money and energy; 0: none
	Window   int     // rounds of the moving average that must reach Target; 0: PaperWindow
	Min      float64 // with HasMin: drop rows whose improvement over the baseline is unknown or below this ratio
	HasMin   bool
	Top      int  // keep the baseline and this many rows, best first; 0: all
	Pairs    bool // compare every pair, not only each row with the baseline
	Tasks    bool // rewards by task

	Seeds []int64 // the seeds to compare; none: all, or of a study all that are not explored

	Bootstrap bool // add bootstrap intervals of interquartile means
	Questions bool // add bootstrap intervals over seeds and held-out questions

	// Study compares the arms of this study: all pairs, and only finished runs. It adds the study's verdict. It
	// overrides Baseline, By, Pairs, Min and Top, and turns MeasureAuto into MeasurePass.
	Study *StudyDesign

	// Per names the axis on which a study's runs are compared by held-out pass@K, at the largest place that all of them
	// reach. Empty: PerRounds. At are the horizons of StudyPer; none: the usual ones. Both apply only with Study and
	// a measure of right completions. Target is then a value of that measure.
	Per string
	At  []float64

	Despite []string // settings that may differ although they could cause the result

	// Differ lists the settings in which two runs differ. nil: compare the runs' own rows. It is called for many pairs.
	Differ func(a, b store.Totals) []RunDifference

	every     bool              // count unfinished runs as well
	studied   []string          // settings under study, in addition to those of EffectSharing
	arms      bool              // the rows are a study's arms
	planned   int               // least number of tests to correct for; tests can still be missing
	at        *horizon          // the place on an axis at which runs are compared; nil: equal rounds
	explored  []store.Totals    // finished runs of a study that decide nothing
	lost      map[string]int    // of a study, by experiment: seeds that the alarm stopped
	resamples *sample.Bootstrap // shared by all rows; nil without Bootstrap

	// Key returns the part of a run's configuration that affects learning, without seed and name. ByConfig groups runs
	// with equal keys. ByExperiment uses keys to report that an experiment mixes configurations. nil: I/J, G, model and
	// the planned nodes.
	Key func(store.Totals) string
}

// asksCost reports whether an axis, horizons or a target of held-out curves are named.
func (o CompareOptions) asksCost() bool { return o.Per != "" || len(o.At) > 0 || o.Target != 0 }

// curves reports whether the arms of a study are compared on held-out curves. Those of pass@K read every question, so
// they are computed only on request.
func (o CompareOptions) curves() bool {
	return o.Measure == MeasurePass || PassOf(o.Measure) > 1 && o.asksCost()
}

// ofStudyArms reports whether the arms of a study are compared. Each arm is one row.
func (o CompareOptions) ofStudyArms() bool { return o.arms }

func (o CompareOptions) window() int {
	if o.Window > 0 {
		return o.Window
	}
	return PaperWindow
}
