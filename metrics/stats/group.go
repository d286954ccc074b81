package stats

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// group is a set of runs that are compared as one row.
type group struct {
	name        string // unique among the groups
	experiment  string // recorded experiment; for a group by configuration, its name
	part        string // settings that distinguish this part from the experiment's other parts; empty: the experiment is whole
	experiments []string
	runs        []store.Totals // counted runs: only the finished ones, if there are any
	skipped     []store.Totals
	kinds       []store.Totals // one run for each different combination of settings
}

// groupRuns groups runs in their order. It splits experiments whose runs used different settings, except in a study.
func groupRuns(runs []store.Totals, o CompareOptions) []group {
	var groups []group
	at := map[string]int{}
	for _, r := range runs {
		key := r.Experiment
		if o.By == ByConfig {
			key = o.key(r)
		}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, group{name: freeName(groups, r.Experiment)})
		}
		if !slices.Contains(groups[i].experiments, r.Experiment) {
			groups[i].experiments = append(groups[i].experiments, r.Experiment)
		}
		groups[i].runs = append(groups[i].runs, r)
	}
	var whole []group
	for _, g := range groups {
		g.experiment = g.name
		g.countDone(o.every)
		if o.By == ByConfig || o.ofStudyArms() {
			whole = append(whole, g)
			continue
		}
		whole = append(whole, g.split(o)...)
	}
	for i := range whole {
		whole[i].findKinds(o)
	}
	return whole
}

// freeName returns the experiment's name, with a number appended if a group of another configuration has that name.
func freeName(groups []group, experiment string) string {
	name := experiment
	for n := 2; slices.ContainsFunc(groups, func(g group) bool { return g.name == name }); n++ {
		name = fmt.Sprintf("%s#%d", experiment, n)
	}
	return name
}

func (o CompareOptions) key(r store.Totals) string {
	if o.Key != nil {
		return o.Key(r)
	}
	return fmt.Sprintf("%d/%d G %d, %s, %s", r.NumTrainSamples, r.NumTransplantTrees, r.NumGenerations, units.Plural(r.Nodes, "node"), r.Model)
}

func (g *group) countDone(every bool) {
	if every {
		return
	}
	var done, others []store.Totals
	for _, r := range g.runs {
		if r.State == store.RunDone {
			done = append(done, r)
		} else {
			others = append(others, r)
		}
	}
	if len(done) > 0 {
		g.runs, g.skipped = done, others
	}
}

// perSeed returns the value of each seed, ascending: the mean over its runs that have a value.
func (g group) perSeed(value func(store.Totals) (float64, bool)) []float64 {
	return slices.Sorted(maps.Values(g.bySeed(value)))
}

// bySeed returns the same values by seed. A run that the alarm stopped has none: those that it left are no sample of
// the experiment.
func (g group) bySeed(value func(store.Totals) (float64, bool)) map[int64]float64 {
	values := map[int64][]float64{}
	for _, r := range g.runs {
		if v, ok := value(r); ok && units.Finite(v) && !r.StoppedByAlarm() {
			values[r.Seed] = append(values[r.Seed], v)
		}
	}
	means := make(map[int64]float64, len(values))
	for seed, list := range values {
		slices.Sort(list) // sorted, because the last digit of a sum depends on the order
		means[seed] = sample.Mean(list)
	}
	return means
}

// lost returns the number of seeds that the alarm stopped, and that no other run finished.
func (g group) lost(o CompareOptions) int {
	if o.ofStudyArms() {
		return o.lost[g.experiment] // whose groups have only finished runs
	}
	stopped, done := map[int64]bool{}, map[int64]bool{}
	for _, r := range slices.Concat(g.runs, g.skipped) {
		stopped[r.Seed] = stopped[r.Seed] || r.StoppedByAlarm()
		done[r.Seed] = done[r.Seed] || r.State == store.RunDone
	}
	n := 0
	for seed, is := range stopped {
		if is && !done[seed] {
			n++
		}
	}
	return n
}

// RewardPerNodeRound returns the cumulative reward of a run's nodes that train, divided by their rounds; ok is false
// before the first round.
func RewardPerNodeRound(r store.Totals) (reward float64, ok bool) {
	sum := r.Trained()
	if sum.NodeRounds < 1 {
		return 0, false
	}
	return sum.Reward / float64(sum.NodeRounds), units.Finite(sum.Reward)
}

// evalMean returns the mean reward per completion in an evaluation; ok is false if it has no completions.
func evalMean(e store.EvalTotal) (reward float64, ok bool) {
	if completions := e.Questions * e.Generations; completions > 0 {
		return meanReward(e.RewardSum, completions), true
	}
	return 0, false
}

// Counted returns the runs that Compare counts, in their order.
func Counted(runs []store.Totals, o CompareOptions) []store.Totals {
	counted := map[string]bool{}
	for _, g := range groupRuns(runs, o) {
		for _, r := range g.runs {
			counted[r.Run.Run] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(runs), func(r store.Totals) bool { return !counted[r.Run.Run] })
}
