package study

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Power says how many seeds an experiment needs so that the test that decides shows a difference with a chance of 80 %.
// It assumes that values vary between seeds as they did in recorded runs.
type Power struct {
	Measure     string            `json:"measure"`
	Level       float64           `json:"level"` // of each test: 0.05 shared by the planned comparisons, or without these by all pairs
	Pairs       int               `json:"pairs"`
	Least       int               `json:"least_seeds"` // per experiment: fewer cannot decide a planned comparison, or without these one of all pairs
	Deviation   *float64          `json:"deviation"`   // the largest of Experiments; null: all are unknown
	Freedom     int               `json:"freedom"`     // its degrees of freedom
	From        string            `json:"from"`        // its basis
	Experiments []PowerArm        `json:"experiments"`
	Comparisons []PowerComparison `json:"comparisons"` // the planned ones, or without these each experiment with the baseline
	Rows        []PowerRow        `json:"differences"` // the worst over Comparisons

	tests   int  // that share the level
	planned bool // they are the study's planned comparisons
}

// PowerArm is the variation of an experiment between seeds.
type PowerArm struct {
	Name      string   `json:"experiment"`
	Deviation *float64 `json:"deviation"` // standard deviation between seeds; null: too few recorded runs
	Freedom   int      `json:"freedom"`   // its degrees of freedom
	Basis     string   `json:"basis"`     // runs that it comes from: own, alike, pooled; empty: none
}

// Bases of a PowerArm, best first.
const (
	basisOwn    = "own"    // of this experiment
	basisAlike  = "alike"  // of experiments with the same keys of alikeKeys and number of nodes, of any study
	basisPooled = "pooled" // of all experiments of studies with the same model and measure
)

// leastFreedom is the least number of degrees of freedom of a deviation, for example five seeds of one experiment.
const leastFreedom = 4

// PowerComparison is the power of one comparison.
type PowerComparison struct {
	A    string     `json:"a"`
	B    string     `json:"b"`
	Rows []PowerRow `json:"differences"`
}

// PowerRow is the power for one difference.
type PowerRow struct {
	Difference float64  `json:"difference"`
	Seeds      *int     `json:"seeds"` // per experiment; null: unknown, or more than 1000
	Power      *float64 `json:"power"` // chance of a verdict with the planned seeds; null: unknown
}

// Differences that a plan shows by default: absolute ones of pass@1, and shares of the mean of a reward.
var (
	passDifferences  = []float64{0.01, 0.02, 0.05}
	rewardDifference = []float64{0.02, 0.05, 0.1}
)

// recordedArm holds the values of an experiment, one per seed.
type recordedArm struct {
	experiment string
	kind       string // equal for experiments that are alike
	values     []float64
}

// newPower computes the power of the study's comparisons with a number of seeds. It reads the variation between seeds
// from recorded runs. reader may be nil.
func (s *Study) newPower(ctx context.Context, reader *store.Reader, seeds int, differences []float64) (Power, error) {
	arms := len(s.Experiments)
	out := Power{Measure: s.Measure, Pairs: arms * (arms - 1) / 2, Level: 1 - sample.Confidence, Rows: []PowerRow{},
		Experiments: []PowerArm{}, Comparisons: []PowerComparison{}}
	out.tests, out.planned = cmp.Or(len(s.Contrasts), out.Pairs), len(s.Contrasts) > 0
	if out.Pairs == 0 {
		return out, nil
	}
	out.Level /= float64(out.tests)
	out.Least = sample.SeedsToDecide(out.tests, 0, 0)
	recorded, err := s.recorded(ctx, reader)
	if err != nil {
		return out, err
	}
	kinds, err := kindsOf(s.Study, s.named, s.model)
	if err != nil {
		return out, err
	}
	for i, e := range s.Experiments {
		arm := newPowerArm(e.Name, s.ExperimentName(s.named, e.Name), kinds[i], recorded)
		if arm.Deviation != nil && (out.Deviation == nil || *arm.Deviation > *out.Deviation) {
			out.Deviation, out.Freedom, out.From = arm.Deviation, arm.Freedom, arm.Basis
		}
		out.Experiments = append(out.Experiments, arm)
	}
	if differences == nil {
		differences = out.usual(recorded)
	}
	for _, names := range s.comparisons() {
		out.Comparisons = append(out.Comparisons, out.compare(names, seeds, differences))
	}
	for i := range differences {
		out.Rows = append(out.Rows, worst(out.Comparisons, i))
	}
	return out, nil
}

// comparisons returns the planned comparisons, or without these each experiment with the baseline.
func (s *Study) comparisons() [][2]string {
	if len(s.Contrasts) > 0 {
		return s.Contrasts
	}
	var out [][2]string
	for _, e := range s.Experiments {
		if e.Name != s.Baseline {
			out = append(out, [2]string{e.Name, s.Baseline})
		}
	}
	return out
}

// recorded returns the experiments with recorded values, of this study and of the program's others with the same model
// and measure. An experiment that several studies share occurs once.
func (s *Study) recorded(ctx context.Context, reader *store.Reader) (out []recordedArm, err error) {
	if reader == nil {
		return nil, nil
	}
	studies := []configs.Study{s.Study}
	for _, name := range configs.Studies() {
		other, err := configs.LoadStudy(name)
		if err == nil && name != s.Name && other.Measure == s.Measure && !other.FixesModels() && !s.FixesModels() {
			studies = append(studies, other)
		}
	}
	for _, other := range studies {
		kinds, err := kindsOf(other, s.named, s.model)
		if err != nil {
			return nil, err
		}
		values, err := seedValues(ctx, reader, other, s.named)
		if err != nil {
			return nil, err
		}
		for i, e := range other.Experiments {
			name := other.ExperimentName(s.named, e.Name)
			if len(values[name]) > 1 && !slices.ContainsFunc(out, func(a recordedArm) bool { return a.experiment == name }) {
				out = append(out, recordedArm{name, kinds[i], values[name]})
			}
		}
	}
	return out, nil
}

// alikeKeys are the keys that decide how much values vary between seeds, as far as is known.
var alikeKeys = []string{"num_train_samples", "num_transplant_trees", "num_generations", "num_iterations", "learning_rate", "nodes.tasks",
	"external_correction", "external_filter", "nodes.generate_only", "models", "rounds"}

// kindsOf returns a text for each experiment of a study. Texts are equal for experiments that are alike.
func kindsOf(s configs.Study, named string, m configs.Model) ([]string, error) {
	settings, err := s.Settings(named, m)
	if err != nil {
		return nil, err
	}
	defaults := configs.Values(configs.Default())
	maps.Copy(defaults, m.Defaults)
	var kinds []string
	for i, values := range settings {
		kind := fmt.Sprint(s.NodesOf(s.Experiments[i]), " ")
		for _, key := range alikeKeys {
			value, ok := values[key]
			if !ok {
				value = defaults[key]
			}
			if strings.HasPrefix(key, "external_") && fmt.Sprint(values["num_transplant_trees"]) == "0" {
				value = "" // there is nothing to correct or to refuse
			}
			kind += fmt.Sprint(value, " ")
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// newPowerArm returns the variation of an experiment by the best basis that has enough recorded runs.
func newPowerArm(name, experiment, kind string, recorded []recordedArm) PowerArm {
	out := PowerArm{Name: name}
	for _, basis := range []string{basisOwn, basisAlike, basisPooled} {
		var groups [][]float64
		for _, a := range recorded {
			if a.experiment == experiment || basis == basisAlike && a.kind == kind || basis == basisPooled {
				groups = append(groups, a.values)
			}
		}
		if deviation, freedom := sample.PooledDeviation(groups...); deviation > 0 && freedom >= leastFreedom {
			out.Deviation, out.Freedom, out.Basis = &deviation, freedom, basis
			break
		}
	}
	return out
}

// seedValues returns the values of the study's measure by experiment, one per seed.
func seedValues(ctx context.Context, reader *store.Reader, s configs.Study, model string) (map[string][]float64, error) {
	o := query.CompareOptions{Alive: func(x store.Snapshot) bool { return lifecycle.Alive(x, event.Now()) }}
	o.Measure, o.Study = s.Measure, Design(s, model)
	o.Study.Explored = nil // they vary like others
	comparison, err := query.Compare(ctx, reader, o)
	if err != nil || comparison.Study == nil || comparison.Study.Judgment == nil {
		return nil, err
	}
	values, judgment := map[string][]float64{}, comparison.Study.Judgment
	for experiment := range judgment.Values {
		values[experiment] = judgment.SeedValues(experiment)
	}
	return values, nil
}

// usual returns the default differences.
func (p Power) usual(recorded []recordedArm) []float64 {
	if p.Measure == configs.MeasurePass {
		return passDifferences
	}
	var all []float64
	for _, a := range recorded {
		all = append(all, a.values...)
	}
	var out []float64
	for _, share := range rewardDifference {
		if mean := sample.Mean(all); mean > 0 {
			out = append(out, share*mean)
		}
	}
	return out
}

// compare computes the power of one comparison.
func (p Power) compare(names [2]string, seeds int, differences []float64) PowerComparison {
	deviation := func(name string) float64 {
		i := slices.IndexFunc(p.Experiments, func(a PowerArm) bool { return a.Name == name })
		if p.Experiments[i].Deviation == nil {
			return math.NaN()
		}
		return *p.Experiments[i].Deviation
	}
	out := PowerComparison{A: names[0], B: names[1], Rows: []PowerRow{}}
	for _, d := range differences {
		test := sample.PlannedTest{Difference: d, A: deviation(names[0]), B: deviation(names[1]), Tests: p.tests}
		row := PowerRow{Difference: d}
		if n, ok := test.Seeds(); ok {
			row.Seeds = &n
		}
		if power := test.Power(seeds); !math.IsNaN(power) {
			row.Power = &power
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// worst returns the most seeds and the lowest power over comparisons, for difference i. Unknown is worst.
func worst(comparisons []PowerComparison, i int) PowerRow {
	out := comparisons[0].Rows[i]
	for _, c := range comparisons[1:] {
		row := c.Rows[i]
		if out.Seeds != nil && (row.Seeds == nil || *row.Seeds > *out.Seeds) {
			out.Seeds = row.Seeds
		}
		if out.Power != nil && (row.Power == nil || *row.Power < *out.Power) {
			out.Power = row.Power
		}
	}
	return out
}
