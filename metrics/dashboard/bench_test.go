package dashboard

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// The paper's four configurations.
var paper = []string{"8loc0ext", "6loc2ext", "4loc4ext", "2loc6ext"}

const (
	paperNodes  = 8
	paperRounds = 2000
)

// newPaper returns a database of four finished runs with 8 nodes and 2000 rounds. change modifies the options of its
// dashboard.
func newPaper(t testing.TB, change ...func(*Options)) *swarm {
	t.Helper()
	s := newSwarm(t, change...)
	s.open()
	for _, name := range paper {
		run := name + "-1"
		s.start(run, name, paperNodes, paperRounds)
		for round := range paperRounds {
			s.round(run, paperNodes, round)
			if round%5 == 0 {
				s.memory(run, paperNodes, float64(round)*2)
			}
		}
		s.wait(run, paperNodes*paperRounds)
		s.record(run, event.Event{Type: event.TypeRunEnded, State: store.RunDone})
	}
	return s
}

// memory records a sample of every node and of their GPU, a number of seconds after now.
func (s *swarm) memory(run string, nodes int, after float64) {
	s.t.Helper()
	at := event.Now() + after
	for i := range nodes {
		s.record(run, event.Event{Type: event.TypeMemory, Time: at, Node: fmt.Sprint("node_", i), Memory: &event.Memory{
			RSSBytes: 2e9, PeakRSSBytes: 3e9, DeviceBytes: 6e9, DevicePeakBytes: 7e9, ResidentBytes: 2e9, GenerateBytes: 4e9, UpdateBytes: 5e9,
			BudgetBytes: 9e9,
		}})
	}
	s.record(run, event.Event{Type: event.TypeDevice, Time: at, Device: &event.Device{
		UUID: "GPU-1", Name: "H100", MemoryTotalBytes: 80e9, MemoryUsedBytes: 60e9, UnattributedBytes: 1e9, Utilization: 0.9, PowerWatts: 400,
	}})
}

// working records that every node is working on a round.
func (s *swarm) working(run string, nodes, round int) {
	s.t.Helper()
	for i := range nodes {
		s.record(run, event.Event{Type: event.TypeState, Node: fmt.Sprint("node_", i), State: event.StateGenerating, RoundIndex: round})
	}
}

// BenchmarkAPI measures each request of the page over 4 x 8 x 2000 rounds. Cold: the server has just started. Warm: it
// has answered the same request before.
func BenchmarkAPI(b *testing.B) {
	s := newPaper(b)
	for _, path := range []string{
		"/api/runs", "/api/compare", "/api/runs/4loc4ext-1", "/api/runs/4loc4ext-1/curve?metric=reward&window=100&points=600",
		"/api/runs/4loc4ext-1/tasks", "/api/runs/4loc4ext-1/evaluations", "/api/runs/4loc4ext-1/peers", "/api/runs/4loc4ext-1/memory",
		"/api/runs/4loc4ext-1/events",
	} {
		for _, state := range []string{"cold", "warm"} {
			b.Run(path+"/"+state, func(b *testing.B) {
				var size int
				var worst time.Duration
				for b.Loop() {
					if state == "cold" {
						b.StopTimer()
						var err error
						s.server, err = New(s.server.options)
						require.NoError(b, err)
						b.StartTimer()
					}
					began := time.Now()
					w := s.get(path)
					worst = max(worst, time.Since(began))
					require.Equal(b, http.StatusOK, w.Code, w.Body)
					size = w.Body.Len()
				}
				b.ReportMetric(float64(size), "bytes")
				b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
			})
		}
	}
}

// BenchmarkLivePage measures the cost of one second of a live page: a poll of the database after a round of 8 nodes,
// its messages, and the curve that the page then requests. The database also has three finished runs and 2000 rounds of
// the live run. cpu-% is the share of one core at one such second per second.
func BenchmarkLivePage(b *testing.B) {
	s := newPaper(b)
	s.start("live-1", "live", paperNodes, 10*paperRounds)
	round := 0
	for ; round < paperRounds; round++ {
		s.round("live-1", paperNodes, round)
	}
	s.wait("live-1", round*paperNodes)
	s.working("live-1", paperNodes, round)
	require.NoError(b, s.store.Flush(b.Context()))
	w, _ := s.server.board.watch(b.Context(), "", 0, false)
	s.get("/api/runs/live-1/curve")
	for b.Loop() {
		b.StopTimer()
		s.round("live-1", paperNodes, round)
		round++
		s.working("live-1", paperNodes, round)
		s.wait("live-1", round*paperNodes)
		b.StartTimer()
		s.server.board.mu.Lock()
		err := s.server.board.look(b.Context())
		s.server.board.mu.Unlock()
		require.NoError(b, err)
		require.Equal(b, http.StatusOK, s.get("/api/runs/live-1/curve").Code)
		for len(w.queue) > 0 {
			<-w.queue
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e9*100, "cpu-%")
}
