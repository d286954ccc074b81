package prometheus

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const began = 1_800_000_000.0

func openStore(t testing.TB) (*store.Store, *store.Reader) {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "swarm.db"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	r, err := store.OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return s, r
}

func aRun(name string) store.Run {
	return store.Run{
		Run: name, Experiment: "4loc4ext", Preset: "paper", Model: "gpt2", Device: "cuda:0", Seed: 42, Rounds: 100, NodeIDs: []string{"node_0", "node_1"},
		NumTrainSamples: 4, NumTransplantTrees: 4, NumGenerations: 8, PricePerHour: 3.6, PriceCurrency: "$", Started: began,
	}
}

func record(t testing.TB, s *store.Store, events ...event.Event) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, s.Record(context.Background(), e))
	}
	require.NoError(t, s.Flush(context.Background()))
}

func at(run, node string, after float64, e event.Event) event.Event {
	e.Run, e.Node, e.Time = run, node, began+after
	return e
}

// liveRun is a run of two nodes, one on a GPU and one that has yet to load, seen 25 s after its start.
func liveRun(t testing.TB, s *store.Store) {
	require.NoError(t, s.StartRun(t.Context(), aRun("r1")))
	step := func(after float64, node, cause, action string) event.Event {
		return at("r1", node, after, event.Event{Type: event.TypeMemoryStep,
			MemoryStep: &event.MemoryStep{Phase: "update", Cause: cause, Action: action}})
	}
	for i := range 2 {
		record(t, s, at("r1", "node_0", 10*float64(i+1), event.Event{Type: event.TypeRound, Round: &event.Round{Round: i, Reward: 0.25 * float64(i+1)}}))
	}
	record(t, s,
		at("r1", "node_0", 1, event.Event{Type: event.TypeSpawn, PID: 7}),
		at("r1", "node_0", 21, event.Event{Type: event.TypeMemory, Memory: &event.Memory{RSSBytes: 1e9, PeakRSSBytes: 2e9, PSSBytes: 3e8, PeakPSSBytes: 4e8, DeviceBytes: 5e9,
			DevicePeakBytes: 7e9, ResidentBytes: 2e9, GenerateBytes: 3e9, UpdateBytes: 4e9, BudgetBytes: 8e9}}),
		at("r1", "node_0", 22, event.Event{Type: event.TypeState, State: event.StateGenerating, RoundIndex: 2}),
		at("r1", "node_1", 22, event.Event{Type: event.TypeRestart}),
		step(5, "node_0", event.MemoryOwnCap, event.ActionClearCache), step(6, "node_1", event.MemoryOwnCap, event.ActionClearCache),
		step(7, "node_0", "made up", event.ActionShed), step(8, "node_0", "another", event.ActionShed),
		at("r1", "", 20, event.Event{Type: event.TypeDevice, Device: &event.Device{UUID: "GPU-1", Name: "H100", MemoryTotalBytes: 80e9,
			MemoryUsedBytes: 9e9, UnattributedBytes: -1, Utilization: 0.5, PowerWatts: 300, PowerLimitWatts: -1, TemperatureCelsius: 60}}),
	)
}

// collector sees the database so many seconds after began, with coordinators alive as told.
func collector(r *store.Reader, after float64, alive bool) *Collector {
	c := NewCollector(r, func(store.Snapshot, float64) bool { return alive })
	c.now = func() time.Time { return time.Unix(0, int64((began+after)*1e9)) }
	return c
}

const livePage = `
# HELP swarm_rounds_total Rounds done by the node.
# TYPE swarm_rounds_total counter
swarm_rounds_total{experiment="4loc4ext",node="node_0",run="r1"} 2
swarm_rounds_total{experiment="4loc4ext",node="node_1",run="r1"} 0
# HELP swarm_node_gpu_memory_bytes Device memory of the node: allocated, its peak, resident between phases, transient beyond that, its budget.
# TYPE swarm_node_gpu_memory_bytes gauge
swarm_node_gpu_memory_bytes{experiment="4loc4ext",kind="allocated",node="node_0",run="r1"} 5e+09
swarm_node_gpu_memory_bytes{experiment="4loc4ext",kind="budget",node="node_0",run="r1"} 8e+09
swarm_node_gpu_memory_bytes{experiment="4loc4ext",kind="peak",node="node_0",run="r1"} 7e+09
swarm_node_gpu_memory_bytes{experiment="4loc4ext",kind="resident",node="node_0",run="r1"} 2e+09
swarm_node_gpu_memory_bytes{experiment="4loc4ext",kind="transient",node="node_0",run="r1"} 4e+09
# HELP swarm_node_state 1 for the node's current state.
# TYPE swarm_node_state gauge
swarm_node_state{experiment="4loc4ext",node="node_0",run="r1",state="generating"} 1
swarm_node_state{experiment="4loc4ext",node="node_1",run="r1",state="queued"} 1
# HELP swarm_out_of_memory_total Steps taken because memory ran out.
# TYPE swarm_out_of_memory_total counter
swarm_out_of_memory_total{action="clear_cache",cause="own_cap",experiment="4loc4ext",run="r1"} 2
swarm_out_of_memory_total{action="shed",cause="other",experiment="4loc4ext",run="r1"} 2
# HELP swarm_gpu_utilization_ratio Share of time in which the GPU computed, 0 to 1.
# TYPE swarm_gpu_utilization_ratio gauge
swarm_gpu_utilization_ratio{experiment="4loc4ext",gpu="0",run="r1",uuid="GPU-1"} 0.5
# HELP swarm_gpu_memory_bytes Memory of the GPU: total, used, and used by none of the run's nodes.
# TYPE swarm_gpu_memory_bytes gauge
swarm_gpu_memory_bytes{experiment="4loc4ext",gpu="0",kind="total",run="r1",uuid="GPU-1"} 8e+10
swarm_gpu_memory_bytes{experiment="4loc4ext",gpu="0",kind="used",run="r1",uuid="GPU-1"} 9e+09
# HELP swarm_run_info Always 1. The labels describe the run; config is I/J.
# TYPE swarm_run_info gauge
swarm_run_info{config="4/4",device="cuda:0",experiment="4loc4ext",model="gpt2",preset="paper",run="r1",seed="42"} 1
# HELP swarm_run_state 1 for the run's current state.
# TYPE swarm_run_state gauge
swarm_run_state{experiment="4loc4ext",run="r1",state="running"} 1
`

func TestPageOfARun(t *testing.T) {
	s, r := openStore(t)
	liveRun(t, s)
	c := collector(r, 25, true)
	var names []string
	for line := range strings.Lines(livePage) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(livePage), names...))
	require.Zero(t, testutil.CollectAndCount(c, "swarm_gpu_power_limit_watts"), "the driver doesn't tell")
	require.Zero(t, testutil.CollectAndCount(c, "swarm_run_eta_seconds"), "there is no pace yet")
}

// sharedRun gives liveRun's run a worker whose node's rollouts node_0 looked at.
func sharedRun(t testing.TB, s *store.Store) {
	join := at("r1", "anna_0", 3, event.Event{Type: event.TypeJoin, Worker: "anna", RoundIndex: 3})
	judged := at("r1", "node_0", 40, event.Event{Type: event.TypeRound, Round: &event.Round{Round: 2, Reward: 0.5,
		Peers: []event.Peer{{Node: "anna_0", Available: 6, Rejected: 2, Used: 3}}}})
	record(t, s, join, judged)
	require.NoError(t, s.SaveWorker(t.Context(), "r1", store.Worker{Worker: "anna", Host: "h", Device: "cpu", State: event.WorkerConnected,
		StateTime: began + 3, LastSeen: began + 24, Nodes: 1, Offered: 7, Refused: 2, Bytes: 1000},
		store.Worker{Worker: "bob", State: event.WorkerBanned, StateTime: began + 3}))
}

const workersPage = `
# HELP swarm_worker_up 1 for a worker that is connected, else 0.
# TYPE swarm_worker_up gauge
swarm_worker_up{experiment="4loc4ext",run="r1",worker="anna"} 1
swarm_worker_up{experiment="4loc4ext",run="r1",worker="bob"} 0
# HELP swarm_worker_useful_ratio Share of the worker's rollouts that others' nodes did not reject, 0 to 1; absent if no node received any.
# TYPE swarm_worker_useful_ratio gauge
swarm_worker_useful_ratio{experiment="4loc4ext",run="r1",worker="anna"} 0.75
# HELP swarm_worker_used_ratio Share of the worker's rollouts received by others' nodes that they trained on, 0 to 1; absent if no node received any.
# TYPE swarm_worker_used_ratio gauge
swarm_worker_used_ratio{experiment="4loc4ext",run="r1",worker="anna"} 0.5
# HELP swarm_worker_batches_refused_total Batches of these that the coordinator refused.
# TYPE swarm_worker_batches_refused_total counter
swarm_worker_batches_refused_total{experiment="4loc4ext",run="r1",worker="anna"} 2
swarm_worker_batches_refused_total{experiment="4loc4ext",run="r1",worker="bob"} 0
# HELP swarm_worker_last_seen_timestamp_seconds Time of the worker's last message, Unix time.
# TYPE swarm_worker_last_seen_timestamp_seconds gauge
swarm_worker_last_seen_timestamp_seconds{experiment="4loc4ext",run="r1",worker="anna"} 1.800000024e+09
`

func TestPageOfARunWithWorkers(t *testing.T) {
	s, r := openStore(t)
	liveRun(t, s)
	sharedRun(t, s)
	require.NoError(t, testutil.CollectAndCompare(collector(r, 45, true), strings.NewReader(workersPage), "swarm_worker_up", "swarm_worker_useful_ratio",
		"swarm_worker_used_ratio", "swarm_worker_batches_refused_total", "swarm_worker_last_seen_timestamp_seconds"))
}

func TestNamesAndUnitsPassPromlint(t *testing.T) {
	s, r := openStore(t)
	liveRun(t, s)
	record(t, s, at("r1", "node_1", 23, event.Event{Type: event.TypeRound, Round: &event.Round{Round: 0, Reward: 0.5}}),
		at("r1", "node_1", 24, event.Event{Type: event.TypeRound, Round: &event.Round{Round: 1, Reward: 0.5}}),
		at("r1", "", 24, event.Event{Type: event.TypeDevice, Device: &event.Device{UUID: "GPU-1", PowerLimitWatts: 700}}))
	sharedRun(t, s)
	c := collector(r, 25, true)
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)
	registry := prom.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, len(described), "every family is on the page that was checked")
}

// The values are those of `swarm status`.
func TestValuesAreTheStatus(t *testing.T) {
	s, r := openStore(t)
	liveRun(t, s)
	for i := range 6 {
		record(t, s, at("r1", "node_1", 11*float64(i+1), event.Event{Type: event.TypeRound, Round: &event.Round{Round: i, Reward: 0.125}}),
			at("r1", "node_0", 12*float64(i+1), event.Event{Type: event.TypeRound, Round: &event.Round{Round: i, Reward: 0.375}}))
	}
	snapshot, err := r.Snapshot(t.Context(), "r1")
	require.NoError(t, err)
	want := stats.NewStatus(snapshot, began+75, true)
	page := scrape(t, collector(r, 75, true))
	for name, value := range map[string]float64{
		`swarm_cumulative_reward`: want.CumulativeReward, `swarm_run_reward`: *want.Reward, `swarm_run_eta_seconds`: *want.ETASeconds,
		`swarm_run_round_duration_seconds`: *want.SecondsPerRound, `swarm_run_active_seconds`: want.ActiveSeconds,
		`swarm_run_elapsed_seconds`: want.ElapsedSeconds, `swarm_run_cost,$`: *want.Cost, `swarm_run_projected_cost,$`: *want.ProjectedCost,
		`swarm_run_rounds`: float64(want.Round), `swarm_node_reward,node_0`: *want.Nodes[0].Reward,
		`swarm_node_recent_reward,node_1`: *want.Nodes[1].RecentReward, `swarm_node_cumulative_reward,node_1`: want.Nodes[1].CumulativeReward,
		`swarm_node_restarts_total,node_1`: 1, `swarm_run_nodes_alive`: 2, `swarm_run_start_time_seconds`: began,
		`swarm_node_host_memory_bytes,peak,node_0`:              2e9,
		`swarm_node_host_memory_bytes,proportional,node_0`:      3e8,
		`swarm_node_host_memory_bytes,proportional_peak,node_0`: 4e8,
	} {
		got, ok := page[name]
		require.True(t, ok, name)
		require.InDelta(t, value, got, 0, name)
	}
}

// scrape returns a page's values by name and the values of their labels but run and experiment.
func scrape(t testing.TB, c *Collector) map[string]float64 {
	t.Helper()
	registry := prom.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	page := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				if l.GetName() != "run" && l.GetName() != "experiment" {
					key += "," + l.GetValue()
				}
			}
			page[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return page
}

// text returns a page as it is served.
func text(t testing.TB, c *Collector) string {
	t.Helper()
	registry := prom.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code, answer.Body.String())
	return answer.Body.String()
}

func TestTheLastEndedRunIsToldForAnHour(t *testing.T) {
	s, r := openStore(t)
	liveRun(t, s)
	second := aRun("r2")
	second.Started = began + 30
	require.NoError(t, s.StartRun(t.Context(), second))
	states := func(after float64, alive bool) (states []string) {
		c := collector(r, after, alive)
		for _, run := range []string{"r1", "r2"} {
			for line := range strings.Lines(text(t, c)) {
				if strings.HasPrefix(line, "swarm_run_state{") && strings.Contains(line, `run="`+run+`"`) {
					_, state, _ := strings.Cut(line, `state="`)
					states = append(states, run+" "+strings.TrimSpace(state))
				}
			}
		}
		return states
	}
	require.Equal(t, []string{`r1 running"} 1`, `r2 running"} 1`}, states(40, true))
	record(t, s, at("r1", "", 50, event.Event{Type: event.TypeRunEnded, State: store.RunDone}))
	require.Equal(t, []string{`r1 done"} 1`, `r2 running"} 1`}, states(60, true))
	record(t, s, at("r2", "", 70, event.Event{Type: event.TypeRunEnded, State: store.RunStopped}))
	require.Equal(t, []string{`r2 stopped"} 1`}, states(80, true))
	require.NotEmpty(t, states(70+3599, true))
	require.Empty(t, states(70+3600, true))
	require.Zero(t, testutil.CollectAndCount(collector(r, 80, true), "swarm_gpu_power_watts"), "what the card does now is not the run's any more")

	third := aRun("r3")
	third.Started = began + 100
	require.NoError(t, s.StartRun(t.Context(), third))
	require.Equal(t, 1.0, scrape(t, collector(r, 120, false))["swarm_run_state,crashed"], "its coordinator is gone")
	_, told := scrape(t, collector(r, 9000, false))["swarm_run_state,crashed"]
	require.False(t, told)
}

func TestStaleGPUSamplesAreLeftOut(t *testing.T) {
	s, r := openStore(t)
	liveRun(t, s)
	require.Equal(t, 1, testutil.CollectAndCount(collector(r, 70, true), "swarm_gpu_power_watts"))
	require.Zero(t, testutil.CollectAndCount(collector(r, 90, true), "swarm_gpu_power_watts"))
}
