package query_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// The figures of the study specialists in docs/RESULTS.md that no command prints: every experiment's answers divided by
// the two tasks that a node of the specialists draws, those of all-8loc0ext too, after round 150 and before the first.
// And the groups with an advantage of an update.
func TestSpecialistsByTheirTasks(t *testing.T) {
	t.Parallel()
	reader, err := store.OpenFile(t.Context(), "../../docs/study/specialists.db.gz")
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	runs, err := reader.Runs(t.Context(), store.Filter{})
	require.NoError(t, err)
	var c configs.Config // of a specialist
	at := slices.IndexFunc(runs, func(r store.Totals) bool { return r.Experiment == "specialists-8loc0ext" })
	require.NoError(t, json.Unmarshal(runs[at].Config, &c))
	require.NotEmpty(t, c.TasksOf("node_0"))

	shares := map[string]map[int64][2]float64{} // by experiment and seed: of the node's two tasks, of the others
	first, groups := [2]float64{}, map[string]float64{}
	for _, run := range runs {
		evals, err := reader.EvalTotals(t.Context(), run.Run.Run)
		require.NoError(t, err)
		divided := func(e store.EvalTotal) [2]float64 {
			totals, err := reader.NodeTaskTotals(t.Context(), e)
			require.NoError(t, err)
			var completions, correct [2]int
			for _, x := range totals {
				side := 1
				if slices.Contains(c.TasksOf(x.Node), x.Task) {
					side = 0
				}
				completions[side], correct[side] = completions[side]+x.Completions, correct[side]+x.Correct
			}
			return [2]float64{float64(correct[0]) / float64(completions[0]), float64(correct[1]) / float64(completions[1])}
		}
		if shares[run.Experiment] == nil {
			shares[run.Experiment] = map[int64][2]float64{}
		}
		require.Equal(t, []int{0, 150}, []int{evals[0].Round, evals[len(evals)-1].Round})
		shares[run.Experiment][run.Seed], first = divided(evals[len(evals)-1]), divided(evals[0])

		mean := func(metric string) (sum float64) {
			bands, err := reader.RoundBands(t.Context(), run.Run.Run, metric, 0)
			require.NoError(t, err)
			for _, b := range bands {
				sum += b.Mean / float64(len(bands))
			}
			return sum
		}
		groups[run.Experiment] += (mean("trained_own")*(1-mean("frac_reward_zero_std")) + mean("trained_external")) / 5
	}
	require.InDelta(t, 0.074, first[1], 0.0005)
	for experiment, want := range map[string][3]float64{
		"8loc0ext": {0.343, 0.271, 4.6}, "4loc4ext": {0.329, 0.331, 6.4}, "2loc6ext": {0.322, 0.326, 7.1}, "all-8loc0ext": {0.323, 0.328, 5.2},
	} {
		own, others := 0.0, 0.0
		for _, s := range shares["specialists-"+experiment] {
			own, others = own+s[0]/5, others+s[1]/5
		}
		require.Len(t, shares["specialists-"+experiment], 5)
		require.InDelta(t, want[0], own, 0.0005, experiment)
		require.InDelta(t, want[1], others, 0.0005, experiment)
		require.InDelta(t, want[2], groups["specialists-"+experiment], 0.05, experiment)
	}
	for _, alone := range shares["specialists-8loc0ext"] {
		for _, sharing := range shares["specialists-2loc6ext"] {
			require.Greater(t, alone[0], sharing[0], "in its own tasks each seed of 8/0 is above each of 2/6")
		}
	}
}

// The figures of sparse-tags that no command prints (docs/RESULTS.md): means over seeds, nodes and rounds.
func TestSparseTagsByRounds(t *testing.T) {
	t.Parallel()
	reader, err := store.OpenFile(t.Context(), "../../docs/study/sparse-tags.db.gz")
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	runs, err := reader.Runs(t.Context(), store.Filter{})
	require.NoError(t, err)
	type figures struct {
		groupsEarly, groups, stepped   float64    // groups with an advantage of a round; share of rounds with a step
		earned                         [3]float64 // own reward after 100, 125 and 150 rounds
		tagsFirst, tags, right, newest float64    // held-out completions in tags, first and last; those right of them; own reward of the last ten rounds
	}
	got, count := map[string]figures{}, map[string]float64{}
	for _, run := range runs {
		// mean returns the mean of a metric from a round to before another.
		mean := func(metric string, from, to int) (sum float64) {
			bands, err := reader.RoundBands(t.Context(), run.Run.Run, metric, 0)
			require.NoError(t, err)
			require.Len(t, bands, 150)
			for _, b := range bands[from:to] {
				sum += b.Mean / float64(to-from)
			}
			return sum
		}
		groups := func(from, to int) float64 {
			return float64(run.Run.NumTrainSamples)*(1-mean("frac_reward_zero_std", from, to)) + mean("trained_external", from, to)
		}
		f := got[run.Experiment]
		f.groupsEarly, f.groups = f.groupsEarly+groups(0, 10), f.groups+groups(0, 150)
		steps, err := reader.RoundValues(t.Context(), run.Run.Run, "steps", 0)
		require.NoError(t, err)
		for _, v := range steps {
			f.stepped += min(v.Value, 1) / float64(len(steps))
		}
		for i, rounds := range []int{100, 125, 150} {
			f.earned[i] += 8 * float64(rounds) * mean("reward", 0, rounds)
		}
		f.newest += 8 * mean("reward", 140, 150)
		evals, err := reader.Evals(t.Context(), run.Run.Run) // eight nodes each time
		require.NoError(t, err)
		require.Len(t, evals, 7*8)
		for i := range 8 {
			f.tagsFirst, f.tags = f.tagsFirst+evals[i].FormatRate/8, f.tags+evals[48+i].FormatRate/8
		}
		totals, err := reader.EvalTotals(t.Context(), run.Run.Run)
		require.NoError(t, err)
		last := totals[len(totals)-1]
		f.right += float64(last.Correct) / float64(last.Questions*last.Generations)
		got[run.Experiment] = f
		count[run.Experiment]++
	}
	for experiment, want := range map[string]figures{
		"8loc0ext":             {0.5, 2.6, 0.81, [3]float64{39.2, 88.5, 149.7}, 0.022, 0.948, 0.310, 2.55},
		"4loc0ext":             {0.2, 0.7, 0.49, [3]float64{11.8, 24.5, 49.6}, 0.022, 0.481, 0.320, 1.17},
		"4loc4ext":             {2.0, 5.5, 0.99, [3]float64{112.8, 177.9, 246.6}, 0.022, 0.961, 0.329, 2.73},
		"4loc4ext-tapered":     {2.0, 5.5, 0.99, [3]float64{113.6, 178.0, 246.7}, 0.022, 0.962, 0.327, 2.72},
		"4loc4ext-uncorrected": {2.0, 5.4, 0.99, [3]float64{98.9, 150.3, 203.2}, 0.022, 0.877, 0.271, 2.08},
	} {
		f, n := got["sparse-tags-"+experiment], count["sparse-tags-"+experiment]
		require.Equal(t, 5.0, n)
		for what, pair := range map[string][3]float64{
			"groups early": {want.groupsEarly, f.groupsEarly / n, 0.05}, "groups": {want.groups, f.groups / n, 0.05}, "steps": {want.stepped, f.stepped / n, 0.005},
			"earned 100": {want.earned[0], f.earned[0] / n, 0.06}, "earned 125": {want.earned[1], f.earned[1] / n, 0.06}, "earned 150": {want.earned[2], f.earned[2] / n, 0.06},
			"tags at first": {want.tagsFirst, f.tagsFirst / n, 0.0005}, "tags": {want.tags, f.tags / n, 0.0006}, "right in tags": {want.right, f.right / f.tags, 0.0006},
			"newest": {want.newest, f.newest / n, 0.006},
		} {
			require.InDelta(t, pair[0], pair[1], pair[2], "%s of %s", what, experiment)
		}
	}
}
