package task

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func defaultTask[P any](t testing.TB, defaults P, ctor func(P) (Task, error)) Task {
	t.Helper()
	task, err := ctor(defaults)
	require.NoError(t, err)
	return task
}

func TestArc1DGolden(t *testing.T) {
	task := defaultTask(t, defaultArc1D(), newArc1D)
	testGoldenItems(t, task)
	testGoldenScores(t, task, 0)
}

// Every rule yields pairs at every allowed size often enough for a retry loop without a bound.
func TestArc1DRulesSucceed(t *testing.T) {
	rules := arcRules()
	require.Len(t, rules, 70)
	for _, n := range []int{arcMinSize, 9, 10, 11, 12, 17, 30, 41, arcMaxSize} {
		for _, rule := range rules {
			const calls = 300
			ok := 0
			r := newRNG(int64(n), 0)
			for range calls {
				pair, success := rule.rule(r, n)
				if !success {
					continue
				}
				ok++
				if len(pair.input) != n || len(pair.output) != n {
					t.Fatalf("%s: %d and %d cells, want %d", rule.name, len(pair.input), len(pair.output), n)
				}
				for _, cell := range slices.Concat(pair.input, pair.output) {
					if cell < 0 || cell > 9 {
						t.Fatalf("%s: colour %d", rule.name, cell)
					}
				}
			}
			if ok < calls/20 {
				t.Errorf("%s at n=%d: %d of %d calls succeed", rule.name, n, ok, calls)
			}
		}
	}
}

func FuzzScoreArc1D(f *testing.F) { fuzzScore(f, defaultTask(f, defaultArc1D(), newArc1D)) }
