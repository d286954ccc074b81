package verify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/journal"
)

// A run whose nodes decide I and J themselves can be verified like any other: the splits come from the journal. An
// impossible split is reported before the round is repeated. A report with another split is reported too.
func TestAdaptiveRunVerifies(t *testing.T) {
	const split = 4
	config := testConfig(t)
	config.Split, config.SplitEvery, config.Rounds, config.NumIterations = configs.SplitBandit, 1, split, 1
	config.MaxCompletionLength = 12
	require.NoError(t, configs.Validate(config))
	dir, err := os.MkdirTemp(filepath.Dir(lab.Options(t).Dir), "adaptive-")
	require.NoError(t, err)
	run := &finished{dir, config, []string{"node_0", "node_1"}, map[string][]event.Round{}, map[string]map[int]string{}, nil}
	trainNodes(t, run, reload(t, config))
	taken := map[int]bool{}
	for _, r := range run.told["node_1"] {
		taken[r.SplitExternal] = true
	}
	require.Greater(t, len(taken), 2, "hardly anything is decided")

	report := run.copy(t).verify(t, nil)
	require.True(t, report.Verified, "%+v", report)
	require.Equal(t, 2*split, report.Rounds)

	told := func(r *event.Round) { r.SplitOwn, r.SplitExternal = r.SplitOwn-1, r.SplitExternal+1 }
	for name, test := range map[string]struct {
		change func(*journal.Round)
		what   string
	}{
		"none":           {func(r *journal.Round) { r.Trained.Report.SplitOwn = 0 }, "split"},
		"negative":       {func(r *journal.Round) { r.Trained.Report.SplitOwn = -1 }, "split"},
		"without end":    {func(r *journal.Round) { r.Trained.Report.SplitOwn = 1e9 }, "split"},
		"another sum":    {func(r *journal.Round) { r.Trained.Report.SplitExternal++ }, "split"},
		"another split":  {func(r *journal.Round) { told(&r.Trained.Report) }, "completions"},
		"told otherwise": {func(r *journal.Round) { told(r.Done.Event.Round) }, "split_own"},
	} {
		t.Run(name, func(t *testing.T) {
			f := run.copy(t)
			f.rewrite(t, "node_1", func(r *journal.Round) {
				if r.Round == 0 { // the configured split: 3 and 2
					test.change(r)
				}
			})
			report := f.verify(t, func(o *Options) {
				if test.what == "split" {
					o.Nodes = f.nodes[1:] // read only this node's journal
				}
			})
			n := report.Nodes[len(report.Nodes)-1]
			require.NotEmpty(t, n.Differences)
			require.Equal(t, test.what, n.Differences[0].What)
			require.Zero(t, n.Differences[0].Round)
		})
	}
}
