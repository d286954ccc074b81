package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/export"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func read(t testing.TB, path string, o query.CompareOptions) *Data {
	t.Helper()
	d, err := Read(t.Context(), open(t, path), o, stats.CurveOptions{Window: 10})
	require.NoError(t, err)
	return d
}

func names(figures []Figure) (out []string) {
	for _, f := range figures {
		out = append(out, f.Name)
	}
	return out
}

// texts returns the lines of text of a drawing. The drawing must be well-formed XML.
func texts(t testing.TB, svg []byte) (out []string) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			inText = x.Name.Local == "text"
		case xml.CharData:
			if inText {
				out = append(out, string(x))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func TestAnExportDrawsAsItsSource(t *testing.T) {
	s := paper(2, 2, 12)
	path := s.write(t)
	reader := open(t, path)
	totals, err := reader.Runs(t.Context(), store.Filter{})
	require.NoError(t, err)
	runs := make([]store.Run, len(totals))
	for i, x := range totals {
		runs[i] = x.Run
	}
	small := filepath.Join(t.TempDir(), "paper.db.gz")
	_, err = export.Database(t.Context(), reader, small, runs, false)
	require.NoError(t, err)

	drawn := read(t, path, query.CompareOptions{}).Draw()
	require.Equal(t, []string{"rewards-by-node", "rewards-smoothed", "held-out-over-rounds", "held-out-final", "held-out-by-task"}, names(drawn))
	again := read(t, small, query.CompareOptions{}).Draw()
	for i, f := range drawn {
		require.True(t, bytes.Equal(f.SVG, again[i].SVG), "%s: the same runs make the same bytes", f.Name)
		require.Less(t, len(f.SVG), 300_000)
		all := strings.Join(texts(t, f.SVG), "\n")
		for _, label := range []string{"8 local / 0 external", "6 local / 2 external", "4 local / 4 external", "2 local / 6 external"} {
			require.Contains(t, all, label, f.Name)
		}
		require.NotContains(t, string(f.SVG), "NaN")
		require.NotContains(t, string(f.SVG), "Inf")
	}
}

func TestLongRunsStayFiguresOfAFewHundredKilobytes(t *testing.T) {
	curve := func(seed int64) Seed {
		rounds := make([]int, 4000)
		values := make(stats.Values, len(rounds))
		for i := range rounds {
			rounds[i], values[i] = i, math.Abs(math.Sin(float64(i)*float64(seed)))
		}
		c := stats.Curve{Round: rounds, Mean: values, Low: values, High: values}
		for n := range 16 {
			c.Nodes = append(c.Nodes, stats.NodeSeries{Node: fmt.Sprint(n), Values: values})
		}
		return Seed{Seed: seed, Raw: c, Smooth: c}
	}
	d := &Data{Window: 100}
	for i := range 9 {
		d.Configs = append(d.Configs, Config{Label: fmt.Sprint("arm ", i), Seeds: []Seed{curve(1), curve(2), curve(3)}})
	}
	for _, f := range d.Draw() {
		require.Less(t, len(f.SVG), 300_000, f.Name)
		t.Log(f.Name, len(f.SVG))
	}
}

// For every axis, a study's figure has one line per experiment. Single runs appear only on request.
func TestFiguresAreOfExperimentsAgainstTheAxisAskedFor(t *testing.T) {
	path := paper(3, 2, 12).write(t)
	for _, axis := range stats.Axes()[:5] { // these runs have no price
		d, err := Read(t.Context(), open(t, path), query.CompareOptions{}, stats.CurveOptions{Window: 3, Per: axis.Name})
		require.NoError(t, err)
		few := string(d.rewardsSmoothed())
		require.Contains(t, strings.Join(texts(t, []byte(few)), " "), axis.Label)
		require.Contains(t, strings.Join(texts(t, d.heldOutOverRounds()), " "), axis.Label)
		require.Contains(t, few, "95 % interval over seeds")
		d.Single = true
		more := strings.Count(string(d.rewardsSmoothed()), "<path") - strings.Count(few, "<path")
		require.InDelta(t, 12, more, 2, "a thin line a run, and perhaps other ticks: a run may be longer than the mean of all")
	}
	_, err := Read(t.Context(), open(t, path), query.CompareOptions{}, stats.CurveOptions{Per: "parsecs"})
	require.Error(t, err)
}

func TestOneSeedHasNoInterval(t *testing.T) {
	path := paper(1, 2, 12).write(t)
	for _, f := range read(t, path, query.CompareOptions{Names: []string{"paper-4loc4ext"}}).Draw() {
		all := strings.Join(texts(t, f.SVG), " ")
		require.NotContains(t, all, "95 %", f.Name)
		if strings.HasPrefix(f.Name, "held-out") {
			require.Contains(t, all, "one seed: no interval", f.Name)
		}
	}
}

func TestOfAStudyOnlyRunsThatAreDoneAreDrawn(t *testing.T) {
	s := paper(2, 2, 12)
	path := s.write(t)
	db, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	for i, experiment := range []string{"paper-4loc4ext", "paper-fails"} {
		require.NoError(t, db.StartRun(t.Context(), store.Run{Run: fmt.Sprint("failing-", i), Experiment: experiment, Seed: 99, Rounds: 12, Started: 5e9,
			NodeIDs: []string{"node_0"}}))
	}
	require.NoError(t, db.Close())
	study := &stats.StudyDesign{Name: "paper", Arms: []stats.StudyArm{
		{Name: "4loc4ext", Experiment: "paper-4loc4ext"}, {Name: "fails", Experiment: "paper-fails"}, {Name: "8loc0ext", Experiment: "paper-8loc0ext"},
	}}
	d := read(t, path, query.CompareOptions{CompareOptions: stats.CompareOptions{Study: study}})
	require.Len(t, d.Configs, 2, "in the study's order, without the arm that has nothing")
	require.Equal(t, "4 local / 4 external", d.Configs[0].Label)
	require.Equal(t, "8 local / 0 external", d.Configs[1].Label)
	for _, seed := range d.Configs[0].Seeds {
		require.NotEqual(t, int64(99), seed.Seed)
	}

	_, err = Read(t.Context(), open(t, path), query.CompareOptions{Names: []string{"paper-nowhere"}}, stats.CurveOptions{})
	var unknown *query.UnknownError
	require.ErrorAs(t, err, &unknown)
	study.Arms = study.Arms[1:2]
	_, err = Read(t.Context(), open(t, path), query.CompareOptions{CompareOptions: stats.CompareOptions{Study: study}}, stats.CurveOptions{})
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestTheSplitsPathIsDrawnWhereRunsHaveOne(t *testing.T) {
	s := paper(2, 2, 12)
	s.order = []string{"paper-4loc4ext", "adaptive"}
	s.experiments["adaptive"], s.externals["adaptive"], s.adaptive = 0.3, 4, "adaptive"
	figures := read(t, s.write(t), query.CompareOptions{}).Draw()
	at := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == "split-path" })
	require.GreaterOrEqual(t, at, 0)
	all := texts(t, figures[at].SVG)
	require.Contains(t, all, "adaptive")
	require.NotContains(t, all, "4 local / 4 external", "its split is fixed")
}

// The final figure's marks match the statistics: the test converts pixels back to numbers.
func TestTheFinalFigureShowsTheStatistics(t *testing.T) {
	path := paper(3, 1, 12).write(t)
	reader := open(t, path)
	comparison, err := query.Compare(t.Context(), reader, query.CompareOptions{CompareOptions: stats.CompareOptions{Measure: stats.MeasurePass}})
	require.NoError(t, err)
	d := read(t, path, query.CompareOptions{})
	for i, row := range comparison.Rows {
		mean, low, high := sample.MeanInterval(d.Configs[i].perSeed(finalPass(d.evalSet())))
		require.InDelta(t, *row.Value, mean, 1e-12)
		require.InDelta(t, *row.ValueLow, low, 1e-12)
		require.InDelta(t, *row.ValueHigh, high, 1e-12)
	}
}

func TestLabels(t *testing.T) {
	require.Equal(t, []string{"8 local / 0 external", "4 local / 4 external"}, shortNames([]string{"paper-gpt2-8loc0ext", "paper-gpt2-4loc4ext"}))
	require.Equal(t, []string{"adaptive", "adaptive-ema", "8 local / 0 external"},
		shortNames([]string{"adaptive-adaptive", "adaptive-adaptive-ema", "adaptive-8loc0ext"}))
	require.Equal(t, []string{"paper-x"}, shortNames([]string{"paper-x"}))
	require.Equal(t, []string{"a", "a-b"}, shortNames([]string{"a", "a-b"}))
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfNDistinct(rapid.StringMatching(`[ab-]{1,6}`), 1, 5, rapid.ID).Draw(t, "names")
		require.Len(t, shortNames(in), len(in))
		seen := map[string]bool{}
		for _, label := range shortNames(in) {
			require.False(t, seen[label], "two are called %q of %q", label, in)
			seen[label] = true
		}
	})
}

func TestTicksAreRoundAndWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(0, 10).Draw(t, "low")
		high := low + math.Pow(10, rapid.Float64Range(-3, 4).Draw(t, "width"))
		ticks := fewTicks(5).Ticks(low, high)
		require.NotEmpty(t, ticks)
		require.LessOrEqual(t, len(ticks), 7)
		for _, tick := range ticks {
			require.GreaterOrEqual(t, tick.Value, low-1e-6*(high-low))
			require.LessOrEqual(t, tick.Value, high+1e-6*(high-low))
			shown, err := strconv.ParseFloat(tick.Label, 64)
			require.NoError(t, err)
			require.InDelta(t, tick.Value, shown, 1e-9*math.Max(1, high), "the label is the value")
			require.NotContains(t, tick.Label, "-")
		}
	})
}

// Names in a database may be untrusted.
func TestHostileNamesStayText(t *testing.T) {
	hostile := `</title><script>x()</script>&"'`
	c := stats.Curve{Round: []int{0, 1}, Mean: stats.Values{0, 1}, Low: stats.Values{0, 1}, High: stats.Values{0, 1}}
	d := &Data{Window: 1, Configs: []Config{{Label: hostile, Seeds: []Seed{{Raw: c, Smooth: c}}}}}
	for _, f := range d.Draw() {
		require.NotContains(t, string(f.SVG), "<script")
		require.Contains(t, strings.Join(texts(t, f.SVG), ""), hostile)
	}
}

func TestGapsAndNothingToShow(t *testing.T) {
	nan := math.NaN()
	c := stats.Curve{Round: []int{0, 1, 2}, Mean: stats.Values{nan, 0.5, nan}, Low: stats.Values{nan, nan, nan}, High: stats.Values{nan, 1, nan}}
	d := &Data{Window: 1, Configs: []Config{{Label: "a", Seeds: []Seed{{Raw: c, Smooth: c}}}, {Label: "b", Seeds: []Seed{{}}}}}
	for _, f := range d.Draw() {
		require.NotContains(t, string(f.SVG), "NaN", f.Name)
		texts(t, f.SVG)
	}
	require.Empty(t, (&Data{Window: 1, Configs: []Config{{Label: "b", Seeds: []Seed{{}}}}}).Draw())
}
