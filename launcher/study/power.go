package study

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Power says how many seeds an experiment needs so that the study shows a difference with a chance of 80 %. It assumes
// that values vary between seeds as they did in recorded runs.
type Power struct {
	Measure   string     `json:"measure"`
	Deviation *float64   `json:"deviation"` // standard deviation between seeds, pooled over experiments; null: too few recorded runs
	Freedom   int        `json:"freedom"`   // its degrees of freedom
	From      string     `json:"from"`      // study of the recorded runs
	Level     float64    `json:"level"`     // of each test: 0.05 shared by the planned comparisons, or without these by all pairs
	Pairs     int        `json:"pairs"`
	Least     int        `json:"least_seeds"` // per experiment: fewer cannot decide a planned comparison, or without these one of all pairs
	Rows      []PowerRow `json:"differences"`

	tests   int  // that share the level
	planned bool // they are the study's planned comparisons
}

// PowerRow is the number of seeds for one difference.
type PowerRow struct {
	Difference float64 `json:"difference"`
	Seeds      *int    `json:"seeds"` // per experiment; null: more than 1000
}

// Differences that a plan shows: absolute ones of pass@1, and shares of the mean of a reward.
var (
	passDifferences  = []float64{0.01, 0.02, 0.05}
	rewardDifference = []float64{0.02, 0.05, 0.1}
)

// newPower reads the variance between seeds from the study's own finished runs, else from those of another study of the
// program with the same model. reader may be nil.
func (s *Study) newPower(ctx context.Context, reader *store.Reader) (Power, error) {
	arms := len(s.Experiments)
	out := Power{Measure: s.Measure, Pairs: arms * (arms - 1) / 2, Level: 1 - sample.Confidence, Rows: []PowerRow{}}
	out.tests, out.planned = cmp.Or(len(s.Contrasts), out.Pairs), len(s.Contrasts) > 0
	if out.Pairs > 0 {
		out.Level /= float64(out.tests)
		out.Least = sample.SeedsToDecide(out.tests, 0, 0)
	}
	if reader == nil {
		return out, nil
	}
	studies := []configs.Study{s.Study}
	for _, name := range configs.Studies() {
		if other, err := configs.LoadStudy(name); err == nil && name != s.Name && other.Measure == s.Measure && !other.FixesModels() {
			studies = append(studies, other)
		}
	}
	for _, other := range studies {
		groups, err := seedValues(ctx, reader, other, s.named)
		if err != nil {
			return out, err
		}
		deviation, freedom := sample.PooledDeviation(groups...)
		if !(deviation > 0) {
			continue
		}
		out.Deviation, out.Freedom, out.From = &deviation, freedom, other.Name
		for _, d := range out.differences(groups) {
			row := PowerRow{Difference: d}
			if n, ok := sample.SampleSize(d, deviation, out.Level); ok {
				n = max(n, out.Least)
				row.Seeds = &n
			}
			out.Rows = append(out.Rows, row)
		}
		break
	}
	return out, nil
}

// seedValues returns each experiment's values of the study's measure, one per seed.
func seedValues(ctx context.Context, reader *store.Reader, s configs.Study, model string) ([][]float64, error) {
	o := query.CompareOptions{Alive: func(x store.Snapshot) bool { return lifecycle.Alive(x, event.Now()) }}
	o.Measure, o.Study = s.Measure, Design(s, model)
	comparison, err := query.Compare(ctx, reader, o)
	if err != nil || comparison.Study == nil || comparison.Study.Judgment == nil {
		return nil, err
	}
	var groups [][]float64
	judgment := comparison.Study.Judgment
	for _, experiment := range slices.Sorted(maps.Keys(judgment.Values)) {
		groups = append(groups, judgment.SeedValues(experiment))
	}
	return groups, nil
}

func (p Power) differences(groups [][]float64) []float64 {
	if p.Measure == configs.MeasurePass {
		return passDifferences
	}
	mean := sample.Mean(slices.Concat(groups...))
	var out []float64
	for _, share := range rewardDifference {
		out = append(out, share*mean)
	}
	return out
}

// tooFew returns a warning if the planned seeds cannot decide.
func (p Power) tooFew(seeds int) string {
	if seeds >= p.Least {
		return ""
	}
	return fmt.Sprintf("          %s cannot decide, however large the difference: plan at least %d (--seeds %d)\n", units.Plural(seeds, "seed"), p.Least, p.Least)
}

// comparison returns the noun for the tests that share the level.
func (p Power) comparison() string {
	if p.planned {
		return "planned comparison"
	}
	return "comparison"
}

// line formats p on one line.
func (p Power) line() string {
	if p.Deviation == nil {
		return "seeds     not known how many show a difference: no experiment of this model has two finished seeds here"
	}
	var parts []string
	for _, r := range p.Rows {
		seeds := fmt.Sprintf("more than %d seeds", sample.MaxSeeds)
		if r.Seeds != nil {
			seeds = units.Plural(*r.Seeds, "seed")
		}
		parts = append(parts, fmt.Sprintf("%.3g takes %s", r.Difference, seeds))
	}
	return fmt.Sprintf("seeds     to show a difference with a chance of 80 %%: %s an experiment (standard deviation between seeds %.3g, %d degrees of freedom, "+
		"from study %s; level 0.05 for %s)", strings.Join(parts, ", "), *p.Deviation, p.Freedom, p.From, units.Plural(p.tests, p.comparison()))
}
