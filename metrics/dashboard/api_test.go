package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestRunsShowTheStatusOfEveryRun(t *testing.T) {
	s := finished(t)
	doc := s.json("/api/runs")
	require.Equal(t, databaseReady, doc["database"])
	row := doc["runs"].([]any)[0].(map[string]any)
	require.Equal(t, "a-1", row["run"])
	require.Equal(t, "4/4", row["config"])
	require.Equal(t, "done", row["state"])
	require.EqualValues(t, 3, row["round"])
	require.EqualValues(t, 0.5, row["eval_reward"])
	require.Equal(t, "$", row["price_currency"])
	require.Nil(t, row["eta_seconds"])

	reader, err := store.OpenReader(t.Context(), s.path)
	require.NoError(t, err)
	defer reader.Close()
	snapshot, err := reader.Snapshot(t.Context(), "a-1")
	require.NoError(t, err)
	status := query.Status(snapshot, event.Now(), false)
	require.Equal(t, status.CumulativeReward, row["cumulative_reward"])
	one := s.json("/api/runs/a-1")
	text, err := json.Marshal(status)
	require.NoError(t, err)
	got, err := json.Marshal(one["status"])
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(got), "the document of swarm status")
	require.Equal(t, map[string]any{"rounds": 1.0}, one["config"])
	require.Len(t, one["attempts"], 1)
	require.Equal(t, one["status"], s.json("/api/runs/a")["status"], "an experiment is its newest run")
}

// API documents equal the results of queries.
func TestDocumentsAreThoseOfQuery(t *testing.T) {
	s := finished(t)
	reader, err := store.OpenReader(t.Context(), s.path)
	require.NoError(t, err)
	defer reader.Close()
	run, err := reader.FindRun(t.Context(), "a", 42)
	require.NoError(t, err)
	for path, make := range map[string]func() (any, error){
		"/api/runs/a-1/curve?metric=step_time&window=2&points=4": func() (any, error) {
			return query.Curve(t.Context(), reader, *run, "step_time", stats.CurveOptions{Window: 2, Points: 4})
		},
		"/api/runs/a-1/tasks?steps=2": func() (any, error) { return query.Tasks(t.Context(), reader, *run, 2) },
		"/api/runs/a-1/evaluations":   func() (any, error) { return query.Evaluations(t.Context(), reader, *run) },
		"/api/curves?names=a&metric=reward&window=2&per=tokens&single=1": func() (any, error) {
			totals, err := reader.Runs(t.Context(), store.Filter{})
			if err != nil {
				return nil, err
			}
			curve, err := query.ExperimentCurve(t.Context(), reader, stats.Group{Name: "a", Runs: totals}, "reward",
				stats.CurveOptions{Window: 2, Points: 600, Per: "tokens", Single: true})
			return map[string]any{"experiments": []stats.ExperimentCurve{curve}}, err
		},
		"/api/compare?names=a&by=experiment": func() (any, error) {
			return query.Compare(t.Context(), reader, query.CompareOptions{
				Names: []string{"a"}, CompareOptions: stats.CompareOptions{By: stats.ByExperiment, Bootstrap: true, Questions: true},
			})
		},
	} {
		for range 2 { // the second response comes from the cache
			want, err := make()
			require.NoError(t, err, path)
			text, err := json.Marshal(want)
			require.NoError(t, err)
			require.JSONEq(t, string(text), s.get(path).Body.String(), path)
		}
	}
}

func TestMemoryTellsNodesCardsAndTheLedger(t *testing.T) {
	doc := finished(t).json("/api/runs/a-1/memory")
	require.EqualValues(t, 10, doc["slot"])
	require.EqualValues(t, 1000, doc["card_bytes"])
	require.EqualValues(t, 50, doc["unattributed_bytes"])
	node := doc["nodes"].([]any)[0].(map[string]any)
	require.Equal(t, "node_0", node["node"])
	require.Equal(t, []any{70.0}, node["device_bytes"])
	device := doc["devices"].([]any)[0].(map[string]any)
	require.Equal(t, []any{0.5}, device["utilization"])
	require.Equal(t, []any{nil}, device["power_watts"], "what the driver doesn't tell is null")
	ledger := doc["ledger"].([]any)[0].(map[string]any)
	require.EqualValues(t, 40, ledger["resident_bytes"])
	require.EqualValues(t, 30, ledger["transient_bytes"])
	require.EqualValues(t, 100, ledger["budget_bytes"])
}

func TestDeviceSlotsKeepTheHighestMemory(t *testing.T) {
	var d memoryDocument
	sample := func(time float64, used, unattributed int64, watts float64) store.DeviceSample {
		return store.DeviceSample{Time: time, Device: event.Device{UUID: "x", MemoryUsedBytes: used, UnattributedBytes: unattributed, PowerWatts: watts}}
	}
	d.addDevices([]store.DeviceSample{sample(0, 5, 1, 10), sample(10, 9, 2, 20), sample(20, 3, 3, 30), sample(60, 4, 4, 40)}, 60)
	require.Equal(t, []float64{0, 60}, d.Devices[0].Time)
	require.Equal(t, []int64{9, 4}, d.Devices[0].UsedBytes)
	require.Equal(t, []int64{2, 4}, d.Devices[0].UnattributedBytes)
	require.Equal(t, stats.Values{30, 40}, d.Devices[0].PowerWatts)
}

func TestPeersAndEvents(t *testing.T) {
	s := finished(t)
	peers := s.json("/api/runs/a-1/peers")["peers"].([]any)
	require.Equal(t, map[string]any{
		"node": "node_0", "peer": "node_1", "available": 12.0, "used": 6.0, "rejected": 3.0, "filtered": 3.0, "late": 0.0,
	}, peers[0])
	events := s.json("/api/runs/a-1/events")["events"].([]any)
	require.Len(t, events, 3)
	first, warning := events[0].(map[string]any), events[1].(map[string]any)
	require.Equal(t, "run started", first["message"])
	require.Equal(t, "warning", warning["level"])
	require.Equal(t, "node_1", warning["node"])
	tail := s.json("/api/runs/a-1/events?tail=2")["events"].([]any)
	require.Equal(t, events[1:], tail)
	later := s.json("/api/runs/a-1/events?limit=1&after=" + strings.TrimSuffix(jsonText(t, first["id"]), ".0"))["events"].([]any)
	require.Equal(t, []any{warning}, later)
}

func jsonText(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

func TestMetricsHaveUnits(t *testing.T) {
	units := map[string]string{}
	for _, m := range finished(t).json("/api/metrics")["metrics"].([]any) {
		units[m.(map[string]any)["name"].(string)] = m.(map[string]any)["unit"].(string)
	}
	require.Equal(t, "number", units["reward"])
	require.Equal(t, "seconds", units["step_time"])
	require.Equal(t, "ratio", units["format_rate"])
	require.Equal(t, "tokens", units["completions_mean_length"])
	require.Len(t, units, len(event.MetricNames()))
}

func TestMistakesGetOneLine(t *testing.T) {
	s := finished(t)
	for target, want := range map[string]struct {
		code int
		text string
	}{
		"/api/runs/a-1/curve?metric=secret":          {400, `bad metric "secret": allowed: reward, `},
		"/api/runs/a-1/curve?metric=reward;drop":     {400, "query"},
		"/api/runs/a-1/curve?window=0":               {400, `bad window "0": allowed: a whole number from 1 to 1000000`},
		"/api/runs/a-1/curve?window=1e3":             {400, "window"},
		"/api/runs/a-1/curve?points=3":               {400, "bad points 3"},
		"/api/runs/a-1/curve?points=99999999":        {400, "points"},
		"/api/runs/a-1/curve?points=4&points=5":      {400, "points is given 2 times"},
		"/api/runs/a-1/curve?pionts=4":               {400, `unknown parameter "pionts", known are: metric, window, points`},
		"/api/runs/a-1/curve?metric=%zz":             {400, "the query can't be read"},
		"/api/runs/a-1/memory?slot=-1":               {400, "slot"},
		"/api/runs/a-1/events?limit=1001":            {400, "limit"},
		"/api/runs/a-1/events?after=-1":              {400, "after"},
		"/api/runs/a-1/logs?lines=0":                 {400, "lines"},
		"/api/runs/a-1/logs?around=NaN":              {400, `bad around "NaN": allowed: a number`},
		"/api/runs/a-1/logs?node=../../etc":          {404, `no node "../../etc"`},
		"/api/runs/a-1/rollouts?round=-2":            {400, "round"},
		"/api/runs/a-1/rollouts?node=coordinator":    {404, "no node"},
		"/api/runs/nothing":                          {404, `no run or experiment "nothing" is recorded`},
		"/api/runs/nothing/curve":                    {404, "nothing"},
		"/api/runs/" + strings.Repeat("x", 300):      {400, "name of 300 bytes"},
		"/api/compare?by=colour":                     {400, `bad by "colour": allowed: experiment, config`},
		"/api/compare?names=a&names=zz":              {404, "zz"},
		"/api/compare?target=inf":                    {400, "target"},
		"/api/compare?x=" + strings.Repeat("y", 9e3): {400, "a query of"},
		"/api/nothing":                               {404, "there is no page /api/nothing"},
		"/page/index.html":                           {404, "there is no page"},
		"/../dashboard/page.go":                      {404, "nothing"},
	} {
		w := s.get(target)
		var answer struct{ Error string }
		if w.Code == http.StatusMovedPermanently || w.Code == http.StatusTemporaryRedirect {
			continue // an unclean path
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), "%s: %s", target, w.Body)
		require.Equal(t, want.code, w.Code, "%s: %s", target, answer.Error)
		require.Contains(t, answer.Error, want.text, target)
		require.NotContains(t, answer.Error, "\n")
		require.Less(t, len(answer.Error), 700)
	}
}

func TestHostileTextStaysJSON(t *testing.T) {
	rollouts := func(context.Context, RolloutQuery) (Rollouts, error) {
		answer := hostile
		return Rollouts{Questions: []Question{{Question: hostile, Answer: &answer, Completions: []Completion{{Text: hostile}}}}}, nil
	}
	logs := func(context.Context, LogQuery) (Logs, error) { return Logs{Lines: []LogLine{{Text: hostile}}}, nil }
	s := finished(t, func(o *Options) { o.Rollouts, o.Logs = rollouts, logs })
	for _, target := range []string{"/api/runs/a-1/events", "/api/runs/a-1/rollouts", "/api/runs/a-1/logs", "/api/runs/" + "%3Cscript%3E"} {
		w := s.get(target)
		require.Equal(t, "application/json; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.NotContains(t, w.Body.String(), "<", target)
		require.NotContains(t, w.Body.String(), "\u2028", target)
		require.True(t, json.Valid(w.Body.Bytes()))
	}
	got := s.json("/api/runs/a-1/rollouts?node=node_1&round=2")
	question := got["questions"].([]any)[0].(map[string]any)
	require.Equal(t, hostile, question["question"], "and nothing of it is lost")
	require.Equal(t, []any{"node_0", "node_1"}, got["nodes"])
	require.EqualValues(t, 3, got["rounds"])
}

func TestWhatFoldersTellIsAskedForByCheckedNames(t *testing.T) {
	var asked RolloutQuery
	s := finished(t, func(o *Options) {
		o.Rollouts = func(_ context.Context, q RolloutQuery) (Rollouts, error) { asked = q; return Rollouts{}, nil }
		o.Logs = func(context.Context, LogQuery) (Logs, error) { return Logs{}, errors.New("disk on fire") }
	})
	s.json("/api/runs/a/rollouts")
	require.Equal(t, RolloutQuery{Run: "a-1", Node: "node_0", Round: -1}, asked)
	w := s.get("/api/runs/a-1/logs?node=coordinator")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "disk on fire")
	require.Contains(t, finished(t).json("/api/runs/a-1/logs")["note"], "no access to logs")
}

func TestAMissingDatabaseIsPickedUpWhenItAppears(t *testing.T) {
	s := newSwarm(t)
	doc := s.json("/api/runs")
	require.Equal(t, databaseMissing, doc["database"])
	require.Empty(t, doc["runs"])
	w := s.get("/api/runs/a-1")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "Try: swarm up")
	require.Equal(t, http.StatusNotFound, s.get("/api/compare").Code)

	s.open()
	require.Equal(t, databaseReady, s.json("/api/runs")["database"])
	s.start("a-1", "a", 2, 3)
	require.Eventually(t, func() bool { return len(s.json("/api/runs")["runs"].([]any)) == 1 }, patience, 0+5e6)

	require.NoError(t, s.store.Close())
	require.NoError(t, os.RemoveAll(s.path))
	require.Equal(t, databaseMissing, s.json("/api/runs")["database"], "and dropped when it goes")
	s.open()
	s.start("b-1", "b", 2, 3)
	require.Eventually(t, func() bool {
		runs := s.json("/api/runs")["runs"].([]any)
		return len(runs) == 1 && runs[0].(map[string]any)["run"] == "b-1"
	}, patience, 5e6, "another in its place is another")
}

func TestAForeignFileIsToldOf(t *testing.T) {
	s := newSwarm(t)
	require.NoError(t, os.WriteFile(s.path, []byte(strings.Repeat("not a database ", 1000)), 0o600))
	doc := s.json("/api/runs")
	require.Equal(t, databaseUnusable, doc["database"])
	require.Contains(t, doc["problem"], "not a swarm database")
	w := s.get("/api/runs/a-1")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "Try: choose another --home")
}

func TestASecondRequestForTheSameGetsNoBody(t *testing.T) {
	s := finished(t)
	for _, target := range []string{"/api/runs/a-1/curve", "/", "/charts/charts.js"} {
		first := s.get(target)
		require.Equal(t, http.StatusOK, first.Code, target)
		second := s.get(target, "If-None-Match", first.Header().Get("ETag"))
		require.Equal(t, http.StatusNotModified, second.Code, target)
		require.Empty(t, second.Body.String())
	}
}

func TestCacheForgetsWhatWasNotUsed(t *testing.T) {
	c := newCache()
	big := json.RawMessage(strings.Repeat(" ", cacheBytes/2-2)) // keys and stamps count too
	c.put("a", "1", big)
	c.put("b", "1", big)
	_, ok := c.get("a", "1")
	require.True(t, ok)
	c.put("c", "1", big)
	_, ok = c.get("b", "1")
	require.False(t, ok, "b was not used longest")
	_, ok = c.get("a", "2")
	require.False(t, ok, "another stamp is another answer")
	_, ok = c.get("a", "1")
	require.True(t, ok)
	require.LessOrEqual(t, c.bytes, cacheBytes)
}

func TestThePageIsWhole(t *testing.T) {
	s := newSwarm(t)
	all, err := assets()
	require.NoError(t, err)
	require.Contains(t, all, "/")
	for name, a := range all {
		w := s.get(name)
		require.Equal(t, http.StatusOK, w.Code, name)
		require.Equal(t, a.kind, w.Header().Get("Content-Type"))
	}
	entries, err := filepath.Glob("page/*")
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	var w *httptest.ResponseRecorder = s.get("/healthz", "Host", "evil.example")
	require.JSONEq(t, `{"ok":true,"version":"test"}`, w.Body.String())
}

func TestPrometheusCanScrape(t *testing.T) {
	w := newSwarm(t).get("/metrics")
	require.Equal(t, http.StatusOK, w.Code, "before anything has run there is nothing to tell")
	require.Empty(t, w.Body.String())
	w = finished(t).get("/metrics")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `swarm_rounds_total{experiment="a",node="node_0",run="a-1"} 3`)
}
