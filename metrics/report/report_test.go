package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/report"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

var update = flag.Bool("update", false, "rewrite testdata")

func write(t testing.TB, reader *store.Reader, o report.Options) string {
	t.Helper()
	r, err := report.Read(context.Background(), reader, o)
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, r.Write(&page))
	return page.String()
}

// outline returns a page's text structure: tags and texts of headings, tables and lists, without assets and data.
func outline(page string) string {
	for _, cut := range []string{`(?s)<style>.*?</style>`, `(?s)<script.*?</script>`, `<meta http-equiv="Content[^>]*>`} {
		page = regexp.MustCompile(cut).ReplaceAllString(page, "")
	}
	page = regexp.MustCompile(`</?(div|p|a|code|span|thead|tbody|details)[^>]*>`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`\n\s*\n+`).ReplaceAllString(page, "\n")
	return page
}

func TestStructure(t *testing.T) {
	reader := database(t, paperRuns(3, 40, 1, 2, 3, 4, 5)...)
	got := outline(write(t, reader, options()))
	path := filepath.Join("testdata", "outline.html")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644)) //nolint:gosec // a golden file
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./metrics/report -update rewrites it")
}

// element returns the text of a script element of the page.
func element(t *testing.T, page, id string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, `<script type="application/json" id="`+id+`">`)
	require.True(t, ok)
	text, _, ok := strings.Cut(rest, "</script>")
	require.True(t, ok)
	return text
}

func TestItHasTheNumbersOfCompare(t *testing.T) {
	reader := database(t, paperRuns(3, 40, 1, 2, 3)...)
	var got struct {
		Comparison json.RawMessage
		Runs       []struct {
			Row    stats.RunRow
			Status stats.Status
		}
	}
	page := write(t, reader, options())
	require.NoError(t, json.Unmarshal([]byte(element(t, page, "documents")), &got))
	o := query.CompareOptions{}
	o.Tasks, o.Bootstrap, o.Questions = true, true, true
	comparison, err := query.Compare(context.Background(), reader, o)
	require.NoError(t, err)
	want, err := json.Marshal(comparison)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got.Comparison))
	require.Len(t, got.Runs, 12)
	for _, run := range got.Runs {
		require.InDelta(t, run.Status.CumulativeReward, run.Row.CumulativeReward, 0)
	}
	for _, row := range comparison.Rows {
		if row.Improvement != nil {
			require.Contains(t, html.UnescapeString(page), fmt.Sprintf("%+.1f\u00a0%%", 100**row.Improvement))
		}
	}
}

func TestVerdict(t *testing.T) {
	one := paperRuns(2, 12, 1)
	for name, c := range map[string]struct {
		runs []synthetic
		want []string
	}{
		"one configuration": {one[:1], []string{"There is only one configuration: 8loc0ext (8/0)"}},
		"one seed":          {one[:2], []string{"Undecided which is best. 6loc2ext (6/2) is highest so far", "1 seed, at least 3 more needed"}},
		"three seeds":       {paperRuns(2, 60, 1, 2, 3), []string{"Undecided which is best. 4loc4ext (4/4) is highest so far", "3 seeds a side cannot decide: "}},
		"five seeds": {paperRuns(2, 60, 1, 2, 3, 4, 5), []string{"4loc4ext (4/4) is highest, and better than the baseline 8loc0ext (8/0): its held-out pass@1 is", "above it.",
			"95 % interval", "exact permutation test p = 0.0079, corrected 0.024", "5 seeds"}},
	} {
		t.Run(name, func(t *testing.T) {
			page := outline(write(t, database(t, c.runs...), options()))
			for _, want := range c.want {
				require.Contains(t, page, want)
			}
		})
	}
}

func TestARunThatGoesOnSaysSo(t *testing.T) {
	x := synthetic{experiment: "live", own: 4, external: 4, seed: 1, nodes: 2, rounds: 20, gain: 0.5, unfinished: true}
	page := write(t, database(t, x), options())
	require.Contains(t, page, "<strong>live is still running</strong>: round 20 of 20")
	require.Contains(t, page, "As of 2025-10-10 12:40:00 UTC")
	o := options()
	o.Alive = func(store.Snapshot, float64) bool { return false }
	page = write(t, database(t, x), o)
	require.NotContains(t, page, "is still running</strong>")
	require.Contains(t, page, "<td>crashed</td>")
}

func TestNothingToReport(t *testing.T) {
	_, err := report.Read(context.Background(), database(t), options())
	require.ErrorIs(t, err, store.ErrNotFound)
	o := options()
	o.Names = []string{"nosuch"}
	_, err = report.Read(context.Background(), database(t, paperRuns(1, 1, 1)...), o)
	var unknown *query.UnknownError
	require.True(t, errors.As(err, &unknown), err)
	require.Equal(t, "nosuch", unknown.Name)
}

func TestManyRunsKeepTheFileSmall(t *testing.T) {
	var runs []synthetic
	for seed := range int64(30) {
		runs = append(runs, synthetic{experiment: "many", own: 4, external: 4, seed: seed, nodes: 2, rounds: 3, gain: 0.4})
	}
	page := write(t, database(t, runs...), options())
	require.Equal(t, 1, strings.Count(page, `data-chart="raw-`), "an experiment's newest")
	require.Contains(t, page, "1 of 30 runs have separate charts")
	require.Equal(t, (6+2)*30, strings.Count(element(t, page, "charts"), `"run":"many-`), "all are in the curves, against every axis, and in both of pass@k")
}

func TestRewardsThatAreNoNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	for _, name := range []string{"nan", "started"} {
		require.NoError(t, s.StartRun(t.Context(), store.Run{Run: name, Experiment: name, Rounds: 3, NodeIDs: []string{"node_0"}, NumTrainSamples: 8, Started: started}))
	}
	for round, reward := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeRound, Run: "nan", Node: "node_0", Time: started + float64(round),
			Round: &event.Round{Round: round, Reward: reward, StepTime: math.NaN()}}))
	}
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer reader.Close()
	page := write(t, reader, options())
	require.True(t, json.Valid([]byte(element(t, page, "charts"))))
	require.True(t, json.Valid([]byte(element(t, page, "documents"))))
	require.Equal(t, 1, strings.Count(page, `data-chart="raw-`), "a run without a round has no charts")
	require.NotContains(t, outline(page), "NaN")
	require.NotContains(t, outline(page), "Inf")
}

// The report has at most 300 KB in addition to its data. The test only logs the time, because a limit in seconds would
// depend on the machine's load.
func TestFourLongRunsAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 64,000 rounds")
	}
	reader := database(t, paperRuns(8, 2000, 1)...)
	begin := time.Now()
	page := write(t, reader, options())
	took := time.Since(begin)
	data := len(element(t, page, "charts")) + len(element(t, page, "documents"))
	t.Logf("%v; %d kB, of which %d kB data", took, len(page)/1000, data/1000)
	require.Less(t, len(page)-data, 300_000)
	require.Less(t, data, 1_500_000)
	keep(t, "long.html", page)
}

// keep saves a page for manual inspection if REPORT_KEEP names a folder.
func keep(t *testing.T, name, page string) {
	t.Helper()
	if dir := os.Getenv("REPORT_KEEP"); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(page), 0o600))
	}
}
