//go:build !race

package dashboard

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// joins adds a worker with one node, and a round of the coordinator's node that judges its rollouts.
func (s *swarm) joins(run, worker string, from, available, rejected int) {
	s.t.Helper()
	node := worker + "_0"
	require.NoError(s.t, s.store.SaveWorker(s.t.Context(), run, store.Worker{Worker: worker, Host: hostile, Device: "NVIDIA T4", Version: "test",
		State: event.WorkerConnected, FirstSeen: event.Now(), LastSeen: event.Now(), Nodes: 1, Offered: 12, Refused: 3, Bytes: 1 << 20, Reason: hostile}))
	s.record(run, event.Event{Type: event.TypeWorker, Worker: worker, State: event.WorkerConnected},
		event.Event{Type: event.TypeJoin, Node: node, Worker: worker, RoundIndex: from, Message: "gpt2 on NVIDIA T4"},
		event.Event{Type: event.TypeState, Node: node, Worker: worker, State: event.StateGenerating, RoundIndex: from},
		event.Event{Type: event.TypeRound, Node: "node_0", Round: &event.Round{Round: from, Reward: 0.5, Completions: 8,
			Peers: []event.Peer{{Node: node, Available: available, Rejected: rejected, Used: available / 2}}}})
}

// shared returns a run of two nodes that one worker joined, and a second worker that is away.
func shared(t *testing.T) *swarm {
	s := newSwarm(t)
	s.open()
	s.start("shared-1", "shared", 2, 40)
	for round := range 5 {
		s.round("shared-1", 2, round)
	}
	s.joins("shared-1", "anna", 5, 6, 2)
	s.joins("shared-1", "bob", 6, 4, 0)
	s.record("shared-1", event.Event{Type: event.TypeLeave, Node: "bob_0", Worker: "bob", Message: "silent for 15s"},
		event.Event{Type: event.TypeWorker, Worker: "bob", State: event.WorkerAway, Message: "silent for 15s"})
	require.NoError(t, s.store.Flush(t.Context()))
	return s
}

func TestWorkersDocument(t *testing.T) {
	s := shared(t)
	rows := s.json("/api/runs/shared-1/workers")["workers"].([]any)
	require.Len(t, rows, 2)
	bob, anna := rows[0].(map[string]any), rows[1].(map[string]any)
	require.Equal(t, []any{"anna", "connected", 0.75, 0.5, 12.0, 3.0}, []any{anna["worker"], anna["state"], anna["useful_ratio"], anna["used_ratio"],
		anna["offered"], anna["refused"]})
	require.Equal(t, []any{"bob", "away", 1.0}, []any{bob["worker"], bob["state"], bob["useful_ratio"]})
	s.start("alone-1", "alone", 1, 4)
	require.Empty(t, s.json("/api/runs/alone-1/workers")["workers"])

	status := s.json("/api/runs/shared-1")["status"].(map[string]any)
	require.EqualValues(t, []any{2.0, 1.0, 3.0, 4.0}, []any{status["workers"], status["workers_connected"], status["nodes_alive"], status["nodes_planned"]})
	for _, row := range s.json("/api/runs/shared-1/memory")["ledger"].([]any) {
		require.Contains(t, row.(map[string]any)["node"], "node_", "memory is this host's")
	}
}

// TestWorkersAreShown draws the overview of a run with workers, wide and narrow, and audits it. A worker that joins
// later appears without a reload.
func TestWorkersAreShown(t *testing.T) {
	ctx, said := openChromium(t)
	s := shared(t)
	base := s.serve()
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {390, "dark"}} {
		draw(t, ctx, base+"/?"+look.scheme+"#/runs/shared-1", look.width, look.scheme)
		until(t, ctx, `document.querySelectorAll("tr[data-worker]").length === 2 && document.querySelector("#view[data-ready]") !== null`)
		until(t, ctx, `document.querySelector("tr[data-worker=anna]").textContent.includes("75 %")`)
		until(t, ctx, `document.querySelector("tr[data-worker=bob] .badge.warn").textContent === "away"`)
		until(t, ctx, `document.querySelector(".node[data-node=bob_0]").dataset.state === "away"`)
		until(t, ctx, `document.querySelector(".node[data-node=anna_0]").textContent.includes("of anna · from round 5")`)
		until(t, ctx, `document.querySelector(".events").textContent.includes("joins at round 5: gpt2 on NVIDIA T4")`)
		keepPicture(t, ctx, fmt.Sprintf("workers-%d-%s.png", look.width, look.scheme))
		wrong, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](audit))
		require.NoError(t, err)
		require.Empty(t, wrong)
	}
	require.Empty(t, said.all())
}

func TestTheFirstWorkerAppearsWhileThePageIsOpen(t *testing.T) {
	ctx, said := openChromium(t)
	s := newSwarm(t)
	s.open()
	s.start("shared-1", "shared", 2, 40)
	s.round("shared-1", 2, 0)
	s.wait("shared-1", 2)
	draw(t, ctx, s.serve()+"/#/runs/shared-1", 1280, "light")
	until(t, ctx, `document.querySelector("#view[data-ready]") !== null && document.documentElement.dataset.live === "live"`)
	require.True(t, inPage[bool](t, ctx, `document.querySelector("tr[data-worker]") === null`))
	s.joins("shared-1", "anna", 1, 6, 2)
	until(t, ctx, `document.querySelector("tr[data-worker=anna]") !== null && document.querySelector(".node[data-node=anna_0]") !== null`)
	require.Empty(t, said.all())
}
