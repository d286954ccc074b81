package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// patience bounds all waits of these tests.
const patience = 2 * time.Minute

// hostile is text that a model or another user could write.
const hostile = `</script><script>document.title="owned"</script><img src=x onerror="document.title='owned'">` + "\u2028&amp; {{.}} ${1}"

// swarm is a database with its writer and a dashboard over it.
type swarm struct {
	t      testing.TB
	path   string
	store  *store.Store
	server *Server
	dead   atomic.Bool // the coordinators are dead
}

// newSwarm creates a dashboard for a database that does not exist yet.
func newSwarm(t testing.TB, change ...func(*Options)) *swarm {
	t.Helper()
	s := &swarm{t: t, path: filepath.Join(t.TempDir(), "swarm.db")}
	o := Options{
		Path: s.path, Version: "test", interval: 20 * time.Millisecond,
		Alive: func(x store.Snapshot, _ float64) bool { return !s.dead.Load() && x.Run.State == store.RunRunning },
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	s.server, err = New(o)
	require.NoError(t, err)
	return s
}

// serve serves the dashboard until the test ends.
func (s *swarm) serve() string {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	return s.serveOn(listener)
}

func (s *swarm) serveOn(listener net.Listener) string {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(ctx, listener) }()
	s.t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			require.NoError(s.t, err)
		case <-time.After(patience):
			s.t.Error("Serve goes on after its context has ended")
		}
	})
	return "http://" + listener.Addr().String()
}

// open opens the database for writing.
func (s *swarm) open() {
	s.t.Helper()
	var err error
	s.store, err = store.Open(s.t.Context(), s.path, store.Options{MaxDelay: 5 * time.Millisecond, Queue: 1 << 20})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { s.store.Close() })
}

// start starts a run with a number of nodes.
func (s *swarm) start(run, experiment string, nodes, rounds int) {
	s.t.Helper()
	r := store.Run{
		Run: run, Experiment: experiment, Model: "nano", Device: "cpu", Seed: 42, Rounds: rounds, NumTrainSamples: 4, NumTransplantTrees: 4,
		NumGenerations: 8, Config: json.RawMessage(`{"rounds": 1}`), PricePerHour: 1.5, PriceCurrency: "$", Started: event.Now(), Host: "here", PID: 1,
	}
	for i := range nodes {
		r.NodeIDs = append(r.NodeIDs, fmt.Sprint("node_", i))
	}
	require.NoError(s.t, s.store.StartRun(s.t.Context(), r))
}

func (s *swarm) record(run string, events ...event.Event) {
	s.t.Helper()
	for _, e := range events {
		e.Run = run
		if e.Time == 0 {
			e.Time = event.Now()
		}
		require.NoError(s.t, s.store.Record(s.t.Context(), e))
	}
}

// round records a round of every node.
func (s *swarm) round(run string, nodes, round int) {
	s.t.Helper()
	for i := range nodes {
		s.record(run, event.Event{Type: event.TypeRound, Node: fmt.Sprint("node_", i), Round: &event.Round{
			Round: round, Reward: 0.25 + 0.1*math.Sin(float64(round)/50) + float64(i)/100, Completions: 32, StepTime: 2, GenerateTime: 1, UpdateTime: 0.5,
			TrainedOwn: 4, TrainedExternal: 4,
			Tasks: []event.TaskReward{{Task: "basic_arithmetic", Completions: 32, RewardSum: 8}},
			Peers: []event.Peer{{Node: fmt.Sprint("node_", (i+1)%nodes), Available: 4, Used: 2, Filtered: 1, Rejected: 1}},
		}})
	}
}

// wait waits until the recorded rounds are in the database.
func (s *swarm) wait(run string, nodeRounds int) {
	s.t.Helper()
	reader, err := store.OpenReader(s.t.Context(), s.path)
	require.NoError(s.t, err)
	defer reader.Close()
	require.Eventually(s.t, func() bool {
		runs, err := reader.Runs(s.t.Context(), store.Filter{})
		require.NoError(s.t, err)
		for _, r := range runs {
			if r.Run.Run == run {
				return r.NodeRounds >= nodeRounds
			}
		}
		return false
	}, patience, 2*time.Millisecond)
}

// get calls the handler directly.
func (s *swarm) get(target string, header ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, target, nil)
	request.Host = "127.0.0.1:8420"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
		request.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, request)
	return w
}

// json requests a document.
func (s *swarm) json(target string) map[string]any {
	s.t.Helper()
	w := s.get(target)
	require.Equal(s.t, http.StatusOK, w.Code, "%s: %s", target, w.Body)
	require.Equal(s.t, "application/json; charset=utf-8", w.Header().Get("Content-Type"))
	var document map[string]any
	require.NoError(s.t, json.Unmarshal(w.Body.Bytes(), &document), target)
	return document
}

// finished returns a swarm with one small, finished run.
func finished(t testing.TB, change ...func(*Options)) *swarm {
	t.Helper()
	s := newSwarm(t, change...)
	s.open()
	s.start("a-1", "a", 2, 3)
	s.record("a-1", event.Event{Type: event.TypeRunStarted})
	for round := range 3 {
		s.round("a-1", 2, round)
	}
	s.record("a-1",
		event.Event{Type: event.TypeMemory, Node: "node_0", Memory: &event.Memory{
			RSSBytes: 5, PeakRSSBytes: 6, DeviceBytes: 70, DevicePeakBytes: 80, ResidentBytes: 40, GenerateBytes: 20, UpdateBytes: 30,
			BudgetBytes: 100, MicroBatch: 4,
		}},
		event.Event{Type: event.TypeDevice, Device: &event.Device{
			UUID: "GPU-1", Name: "H100", MemoryTotalBytes: 1000, MemoryUsedBytes: 300, UnattributedBytes: 50, Utilization: 0.5, PowerWatts: -1,
			TemperatureCelsius: 60,
		}},
		event.Event{Type: event.TypeEval, Node: "node_0", Eval: &event.Eval{
			Round: 3, Set: "s", Generations: 2, Questions: []event.EvalQuestion{{Task: "basic_arithmetic", Correct: 1, RewardSum: 1}},
		}},
		event.Event{Type: event.TypeWarning, Node: "node_1", Message: hostile},
		event.Event{Type: event.TypeRunEnded, State: store.RunDone},
	)
	require.NoError(t, s.store.Close())
	return s
}

func body(t testing.TB, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}
