package study

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sweep"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestSeedsAreCountedOrListed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int64{
		"1": {42}, "3": {42, 43, 44}, "1,5,9": {1, 5, 9}, "7,": {7}, "0,9007199254740991": {0, configs.MaxSeed}, "3, 1": {3, 1},
	} {
		seeds, err := ParseSeeds(text)
		require.NoError(t, err, text)
		var got []int64
		for i := range seeds.Len() {
			got = append(got, seeds.at(i, 42))
		}
		require.Equal(t, want, got, text)
		require.Empty(t, seeds.doubt(42), text)
	}
	many, err := ParseSeeds("42")
	require.NoError(t, err)
	require.Equal(t, "--seeds 42 is 42 seeds of each, 42 to 83; seed 42 alone is --seeds 42,", many.doubt(42))
	for _, text := range []string{"", "0", "-1", "three", "1001", "1,1", ",", "1,,2", "1;2", "-1,2", "1.5", "9007199254740992,1",
		"1,1,1,"} {
		_, err := ParseSeeds(text)
		var mistake *configs.Error
		require.ErrorAs(t, err, &mistake, text)
	}
}

func TestAnyNameOfAConfigurationReachesUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-zA-Z0-9 ,"'\\.=é-]{1,30}`).Draw(t, "name")
		args := UpArguments("/h", Source{Config: name}, 0, 0, nil, false)
		f := pflag.NewFlagSet("up", pflag.ContinueOnError)
		config := f.StringSlice("config", nil, "")
		f.String("home", "", "")
		f.String("seed", "", "")
		require.NoError(t, f.Parse(args[1:]))
		require.Equal(t, []string{name}, *config)
	})
}

func TestProgressTellsWhatIsKnown(t *testing.T) {
	t.Parallel()
	number := func(v float64) *float64 { return &v }
	for want, x := range map[string]sweep.Status{
		"done 0, failed 0": {},
		"done 2, failed 0; about 14 h left, $7.20 so far of about $31.00": {Done: 2, ETASeconds: number(14 * 3600), Cost: number(7.2),
			ProjectedCost: number(31), PriceCurrency: "$"},
		"done 1, failed 1; 0.50 EUR so far": {Done: 1, Failed: 1, Cost: number(0.5), PriceCurrency: "EUR"},
	} {
		require.Equal(t, want, progressOf(x))
	}
}

func TestASweepsComparisonHasItsBaseline(t *testing.T) {
	t.Parallel()
	item := func(name string, seed int64, externals int) *Item {
		i := &Item{Source: Source{Config: name}}
		i.p.Config = configs.Config{Experiment: name, Seed: seed, NumTransplantTrees: externals}
		return i
	}
	s := &Sweep{items: []*Item{item("4loc4ext", 1, 4), item("8loc0ext", 1, 0), item("4loc4ext", 2, 4), item("8loc0ext", 2, 0)}}
	require.Equal(t, []string{"4loc4ext", "8loc0ext", "--baseline", "8loc0ext"}, s.comparison())
	s.items = s.items[:1]
	require.Equal(t, []string{"4loc4ext"}, s.comparison())
}

// Before a sweep has measurements of its own, a similar run tells how long a round takes.
func TestThePaceOfARunLikeIt(t *testing.T) {
	t.Parallel()
	run := func(name string, change func(*configs.Config, *store.Totals)) store.Totals {
		c := configs.Default()
		c.Model, c.Experiment = "gpt2", name
		total := store.Totals{RoundsDone: 10, ActiveSeconds: 50}
		total.Run.Run, total.Device, total.Run.Nodes = name, "cuda", 8
		if change != nil {
			change(&c, &total)
		}
		config, err := json.Marshal(c)
		require.NoError(t, err)
		total.Config = config
		return total
	}
	var item Item
	item.p.Config = configs.Default()
	item.p.Config.Model, item.p.Config.Experiment, item.p.Config.Seed = "gpt2", "new", 7
	item.p.Plan.Device, item.p.Plan.Nodes = "cuda", 8
	like := run("like", nil)
	require.InDelta(t, 5, *similarPace(&item, []store.Totals{like}), 1e-9)
	newer := run("newer", func(_ *configs.Config, t *store.Totals) { t.ActiveSeconds = 80 })
	require.InDelta(t, 8, *similarPace(&item, []store.Totals{like, newer}), 1e-9)
	for name, change := range map[string]func(*configs.Config, *store.Totals){
		"other model":  func(c *configs.Config, _ *store.Totals) { c.Model = "nano" },
		"other G":      func(c *configs.Config, _ *store.Totals) { c.NumGenerations++ },
		"other nodes":  func(_ *configs.Config, t *store.Totals) { t.Run.Nodes = 4 },
		"other device": func(_ *configs.Config, t *store.Totals) { t.Device = "cpu" },
		"one round":    func(_ *configs.Config, t *store.Totals) { t.RoundsDone = 1 },
	} {
		require.Nil(t, similarPace(&item, []store.Totals{run(name, change)}), name)
	}
}

// A sweep ends with the verdict and with the comparisons that its study planned.
func TestASweepTellsOfPlannedComparisons(t *testing.T) {
	t.Parallel()
	s := &Sweep{host: Host{Program: "swarm"}, judge: &Judge{flags: "--study control", report: "--study control"}}
	var out strings.Builder
	require.NoError(t, screen.Print(&out, func(p *table.Page) {
		s.printOutcome(p, &stats.Study{Verdict: "Undecided.", Contrasts: []stats.StudyContrast{{Verdict: "Planned: a over b: better."}, {Verdict: "Planned: c over d: undecided."}}})
	}))
	require.True(t, strings.HasPrefix(out.String(), "Undecided.\nPlanned: a over b: better.\nPlanned: c over d: undecided.\n\nswarm compare --study control "), out.String())
}

// The end of a sweep is reported if it ran something or waited for a run, also if the database can't be read then. The
// hook may be what ends a machine that costs money.
func TestTheEndOfASweepIsReportedIfItWorked(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "swarm.db"), store.Options{})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	for _, x := range []struct {
		tried            int
		waited, readable bool
		reported         string
	}{{0, false, true, ""}, {0, false, false, ""}, {1, false, true, "failed"}, {0, true, true, "failed"}, {1, false, false, "failed"}, {0, true, false, "failed"}} {
		item := &Item{Source: Source{Config: "8loc0ext"}, tried: x.tried, waited: x.waited}
		item.p.Config = configs.Config{Experiment: "8loc0ext", Rounds: 2}
		reader, err := store.OpenReader(t.Context(), db.Path())
		require.NoError(t, err)
		if !x.readable {
			require.NoError(t, reader.Close())
		}
		s := &Sweep{items: []*Item{item}, reader: reader, lines: &lines{out: io.Discard}}
		got := ""
		err = s.End(t.Context(), nil, func(e Ending) {
			got = e.Summary.State
			require.Equal(t, fail.ExitFailed, e.Summary.ExitCode)
		})
		require.Error(t, err)
		require.Equal(t, x.reported, got, "%+v", x)
	}
}
