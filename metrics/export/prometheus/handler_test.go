package prometheus

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestHostileNamesStayLabels(t *testing.T) {
	s, r := openStore(t)
	run := aRun("r\n\"} 1\nevil_total 7")
	run.Experiment, run.Model, run.PriceCurrency = "\xff\xfe{}\\", strings.Repeat("x", 5000), "\x00"
	long := strings.Repeat("n", maxLabel)
	run.NodeIDs = []string{"", "\xff", "\xfe", long + "1", long + "2", "<script>", "a\nb"}
	require.NoError(t, s.StartRun(t.Context(), run))
	record(t, s, at(run.Run, "<script>", 3, event.Event{Type: event.TypeState, State: "state of\nmind"}),
		at(run.Run, "<script>", 3, event.Event{Type: event.TypeRound, Round: &event.Round{Reward: math.NaN()}}))
	c := collector(r, 10, true)
	page := scrape(t, c) // uses a pedantic registry
	require.Equal(t, 1.0, page["swarm_node_state,<script>,other"])
	require.NotContains(t, page, "swarm_node_reward,<script>", "its reward is no number")
	require.Equal(t, 5, testutil.CollectAndCount(c, "swarm_rounds_total"), "labels that become equal are one series")
	for line := range strings.Lines(text(t, c)) {
		require.Regexp(t, `^(# (HELP|TYPE) )?swarm_`, line)
		require.Less(t, len(line), 1500)
	}
}

func TestAPageServesEveryScrapeOfASecond(t *testing.T) {
	s, r := openStore(t)
	liveRun(t, s)
	c := collector(r, 25, true)
	require.Equal(t, 2.0, scrape(t, c)["swarm_rounds_total,node_0"])
	record(t, s, at("r1", "node_0", 30, event.Event{Type: event.TypeRound, Round: &event.Round{Round: 2, Reward: 0.5}}))
	require.Equal(t, 2.0, scrape(t, c)["swarm_rounds_total,node_0"])
	c.now = func() time.Time { return time.Unix(int64(began)+27, 0) }
	require.Equal(t, 3.0, scrape(t, c)["swarm_rounds_total,node_0"])
}

func TestHandler(t *testing.T) {
	s, r := openStore(t)
	server := httptest.NewServer(Handler(r, func(store.Snapshot, float64) bool { return true }))
	defer server.Close()
	get := func() (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	status, body := get()
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "# EOF\n", body, "an empty database")
	liveRun(t, s)
	require.Eventually(t, func() bool {
		_, body = get()
		return strings.Contains(body, `swarm_rounds_total{experiment="4loc4ext",node="node_0",run="r1"} 2.0`)
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, r.Close())
	require.Eventually(t, func() bool {
		status, body = get()
		return status == http.StatusInternalServerError
	}, time.Minute, 20*time.Millisecond)
	require.Contains(t, body, "database")
}

// BenchmarkScrape measures an uncached page of four running runs with 8 nodes. "ratio" compares its time with that of
// the four snapshots alone.
func BenchmarkScrape(b *testing.B) {
	s, r := openStore(b)
	for n := range 4 {
		run := aRun(fmt.Sprint("r", n))
		require.NoError(b, s.StartRun(b.Context(), run))
		for i := range 100 {
			for node := range 8 {
				require.NoError(b, s.Record(b.Context(), at(run.Run, fmt.Sprint("node_", node), float64(10*i), event.Event{Type: event.TypeRound,
					Round: &event.Round{Round: i, Reward: 0.25}})))
			}
		}
	}
	require.NoError(b, s.Flush(b.Context()))
	registry := prom.NewRegistry()
	c := collector(r, 1000, true)
	registry.MustRegister(c)
	for b.Loop() {
		c.made = time.Time{}
		if _, err := registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
	page := b.Elapsed().Seconds() / float64(b.N)
	started := time.Now()
	const times = 20
	for range times {
		for n := range 4 {
			_, err := r.Snapshot(b.Context(), fmt.Sprint("r", n))
			require.NoError(b, err)
		}
	}
	b.ReportMetric(page*1000, "ms")
	b.ReportMetric(page/(time.Since(started).Seconds()/times), "ratio")
}
